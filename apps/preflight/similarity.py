"""Similarity of two works: part by part, then as a tier (docs/fingerprint.md). Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import isclose
from typing import Any
from uuid import UUID

TOLERANCE = 1e-6  # relative: two numbers that print alike are no two experiments


class Likeness(IntEnum):
    """Relation of a part of two works. UNKNOWN never matches."""

    DIFFERENT = 0
    UNKNOWN = 1
    POSSIBLE = 2
    SAME = 3

    @property
    def matches(self) -> bool:
        return self >= Likeness.POSSIBLE


class Seeds(IntEnum):
    """Relation of the seeds of two works."""

    UNKNOWN = 0
    OTHER = 1
    UNSET = 2  # on both sides: the same work, but not the same numbers
    SAME = 3

    @property
    def matches(self) -> bool:
        return self >= Seeds.UNSET


class Kind(IntEnum):
    """Common parts of two works. F1N is F1 except comments and format."""

    NOTHING = 0
    CODE_PARAMS = 1  # data or start unknown
    F4 = 2
    F3 = 3
    F2 = 4
    F1N = 5
    F1 = 6


@dataclass(frozen=True)
class Part:
    """Hash of a part by content, and by names, sizes and times; '' is unknown."""

    verified: str = ""
    weak: str = ""

    @property
    def known(self) -> str:
        return "verified" if self.verified else "weak" if self.weak else "unknown"


@dataclass(frozen=True)
class Work:
    """The work of a run: the parts of its fingerprint. ``None`` is unknown; empty ``seeds`` are
    known to be unset.

    ``plain_values``: values that are stored. ``labels``: hashes by name, None if unknown.
    ``not_compared``: what may change the result and was not examined.
    """

    entry: str = ""
    code: Part = Part()
    normal: str = ""
    params: Mapping[str, str] | None = None
    plain_values: Mapping[str, Any] = field(default_factory=dict)
    data: Part = Part()
    start: Part = Part()
    seeds: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    not_compared: tuple[str, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the parts that are unknown, so that no run can be found by them."""
        known = {
            "entry": self.entry,
            "code": self.code.verified or self.code.weak,
            "parameters": self.params is not None,
            "data": self.data.verified or self.data.weak,
            "start": self.start.verified or self.start.weak,
            "seeds": self.seeds is not None,
        }
        return tuple(name for name, value in known.items() if not value)


@dataclass(frozen=True)
class Question:
    """A work before its start (or a run, judged as of its start). ``now``: time of the start,
    µs.
    """

    work: Work
    now: int
    run: UUID | None = None
    parent: UUID | None = None
    job: str = ""
    external: tuple[str, str] | None = None
    intent: str = "train"
    sweep: str = ""
    series: str = ""


@dataclass(frozen=True)
class PastRun:
    """An earlier run."""

    uuid: UUID
    work: Work
    state: str
    started_us: int
    ended_us: int | None = None
    failure: str = ""
    failure_point: str = ""
    exit_code: int | None = None
    has_checkpoint: bool = False
    parent: UUID | None = None
    job: str = ""
    external: frozenset[tuple[str, str]] = frozenset()
    series: str = ""


@dataclass(frozen=True)
class Relation:
    """Relation of a question and a past run. ``changed``: different parameters; None: unknown
    for one side. ``labels``: names of different labels. ``not_compared``: what may differ and was
    not examined.
    """

    code: Likeness
    normal: Likeness
    data: Likeness
    start: Likeness
    seeds: Seeds
    entry: bool
    changed: frozenset[str] | None
    slight: bool = False  # every change is a number within the tolerance
    labels: frozenset[str] = frozenset()
    not_compared: tuple[str, ...] = ()

    @property
    def same_params(self) -> bool:
        return self.changed is not None and not self.changed

    @property
    def kind(self) -> Kind:
        """Return the common parts as a kind."""
        same_work = self.entry and self.same_params
        if not (self.data.matches and self.start.matches):
            is_different = Likeness.DIFFERENT in (self.data, self.start)
            is_same = same_work and self.code.matches and not is_different
            return Kind.CODE_PARAMS if is_same else Kind.NOTHING
        if same_work and self.code.matches:
            return Kind.F1 if self.seeds.matches else Kind.F2
        if same_work and self.normal.matches and self.seeds.matches:
            return Kind.F1N
        if self.same_params:
            return Kind.F3
        return Kind.F4 if self.entry else Kind.NOTHING

    @property
    def weak(self) -> tuple[str, ...]:
        """Return the parts that were compared by names, sizes and times."""
        code = self.code if self.code.matches else max(self.code, self.normal)
        parts = {"code": code, "data": self.data, "start": self.start}
        return tuple(name for name, likeness in parts.items() if likeness == Likeness.POSSIBLE)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the inputs that cannot be compared."""
        parts = {"data": self.data, "start": self.start}
        return tuple(name for name, likeness in parts.items() if likeness == Likeness.UNKNOWN)

    @property
    def verified(self) -> bool:
        return not (self.weak or self.labels or self.not_compared or self.unknown)


def compare_parts(own: Part, other: Part) -> Likeness:
    """Return the relation of a part. Different contents are different for any names, sizes and
    times. Different names, sizes or times say nothing about contents.
    """
    if own.verified and other.verified:
        return Likeness.SAME if own.verified == other.verified else Likeness.DIFFERENT
    return Likeness.POSSIBLE if own.weak and own.weak == other.weak else Likeness.UNKNOWN


def _normal(own: str, other: str) -> Likeness:
    if not own or not other:
        return Likeness.UNKNOWN
    return Likeness.SAME if own == other else Likeness.DIFFERENT


def _seeds(own: Mapping[str, str] | None, other: Mapping[str, str] | None) -> Seeds:
    if own is None or other is None:
        return Seeds.UNKNOWN
    if not own and not other:
        return Seeds.UNSET
    return Seeds.SAME if sorted(own.values()) == sorted(other.values()) else Seeds.OTHER


def _changed(own: Work, other: Work) -> frozenset[str] | None:
    if own.params is None or other.params is None:
        return None
    own_params, other_params = own.params, other.params
    return frozenset(
        name
        for name in {*own_params, *other_params}
        if own_params.get(name) != other_params.get(name)
    )


def _slight(own: Work, other: Work, name: str) -> bool:
    return (
        name in own.plain_values
        and name in other.plain_values
        and is_nearly_equal(own.plain_values[name], other.plain_values[name])
    )


def is_nearly_equal(own: Any, other: Any) -> bool:
    """Return whether two values are numbers, at least one not whole, with a relative difference
    of at most 1e-6.
    """
    are_numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (own, other)
    )
    are_integers = isinstance(own, int) and isinstance(other, int)
    return are_numbers and not are_integers and isclose(own, other, rel_tol=TOLERANCE)


def relate(own: Work, other: Work) -> Relation:
    """Return the relation of two works."""
    labels, unknown_labels = _labels(own.labels, other.labels)
    changed = _changed(own, other)
    return Relation(
        code=compare_parts(own.code, other.code),
        normal=_normal(own.normal, other.normal),
        data=compare_parts(own.data, other.data),
        start=compare_parts(own.start, other.start),
        seeds=_seeds(own.seeds, other.seeds),
        entry=bool(own.entry) and own.entry == other.entry,
        changed=changed,
        slight=bool(changed) and all(_slight(own, other, name) for name in changed or ()),
        labels=labels,
        not_compared=tuple(
            dict.fromkeys((*own.not_compared, *other.not_compared, *unknown_labels))
        ),
    )


def _labels(
    own: Mapping[str, str] | None, other: Mapping[str, str] | None
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names of different labels, and whether labels are not compared. One that only one
    side has is different.
    """
    if own is None or other is None:
        return frozenset(), ("labels",)
    names = {*own, *other}
    return frozenset(name for name in names if own.get(name) != other.get(name)), ()


def remove_ignored(
    work_params: Mapping[str, str] | None, ignored: Iterable[str]
) -> dict[str, str] | None:
    """Return the parameters that a project compares."""
    if work_params is None:
        return None
    excluded = set(ignored)
    return {name: value for name, value in work_params.items() if name not in excluded}
