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
