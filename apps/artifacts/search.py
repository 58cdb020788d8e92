"""What somebody looks for among artifacts, as an address writes it. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal

from apps.artifacts.choices import Medium
from apps.core.errors import InvalidInput
from apps.core.text import unstorable
from apps.core.units import INT64_MAX

NOT_TOLD = "~none"
_LONGEST = 200
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*(b|kb|mb|gb|tb|pb|eb)?", re.IGNORECASE)
_UNITS = {name: 1000**power for power, name in enumerate(("b", "kb", "mb", "gb", "tb", "pb", "eb"))}


@dataclass(frozen=True)
class Search:
    """What is looked for; '' and None: anything.

    ``architecture``, ``base_model``, ``licence``: words of it, the licence '~none' where none was told. ``data``: words of a
    data set's name, or a digest of its content. ``metric``: the name of one, its last value of the run that made the
    artifact within ``[metric_min, metric_max]``. Sizes in bytes, both ends in. ``medium``: of a copy that is there.
    """

    architecture: str = ""
    base_model: str = ""
    data: str = ""
    metric: str = ""
    metric_min: float | None = None
    metric_max: float | None = None
    bytes_min: int | None = None
    bytes_max: int | None = None
    licence: str = ""
    medium: str = ""


FIELDS = tuple(field.name for field in fields(Search))


def search_of(params: Mapping[str, str]) -> Search:
    """Return what ``params`` look for; names that are not FIELDS are left alone. Raises InvalidInput, naming the field."""
    told = {name: params.get(name, "").strip() for name in FIELDS}
    for name, value in told.items():
        if unstorable(value) or len(value) > _LONGEST:
            raise InvalidInput(
                "A filter holds what no artifact can.", field=name, hint=f"Up to {_LONGEST} characters of text."
            )
    if told["medium"] and told["medium"] not in Medium.values:
        hint = f"Use one of {', '.join(Medium.values)}."
        raise InvalidInput(f"{told['medium'][:40]!r} is not known as medium.", field="medium", hint=hint)
    found = Search(
        architecture=told["architecture"], base_model=told["base_model"], data=told["data"], metric=told["metric"],
        metric_min=_number(told, "metric_min"), metric_max=_number(told, "metric_max"),
        bytes_min=_bytes(told, "bytes_min"), bytes_max=_bytes(told, "bytes_max"),
        licence=told["licence"], medium=told["medium"],
    )  # fmt: skip
    _check(found)
    return found


def _check(search: Search) -> None:
    if not search.metric and (search.metric_min is not None or search.metric_max is not None):
        raise InvalidInput("Bounds need the name of a metric.", field="metric", hint="Write it as runs tell it: val_acc.")
    for low, high, name in (
        (search.metric_min, search.metric_max, "metric_max"),
        (search.bytes_min, search.bytes_max, "bytes_max"),
    ):
        if low is not None and high is not None and low > high:
            raise InvalidInput("The upper bound lies below the lower one.", field=name, hint="Swap the two.")


def _number(told: Mapping[str, str], name: str) -> float | None:
    if not told[name]:
        return None
    try:
        number = float(told[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{told[name][:40]!r} is no number.", field=name, hint="Write it like 0.93 or 1e-3.")
    return number


def _bytes(told: Mapping[str, str], name: str) -> int | None:
    if not told[name]:
        return None
    match = _SIZE.fullmatch(told[name])
    number = int(Decimal(match[1]) * _UNITS[(match[2] or "b").lower()]) if match else -1
    if not 0 <= number <= INT64_MAX:
        hint = "Write bytes, or decimal units: 500000, 500 kB, 1.5 GB."
        raise InvalidInput(f"{told[name][:40]!r} is no size.", field=name, hint=hint)
    return number
