from torch.utils import flop_counter

__all__ = ["flop_counter"]
