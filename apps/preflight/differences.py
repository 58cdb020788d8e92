"""Differences of two works, with values if both are plain. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apps.preflight.choices import ValueState
from apps.preflight.similarity import Likeness, Work, relate


@dataclass(frozen=True)
class Difference:
    """One difference of two works. A value of None: see the state of its side, which is None for a
    part as a whole.
    """

    part: str
    name: str
    here: Any = None
    there: Any = None
    here_state: ValueState | None = None
    there_state: ValueState | None = None

    def without_there(self) -> "Difference":
        """Return the difference for somebody who may not see the other run."""
        if self.there_state is None:
            return replace(self, there=None)
        return replace(self, there=None, there_state=ValueState.NOT_VISIBLE)


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
            _state(name, own, own_values),
            _state(name, other, other_values),
        )
        for name in names
    ]


def _state(name: str, hashes: Mapping[str, Any], values: Mapping[str, Any]) -> ValueState:
    if name not in hashes:
        return ValueState.ABSENT
    return ValueState.UPLOADED if name in values else ValueState.NOT_UPLOADED


def label_text(difference: Difference) -> str:
    """Return a label with both values, the other run's first."""
    there = value_text(difference.there, difference.there_state)
    here = value_text(difference.here, difference.here_state)
    return (
        f"{difference.name} ({there})" if here == there else f"{difference.name} ({there} → {here})"
    )


def value_text(value: Any, state: ValueState | None) -> str:
    """Return a value, or why there is none."""
    if state in (None, ValueState.UPLOADED):
        return "unknown" if value is None else str(value)
    return str(state.label).lower()
