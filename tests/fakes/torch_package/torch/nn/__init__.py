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

    def children(self):
        yield from self._modules.values()

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


class Linear(Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
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
            weight = torch.Tensor(weight.shape, dtype)
            value = value if value.dtype is dtype else torch.Tensor(value.shape, dtype)
        torch.count_flops(2 * value.numel() * outputs)
        if self.weight.requires_grad:
            torch.save(value)
        torch.save(weight)
        return torch.Tensor((*value.shape[:-1], outputs), dtype, requires_grad=True)


class ReLU(Module):
    def forward(self, value):
        result = torch.Tensor(value.shape, value.dtype, requires_grad=True)
        torch.save(result)
        return result


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
        torch.save(ids)
        return torch.Tensor((*ids.shape, self.weight.shape[1]), requires_grad=True)
