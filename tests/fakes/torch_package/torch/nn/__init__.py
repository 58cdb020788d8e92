import math

import torch
from torch.nn import functional, init

__all__ = ["functional", "init"]


class Parameter(torch.Tensor):
    def __init__(self, data):
        super().__init__(data.shape, data.dtype, storage=data.untyped_storage(), requires_grad=True)


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook

    def remove(self):
        self._hooks.remove(self._hook)


class Module:
    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}
        self._before, self._after = [], []
        self.training = True

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        super().__setattr__(name, value)

    def register_buffer(self, name, tensor):
        self._buffers[name] = tensor
        super().__setattr__(name, tensor)

    def train(self, mode=True):
        for module in self.modules():
            module.training = mode
        return self

    def add_module(self, name, module):
        setattr(self, name, module)

    def children(self):
        yield from self._modules.values()

    def named_children(self):
        yield from self._modules.items()

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def named_parameters(self):
        seen = set()
        for prefix, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{prefix}.{name}" if prefix else name), parameter

    def parameters(self):
        for _, parameter in self.named_parameters():
            yield parameter

    def buffers(self):
        for module in self.modules():
            yield from module._buffers.values()

    def register_forward_pre_hook(self, hook, with_kwargs=False):
        assert with_kwargs
        self._before.append(hook)
        return _Handle(self._before, hook)

    def register_forward_hook(self, hook, with_kwargs=False):
        assert with_kwargs
        self._after.append(hook)
        return _Handle(self._after, hook)

    def __call__(self, *args, **kwargs):
        for hook in list(self._before):
            hook(self, args, kwargs)
        output = self.forward(*args, **kwargs)
        for hook in list(self._after):
            changed = hook(self, args, kwargs, output)
            output = output if changed is None else changed
        return output


class Sequential(Module):
    def __init__(self, *modules):
        super().__init__()
        for number, module in enumerate(modules):
            setattr(self, str(number), module)

    def forward(self, value):
        for module in self._modules.values():
            value = module(value)
        return value


class ModuleList(Sequential):
    def __init__(self, modules):
        super().__init__(*modules)

    def __iter__(self):
        return iter(self._modules.values())


class ModuleDict(Module):
    pass


class Conv1d(Module):
    pass


class Conv2d(Module):
    pass


class Conv3d(Module):
    pass


class Linear(Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.weight = Parameter(torch.zeros((outputs, inputs)))
        if bias:
            self.bias = Parameter(torch.zeros((outputs,)))
        else:
            self.bias = None

    def forward(self, value):
        outputs, inputs = self.weight.shape
        assert value.shape[-1] == inputs, "shapes cannot be multiplied"
        weight, dtype = self.weight, torch.float32
        if torch.state["autocast"]:
            dtype = torch.bfloat16
            weight = torch.operate(weight.shape, [weight], dtype=dtype)
            if value.dtype is not dtype:
                value = torch.operate(value.shape, [value], dtype=dtype)
        torch.count_flops(2 * value.numel() * outputs)
        leaves = [weight, value] if self.bias is None else [weight, value, self.bias]
        saves = [value] if self.weight.requires_grad else []
        saves += [weight] if value.requires_grad else []
        return torch.operate((*value.shape[:-1], outputs), leaves, dtype=dtype, saves=saves)


class ReLU(Module):
    def forward(self, value):
        return torch.operate(value.shape, [value], dtype=value.dtype, saves=["result"])


class Dropout(Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, value):
        return functional.dropout(value, self.rate, self.training)


class Flatten(Module):
    def forward(self, value):
        return value.reshape(-1, math.prod(value.shape[1:]))


class Embedding(Module):
    def __init__(self, rows, width):
        super().__init__()
        self.num_embeddings = rows
        self.weight = Parameter(torch.zeros((rows, width)))

    def forward(self, ids):
        assert not ids.is_floating_point(), "ids must be integers"
        return torch.operate((*ids.shape, self.weight.shape[1]), [self.weight], saves=[ids])
