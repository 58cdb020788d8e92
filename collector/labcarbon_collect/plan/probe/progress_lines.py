"""Step counters in the lines that a training prints. Pure."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

_MAX_LINE = 2000
EPOCH = "epoch"
_COUNTED = "global[_ ]?step|step|iter|iteration|it|batch|batche|update|epoch"
_OTHER_COUNTS = ("fold", "trial", "file", "shard", "worker", "rank", "seed", "gpu", "node")
_EVALUATION = re.compile(
    r"(?i)(?<![a-z])(val|valid|validation|validating|eval|evaluation|evaluating|test|testing|dev)(?![a-z])"
)
# "12/500", "[12/500]", "12 of 500", but no date such as 2026/11/28 and no path.
_PAIR = re.compile(r"(?<![\d./\w-])(\d{1,10})\s?(?:/|of)\s?(\d{1,10})(?![\d./]*[/\d]|\w)")
_NAMED = re.compile(
    rf"(?i)(?<![a-z_])({_COUNTED})s?\s?[:=#\[(]?\s?\[?(\d{{1,10}})(?![\d.]*\d|\s?(?:/|of)\s?\d|[a-z%])"
)
_WORD_BEFORE = re.compile(r"([A-Za-z_]+)\s?[:=#]?\s?[\[(|]?\s?$")
_NUMBER = re.compile(r"[-+]?\d+(?:[.:,]\d+)*(?:e[-+]?\d+)?")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Counter(NamedTuple):
    """A counter in a line. ``label`` and ``total`` identify it among the counters of a program.
    ``is_evaluation``: the text before it names an evaluation.
    """

    label: str
    value: int
    total: Optional[int]
    is_evaluation: bool = False


def parse_counters(line: str) -> List[Counter]:
    """Return the counters of steps and epochs in a line."""
    text = plain_text(line)
    counters = []
    for match in _PAIR.finditer(text):
        before = text[: match.start()]
        value, total = int(match.group(1)), int(match.group(2))
        word = _WORD_BEFORE.search(before)
        label = _singular(word.group(1)) if word else ""
        if total >= 2 and value <= total and label not in _OTHER_COUNTS:
            counters.append(Counter(label, value, total, is_evaluation(before)))
    for match in _NAMED.finditer(text):
        label = _singular(match.group(1))
        before = text[: match.start()]
        counters.append(Counter(label, int(match.group(2)), None, is_evaluation(before)))
    return counters


def _singular(word: str) -> str:
    return {"batches": "batch", "its": "it"}.get(word.lower(), word.lower().rstrip("s"))


def is_evaluation(line: str) -> bool:
    """Whether a line names an evaluation: "val_loss", "Validation", "test accuracy"."""
    return _EVALUATION.search(plain_text(line).replace("_", " ")) is not None


def line_shape(line: str) -> str:
    """Return a line with each number replaced, so that lines of one statement are equal."""
    return _NUMBER.sub("#", plain_text(line)).strip()[:200]


def plain_text(line: str) -> str:
    """Return a line without colours and cursor movements."""
    return _ANSI.sub("", line[:_MAX_LINE])
