from types import SimpleNamespace

import torch
from torch.autograd import graph


def checkpoint(function, value, *, use_reentrant):
    """Keep the input only; compute again as soon as something saved is needed."""
    assert use_reentrant is False
    outer = graph.active[-1] if graph.active else graph.NO_HOOKS
    packed = outer.pack(value)
    again = []

    def compute_again(_packed):
        if not again:
            again.append(None)
            shape, dtype = outer.unpack(packed).shape, outer.unpack(packed).dtype
            function(torch.Tensor(shape, dtype, requires_grad=True))

    graph.active.append(SimpleNamespace(pack=lambda tensor: None, unpack=compute_again))
    try:
        return function(value)
    finally:
        graph.active.pop()
