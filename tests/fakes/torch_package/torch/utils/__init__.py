from torch.utils import _python_dispatch, checkpoint, flop_counter

__all__ = ["_python_dispatch", "checkpoint", "flop_counter"]
