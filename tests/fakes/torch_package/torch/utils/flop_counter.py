import torch


class FlopCounterMode:
    def __init__(self, display=True, custom_mapping=None):
        self.total = 0

    def get_total_flops(self):
        return self.total

    def __enter__(self):
        torch.counters.append(self)
        return self

    def __exit__(self, *_):
        torch.counters.remove(self)
