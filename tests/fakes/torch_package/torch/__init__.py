"""A small stand-in for torch: shapes, dtypes, module hooks, saved-tensor hooks, fake tensors and
the FLOP counter, for as many operations as the tests need. It computes no values.

``allocations`` counts tensors that were created outside fake tensors.
"""

from __future__ import annotations

import contextlib
import math

__version__ = "2.6.0"
state = {"fake": 0, "autocast": 0, "allocations": 0}
counters: list = []


class dtype:  # noqa: N801 - torch's name
    def __init__(self, name, itemsize, is_floating_point):
        self.name, self.itemsize, self.is_floating_point = name, itemsize, is_floating_point


float32 = dtype("float32", 4, True)
bfloat16 = dtype("bfloat16", 2, True)
int64 = dtype("int64", 8, False)


class _Storage:
    def __init__(self, size):
        self._size = size
        self._cdata = id(self)

    def nbytes(self):
        return self._size


class Tensor:
    def __init__(self, shape, dtype=float32, *, storage=None, requires_grad=False):
        if storage is None and not state["fake"]:
            state["allocations"] += 1
        self.shape, self.dtype, self.requires_grad = tuple(shape), dtype, requires_grad
        self._storage = storage or _Storage(math.prod(self.shape) * dtype.itemsize)

    def untyped_storage(self):
        return self._storage

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.dtype.itemsize

    def dim(self):
        return len(self.shape)

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def reshape(self, rows, columns):
        rows = self.numel() // columns if rows == -1 else rows
        return Tensor(
            (rows, columns), self.dtype, storage=self._storage, requires_grad=self.requires_grad
        )

    def item(self):
        from torch._subclasses.fake_tensor import DataDependentOutputException

        raise DataDependentOutputException("aten._local_scalar_dense.default")


def zeros(shape, dtype=float32):
    return Tensor(shape, dtype)


def save(*tensors):
    """Keep tensors for the backward pass, as an operation does."""
    from torch.autograd import graph

    for tensor in tensors:
        if graph.active:
            graph.active[-1].pack(tensor)


def count_flops(flops):
    for counter in counters:
        counter.total += flops


@contextlib.contextmanager
def autocast(device, dtype):
    state["autocast"] += 1
    try:
        yield
    finally:
        state["autocast"] -= 1


from torch import autograd, nn, utils  # noqa: E402

__all__ = ["autograd", "nn", "utils"]
