import contextlib

import torch


class DataDependentOutputException(RuntimeError):
    pass


class DynamicOutputShapeException(RuntimeError):
    pass


class FakeTensorMode:
    def __init__(self, allow_non_fake_inputs=False):
        assert allow_non_fake_inputs

    def __enter__(self):
        torch.state["fake"] += 1
        return self

    def __exit__(self, *_):
        torch.state["fake"] -= 1

    def from_tensor(self, tensor):
        return torch.Tensor(tensor.shape, tensor.dtype)


@contextlib.contextmanager
def unset_fake_temporarily():
    before, torch.state["fake"] = torch.state["fake"], 0
    yield
    torch.state["fake"] = before
