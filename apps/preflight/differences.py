"""Differences of two works, with values if both are plain. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.preflight.similarity import Likeness, Work, relate


@dataclass(frozen=True)
class Difference:
    """One difference of two works. A value of None: absent (see ``only``), or known as a hash
    only.
    """

    part: str
    name: str
    here: Any = None
    there: Any = None
    only: str = ""  # 'here' or 'there': the other side has none


def differences(own: Work, other: Work) -> list[Difference]:
    """Return the differences of two works. Parts that cannot be compared are omitted."""
    relation = relate(own, other)
    result = []
    if relation.code == Likeness.DIFFERENT:
        result.append(Difference("code", "format" if relation.normal == Likeness.SAME else "logic"))
    result += [
        Difference(part, part)
        for part in ("data", "start")
        if getattr(relation, part) == Likeness.DIFFERENT
    ]
    hashes = (own.params or {}, other.params or {}) if relation.changed is not None else ({}, {})
    result += _named("params", *hashes, own.plain_values, other.plain_values)
    if own.labels is not None and other.labels is not None:
        result += _named("labels", own.labels, other.labels, own.plain_values, other.plain_values)
    if own.seeds is not None and other.seeds is not None:
        result += _named("seeds", own.seeds, other.seeds, own.plain_values, other.plain_values)
    for part in ("environment", "hardware"):
        own_values, other_values = getattr(own, part), getattr(other, part)
        if own_values and other_values:
            result += _named(part, own_values, other_values, own_values, other_values)
    return result


def _named(
    part: str,
    own: Mapping[str, Any],
    other: Mapping[str, Any],
    own_values: Mapping[str, Any],
    other_values: Mapping[str, Any],
) -> list[Difference]:
    names = sorted(name for name in {*own, *other} if own.get(name) != other.get(name))
    return [
        Difference(
            part,
            name,
            own_values.get(name) if name in own else None,
            other_values.get(name) if name in other else None,
            "" if name in own and name in other else "here" if name in own else "there",
        )
        for name in names
    ]
