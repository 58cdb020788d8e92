"""A small stand-in for torch: shapes, dtypes, module hooks, saved-tensor hooks, dispatch modes, the
backward pass, fake tensors and the FLOP counter, for as many operations as the tests need. It
computes no values.

``allocations`` counts tensors that were created outside fake tensors.
"""

from __future__ import annotations

import contextlib
import itertools
import math

__version__ = "2.6.0"
state = {"fake": 0, "autocast": 0, "allocations": 0}
counters: list = []
dispatch_modes: list = []


class dtype:  # noqa: N801 - torch's name
    def __init__(self, name, itemsize, is_floating_point):
        self.name, self.itemsize, self.is_floating_point = name, itemsize, is_floating_point


float32 = dtype("float32", 4, True)
bfloat16 = dtype("bfloat16", 2, True)
int64 = dtype("int64", 8, False)
bool8 = dtype("bool", 1, False)


class _Storage:
    numbers = itertools.count(1)

    def __init__(self, size):
        self._size = size
        self._cdata = next(_Storage.numbers)

    def nbytes(self):
        return self._size


class Tensor:
    def __init__(self, shape, dtype=float32, *, storage=None, requires_grad=False):
        if storage is None and not state["fake"]:
            state["allocations"] += 1
        self.shape, self.dtype, self.requires_grad = tuple(shape), dtype, requires_grad
        self.grad = self.node = None
        self._storage = storage or _Storage(math.prod(self.shape) * dtype.itemsize)
        if dispatch_modes:
            dispatch_modes[-1].__torch_dispatch__(lambda: self, ())

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

    def requires_grad_(self, requires_grad=True):
        self.requires_grad = requires_grad
        return self

    def reshape(self, rows, columns):
        rows = self.numel() // columns if rows == -1 else rows
        return operate((rows, columns), [self], dtype=self.dtype, storage=self._storage)

    def __add__(self, other):
        return operate(self.shape, [self, other], dtype=self.dtype)

    def __mul__(self, number):
        return operate(self.shape, [self], dtype=self.dtype)

    def backward(self):
        gradients = {self.node: Tensor(self.shape, self.dtype)}
        while gradients:
            node = max(gradients, key=lambda one: one.number)
            gradient = gradients.pop(node)
            node.run_backward(gradients)
            del gradient

    def item(self):
        from torch._subclasses.fake_tensor import DataDependentOutputException

        raise DataDependentOutputException("aten._local_scalar_dense.default")


def zeros(shape, dtype=float32):
    return Tensor(shape, dtype)


class Node:
    """One operation: what it saves, and what needs a gradient."""

    numbers = itertools.count()

    def __init__(self, inputs):
        self.number = next(Node.numbers)
        self.saved = []
        # Gradients have the shape of an input. A leaf keeps its own.
        self.inputs = [
            (one if one.node is None else one.node, one.shape, one.dtype)
            for one in inputs
            if one.requires_grad
        ]

    def run_backward(self, gradients):
        for unpack, packed in self.saved:
            unpack(packed)
        for target, shape, dtype in self.inputs:
            gradient = Tensor(shape, dtype)
            if isinstance(target, Node):
                gradients[target] = gradient
            else:
                target.grad = gradient
        self.saved.clear()


def operate(shape, inputs, *, dtype=float32, storage=None, saves=()):
    """Return the result of an operation. ``saves`` are tensors that it keeps; "result" is its own
    result.
    """
    from torch.autograd import graph

    needs_gradient = any(one.requires_grad for one in inputs)
    result = Tensor(shape, dtype, storage=storage, requires_grad=needs_gradient)
    if not needs_gradient:
        return result
    result.node = Node(inputs)
    for tensor in saves:
        kept = Tensor(shape, dtype, storage=result._storage) if tensor == "result" else tensor
        hooks = graph.active[-1] if graph.active else graph.NO_HOOKS
        result.node.saved.append((hooks.unpack, hooks.pack(kept)))
    return result


def native_dropout(value, rate, training):
    mask = Tensor(value.shape, bool8)
    return operate(value.shape, [value], dtype=value.dtype, saves=[mask]), mask


def linspace(start, end, steps):
    return Tensor((steps,)) if state["fake"] == 0 else _no_values()


def _no_values():
    raise AssertionError("linspace is called with fake tensors active")


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


from torch import autograd, nn, ops, utils  # noqa: E402

__all__ = ["autograd", "nn", "ops", "utils"]
