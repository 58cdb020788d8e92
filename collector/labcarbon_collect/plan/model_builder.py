"""The model, built and called under fake tensors: without data, and with the operations of a
GPU where those of a CPU keep other tensors.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence, Tuple

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.inputs import InputSpec, build_inputs
from labcarbon_collect.plan.model_code import ModelCode, call_inputs


def build_model(torch: Any, code: ModelCode, fake_mode: Any) -> Any:
    """Return the model in training mode. Raises CommandError."""
    init = torch.nn.init
    with contextlib.ExitStack() as stack:
        # The one initialisation of torch that reads values, which fake tensors lack.
        stack.enter_context(
            _replaced(init, "_no_grad_trunc_normal_", lambda tensor, *_, **__: tensor)
        )
        stack.enter_context(_replaced(torch, "linspace", _linspace_with_values(torch, fake_mode)))
        try:
            model = code.build(**code.arguments)
        except CommandError:
            raise
        except Exception as error:
            raise CommandError(failure_text(torch, f"{code.name} fails", error)) from error
    if not isinstance(model, torch.nn.Module):
        raise CommandError(
            f"{code.name} returns {type(model).__name__}, not a torch.nn.Module. Return the model "
            f"from the function"
        )
    model.train()
    return model


def make_inputs(
    torch: Any, code: ModelCode, specs: Sequence[InputSpec], batch: int
) -> Tuple[Any, Any]:
    """Return the arguments of the model for a batch."""
    return build_inputs(torch, specs, batch) if specs else call_inputs(code, batch)


@contextlib.contextmanager
def gpu_operations(torch: Any) -> Iterator[None]:
    """Keep masks of dropout in bytes, and use fused attention with dropout too."""
    functional = torch.nn.functional
    original = functional.dropout
    attention = functional.scaled_dot_product_attention

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002
        if training and 0 < p < 1 and not inplace:
            return torch.native_dropout(input, p, True)[0]
        return original(input, p, training, inplace)

    def fused_attention(
        query: Any,
        key: Any,
        value: Any,
        mask: Any = None,
        dropout_p: float = 0.0,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        return attention(query, key, value, kwargs.pop("attn_mask", mask), 0.0, *args, **kwargs)

    with _replaced(functional, "dropout", dropout):
        with _replaced(functional, "scaled_dot_product_attention", fused_attention):
            yield


def failure_text(torch: Any, start: str, error: Exception) -> str:
    """Return the message for an error of the researcher's code."""
    fake_tensor = torch._subclasses.fake_tensor  # noqa: SLF001
    text = (str(error) or "no message").splitlines()[0]
    if isinstance(
        error,
        (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException),
    ):
        return (
            f"{start} without data: it reads a value of a tensor ({text}), as .item(), a condition "
            f"on a tensor or nonzero() do. Use a fixed value in that place, or estimate the model "
            f"from an ONNX file or a probe"
        )
    return f"{start}: {type(error).__name__}: {text}"


def _linspace_with_values(torch: Any, fake_mode: Any) -> Any:
    """Return torch.linspace whose results can be read, as rates of dropout by depth are."""
    fake_tensor = torch._subclasses.fake_tensor  # noqa: SLF001
    original = torch.linspace

    def linspace(*args: Any, **kwargs: Any) -> Any:
        with fake_tensor.unset_fake_temporarily():
            values = original(*args, **kwargs)
        result = fake_mode.from_tensor(values)
        result.constant = values
        return result

    return linspace


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    original = getattr(owner, name, None)
    if original is None:
        yield
        return
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)
