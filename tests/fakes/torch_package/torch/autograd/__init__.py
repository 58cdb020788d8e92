from torch.autograd import graph

__all__ = ["graph"]
