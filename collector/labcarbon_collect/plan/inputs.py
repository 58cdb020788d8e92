"""The inputs of a model as the user describes them: ``3x224x224``, ``tokens:512:vocab=30522``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.errors import CommandError

_SHAPE = re.compile(r"\d+(x\d+)*")
_TOKENS = re.compile(r"(?:tokens:(\d+)|(\d+) tokens?)(?::vocab=(\d+))?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LARGEST = 1 << 31
FORMS = "3x224x224 for numbers, tokens:512 or tokens:512:vocab=30522 for token ids"


@dataclass(frozen=True)
class InputSpec:
    """One input of a sample. ``keyword`` is the name of its argument, "" for a position."""

    shape: Tuple[int, ...]
    is_tokens: bool = False
    vocabulary: Optional[int] = None
    keyword: str = ""

    @property
    def text(self) -> str:
        if self.is_tokens:
            return f"{'x'.join(map(str, self.shape))} tokens"
        return "x".join(map(str, self.shape))

    def tensor(self, torch: Any, batch: int) -> Any:
        dtype = torch.int64 if self.is_tokens else torch.float32
        return torch.zeros((batch, *self.shape), dtype=dtype)


def parse_input(text: str) -> InputSpec:
    """Parse one ``--input``. Raises CommandError."""
    keyword, equals, form = text.partition("=")
    if not equals or not _NAME.fullmatch(keyword):
        keyword, form = "", text
    tokens = _TOKENS.fullmatch(form)
    if tokens:
        length, vocabulary = int(tokens[1] or tokens[2]), tokens[3]
        spec = InputSpec((length,), True, int(vocabulary) if vocabulary else None, keyword)
    elif _SHAPE.fullmatch(form):
        spec = InputSpec(tuple(map(int, form.split("x"))), keyword=keyword)
    else:
        raise CommandError(f"--input {text!r} is not a size. Write {FORMS}")
    elements = 1
    for size in spec.shape:
        elements *= size
    if not 0 < elements < _LARGEST or spec.vocabulary == 0:
        raise CommandError(f"--input {text!r} must have sizes from 1, and fewer than 2^31 elements")
    return spec


def build_inputs(
    torch: Any, specs: Sequence[InputSpec], batch: int
) -> Tuple[List[Any], Dict[str, Any]]:
    """Return the positional and the keyword arguments of the model for a batch."""
    positional = [spec.tensor(torch, batch) for spec in specs if not spec.keyword]
    keywords = {spec.keyword: spec.tensor(torch, batch) for spec in specs if spec.keyword}
    return positional, keywords
