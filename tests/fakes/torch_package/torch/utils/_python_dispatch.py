import torch


class TorchDispatchMode:
    """Sees the creation of each tensor."""

    def __enter__(self):
        torch.dispatch_modes.append(self)
        return self

    def __exit__(self, *_):
        torch.dispatch_modes.remove(self)
