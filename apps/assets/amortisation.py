"""Calculate charges and balance of an asset's embodied carbon from its lifecycle events. Pure.

Embodied carbon is integer µg CO2e. Time is whole UTC hours. At every hour and over all owners
``charged + balance + written off = TE``. TE is the embodied carbon of all events. The equation is
exact for any order of events.

Linear (default): ``TE × dt / life``. SCI (ISO/IEC 21031:2024): ``M = TE × (TiR / EL) × (RR /
ToR)``: time reserved over expected life, resources reserved over total. The amount for unused time
of a metered asset stays in the balance until the end of life. Without a meter the owner reserves
all time.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from apps.assets.choices import STARTING, Amortisation, ChargeKind, EventKind
from apps.assets.lifecycle import Event, is_weightless
from apps.core.units import END_HOUR, largest_remainder, prorated

NOBODY_KNOWN = 0  # project id in parts of use: project unknown


@dataclass(frozen=True)
class Use:
    """Use of an asset over ``[from_hour, to_hour)``.

    ``parts`` are (project id or NOBODY_KNOWN, weight). The rest of ``measured`` was idle. The rest
    of ``capacity`` was off or not measured. All values have one unit (milliseconds, GB).
    """

    from_hour: int
    to_hour: int
    capacity: int
    measured: int
    parts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Metered:
    """``[from_hour, to_hour)`` in which an asset has a meter."""

    from_hour: int
    to_hour: int = END_HOUR


@dataclass(frozen=True)
class Spread:
    """Shares of projects in the lab's idle time over ``[from_hour, to_hour)``.

    ``parts`` are (project id, low, high): the interval of ``total`` that is charged to the project.
    """

    from_hour: int
    to_hour: int
    parts: tuple[tuple[int, int, int], ...]
    total: int


@dataclass(frozen=True)
class Charge:
    """``amount_ug`` charged evenly over ``[from_hour, to_hour)``.

    ``project_id`` None: the lab, or an unknown project.
    """

    from_hour: int
    to_hour: int
    amount_ug: int
    project_id: int | None
    kind: str

    def within(self, from_hour: int, to_hour: int) -> int:
        """Return the part in ``[from_hour, to_hour)``.

        The parts of adjacent periods sum exactly to the part of the whole period.
        """
        return prorated(self.amount_ug, self.from_hour, self.to_hour, from_hour, to_hour)


@dataclass(frozen=True)
class Account:
    """Charged and written-off embodied carbon of an asset up to an hour, µg.

    ``charged + balance + written_off = total``.
    """

    total_ug: int
    charged_ug: int
    written_off_ug: int

    @property
    def balance_ug(self) -> int:
        return self.total_ug - self.charged_ug - self.written_off_ug


Interval = TypeVar("Interval", Use, Spread, Metered)


class _Timeline(Generic[Interval]):
    """Disjoint intervals of time with lookup by hour."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._intervals: list[Interval] = sorted(intervals, key=lambda each: each.from_hour)
        self._begins: list[int] = [each.from_hour for each in self._intervals]
        self._edges: list[int] = sorted(
            {hour for each in self._intervals for hour in (each.from_hour, each.to_hour)}
        )

    def at(self, hour: int) -> Interval | None:
        index = bisect_right(self._begins, hour) - 1
        interval = self._intervals[index] if index >= 0 else None
        return interval if interval is not None and hour < interval.to_hour else None

    def edges(self, start: int, stop: int) -> list[int]:
        """Return the starts and ends of intervals inside ``(start, stop)``."""
        return self._edges[bisect_right(self._edges, start) : bisect_right(self._edges, stop - 1)]


@dataclass
class _Life:
    """State of an asset between events: its balance, and the interval over which it is charged."""

    total_ug: int = 0
    end_of_life_ug: int = 0  # the modelled part inside the total
    has_end_of_life: bool | None = None
    is_started: bool = False  # put to use at least once
    life_hours: int = 0
    anchor_hour: int = 0
    anchor_ug: int = 0  # balance at the anchor, spread over [anchor, end)
    end_hour: int = 0
    deferred_ug: int = 0  # SCI: amount for unused time
    owner_id: int | None = None
    lent: bool = False
    borrower_id: int | None = None
    amortisation: str = Amortisation.LINEAR
    over: bool = False

    def elapsed(self, hour: int) -> int:
        """Return the part of the anchored balance that elapsed time has used up at ``hour``."""
        if not self.is_started or hour <= self.anchor_hour:
            return 0
        if hour >= self.end_hour:
            return self.anchor_ug
        return self.anchor_ug * (hour - self.anchor_hour) // (self.end_hour - self.anchor_hour)

    def start(self, hour: int) -> None:
        """Start the service life, unless it started before."""
        if not self.is_started:
            self.is_started, self.anchor_hour = True, hour
            self.end_hour = hour + max(1, self.life_hours)

    def balance(self, hour: int) -> int:
        return self.anchor_ug - self.elapsed(hour) + self.deferred_ug

    def anchored(self, hour: int, end_hour: int) -> None:
        """Spread the whole balance over ``[hour, end_hour)``."""
        self.anchor_ug = self.balance(hour)
        self.anchor_hour, self.end_hour, self.deferred_ug = hour, end_hour, 0


def charges(
    events: Sequence[Event],
    uses: Sequence[Use],
    spreads: Sequence[Spread] = (),
    *,
    metered: Sequence[Metered] = (),
    since: int = 0,
) -> list[Charge]:
    """Return all charges and write-offs of an asset.

    The rows are disjoint or differ in kind or project.

    ``events`` are active and in order (see :func:`apps.assets.lifecycle.active_events`). ``uses``
    and ``metered`` are disjoint. Outside ``uses``, time with a meter counts as unmeasured, and time
    without a meter as reserved by the owner. ``since``: return only rows that start at or after
    this hour. Earlier ``uses`` may then be missing, unless the asset was ever charged by use (SCI).
    """
    life, charges_ = _Life(), list[Charge]()
    by_use, by_spread, by_meter = _Timeline(uses), _Timeline(spreads), _Timeline(metered)
    for event, following in pairwise(
        [*(event for event in events if not is_weightless(event)), None]
    ):
        assert event is not None
        charges_ += _applied(life, event)
        until = following.hour if following else END_HOUR
        charges_ += _passed(life, max(event.hour, since), until, by_use, by_spread, by_meter)
    return [charge for charge in charges_ if charge.amount_ug and charge.from_hour >= since]


def embodied_total_ug(events: Sequence[Event], hour: int = END_HOUR) -> int:
    """Return TE: the embodied carbon of all events before ``hour``.

    After disposal it includes the actual end of life, not the estimate.
    """
    life = _Life()
    for event in events:
        if event.hour < hour:
            _applied(life, event)
    return life.total_ug


def account(events: Sequence[Event], charges_: Iterable[Charge], hour: int) -> Account:
    """Return the account at ``hour``."""
    charged = written_off = 0
    for charge in charges_:
        part = charge.within(0, hour)
        if charge.kind == ChargeKind.WRITTEN_OFF:
            written_off += part
        else:
            charged += part
    return Account(embodied_total_ug(events, hour), charged, written_off)


def _applied(life: _Life, event: Event) -> list[Charge]:
    """Apply an event to the state. Return the charges and write-offs that it causes at once."""
    if life.over:
        return []
    hour, added = event.hour, event.total_ug or 0
    match event.kind:
        case EventKind.PURCHASE | EventKind.SECOND_HAND | EventKind.LEASE:
            life.total_ug, life.anchor_ug = added, added
            life.end_of_life_ug, life.has_end_of_life = (
                event.end_of_life_ug or 0,
                event.includes_end_of_life,
            )
            life.life_hours = event.life_hours or 0
            life.owner_id, life.amortisation = (
                event.project_id,
                event.amortisation or Amortisation.LINEAR,
            )
        case EventKind.DEPLOY if not life.is_started:
            life.start(hour)
        case EventKind.TRANSFER:
            life.owner_id = event.project_id
        case EventKind.LEND:
            life.lent, life.borrower_id = True, event.project_id
            life.start(hour)
        case EventKind.RETURN:
            life.lent, life.borrower_id = False, None
        case EventKind.LIFE_CHANGE | EventKind.REPURPOSE:
            _change_life(life, event)
        case EventKind.REPAIR:
            return _repaired(life, hour, added)
        case EventKind.DISPOSE:
            return _disposed(life, event)
    if life.is_started and life.end_hour > hour and life.amortisation == Amortisation.LINEAR:
        life.anchored(hour, life.end_hour)  # rows start at anchors: later cuts keep earlier rows
    return []


def _change_life(life: _Life, event: Event) -> None:
    """Set another planned end, or another amortisation.

    Without either, the amount for unused time (SCI) does not change.
    """
    is_other = bool(event.amortisation) and event.amortisation != life.amortisation
    life.amortisation = event.amortisation or life.amortisation
    end_hour = event.life_end_hour or life.end_hour
    if life.is_started:
        if end_hour > event.hour and (event.life_end_hour or is_other):
            life.anchored(event.hour, end_hour)
        return
    if event.life_end_hour:
        life.life_hours = max(1, end_hour - event.hour)
    if event.kind in STARTING:
        life.start(event.hour)


def _repaired(life: _Life, hour: int, added_ug: int) -> list[Charge]:
    """Add embodied carbon to the amount for the remaining life.

    The amount for unused time (SCI) does not change.
    """
    life.total_ug += added_ug
    if not life.is_started:
        life.anchor_ug += added_ug
    elif life.end_hour > hour:
        life.anchor_ug += added_ug - life.elapsed(hour)
        life.anchor_hour = hour
    else:  # past the planned end: no remaining life to spread it over
        return [Charge(hour, hour + 1, added_ug, life.owner_id, ChargeKind.RESERVED)]
    return []


def _disposed(life: _Life, event: Event) -> list[Charge]:
    """Write off the balance and book the actual end of life.

    The actual end of life replaces the modelled part. If TE has no such part, the actual amount is
    added. If it is unknown whether TE contains one, or the part is not stated separately, the
    actual amount is not booked: it could count twice.
    """
    charges_ = [
        Charge(
            event.hour,
            event.hour + 1,
            life.balance(event.hour),
            life.owner_id,
            ChargeKind.WRITTEN_OFF,
        )
    ]
    known_apart = bool(life.has_end_of_life) and life.end_of_life_ug > 0
    if event.total_ug is not None and (life.has_end_of_life is False or known_apart):
        actual = event.total_ug - life.end_of_life_ug
        life.total_ug += actual
        charges_.append(
            Charge(event.hour, event.hour + 1, actual, life.owner_id, ChargeKind.END_OF_LIFE)
        )
    life.over = True
    return charges_


def _passed(
    life: _Life,
    start: int,
    end: int,
    uses: _Timeline[Use],
    spreads: _Timeline[Spread],
    metered: _Timeline[Metered],
) -> Iterator[Charge]:
    """Yield the charges from ``start`` to ``end``, a period without events."""
    if life.over or not life.is_started:
        return
    stop = min(end, life.end_hour)
    for low, high in _pieces(max(start, life.anchor_hour), stop, uses, spreads, metered):
        amount, has_meter = life.elapsed(high) - life.elapsed(low), metered.at(low) is not None
        for project_id, kind, part in _shared(life, amount, uses.at(low), has_meter):
            if kind in _UNUSED and life.amortisation == Amortisation.SCI:
                life.deferred_ug += part
            else:
                yield from _split_by_spread(Charge(low, high, part, project_id, kind), spreads)
    if life.end_hour <= end and start <= life.end_hour and life.deferred_ug:
        charge = Charge(
            life.end_hour, life.end_hour + 1, life.deferred_ug, life.owner_id, ChargeKind.IDLE
        )
        yield from _split_by_spread(charge, spreads)
        life.deferred_ug = 0


_UNUSED = (ChargeKind.IDLE, ChargeKind.UNMEASURED)


def _pieces(
    start: int,
    stop: int,
    uses: _Timeline[Use],
    spreads: _Timeline[Spread],
    metered: _Timeline[Metered],
) -> Iterator[tuple[int, int]]:
    if start >= stop:
        return iter(())
    edges = (*uses.edges(start, stop), *spreads.edges(start, stop), *metered.edges(start, stop))
    return pairwise(sorted({start, stop, *edges}))


def _shared(
    life: _Life, amount: int, use: Use | None, metered: bool
) -> list[tuple[int | None, str, int]]:
    """Return (project id, kind, µg) of an interval.

    A lent asset is charged to its borrower. Otherwise use is charged to projects, and the rest to
    the owner.
    """
    if life.lent:
        return [(life.borrower_id or life.owner_id, ChargeKind.LENT, amount)]
    if use is None:
        return [(life.owner_id, ChargeKind.UNMEASURED if metered else ChargeKind.RESERVED, amount)]
    used = sorted((project, weight) for project, weight in use.parts if weight > 0)
    used_weight = sum(weight for _, weight in used)
    idle = max(0, use.measured - used_weight)
    rest = max(0, use.capacity - max(use.measured, used_weight))
    parts = largest_remainder(amount, [*(weight for _, weight in used), idle, rest])
    if not used_weight + idle + rest:
        parts = [0] * (len(parts) - 1) + [amount]
    named: list[tuple[int | None, str, int]] = [
        (project or None, ChargeKind.USED, part)
        for (project, _), part in zip(used, parts, strict=False)
    ]
    off = ChargeKind.UNMEASURED if metered else ChargeKind.RESERVED
    return [*named, (life.owner_id, ChargeKind.IDLE, parts[-2]), (life.owner_id, off, parts[-1])]


def _split_by_spread(charge: Charge, spreads: _Timeline[Spread]) -> Iterator[Charge]:
    """Yield the charge, or its parts by project if the lab's idle time is spread over projects."""
    spread = spreads.at(charge.from_hour)
    if charge.kind != ChargeKind.IDLE or charge.project_id is not None or spread is None:
        yield charge
        return
    for project_id, low, high in spread.parts:
        part = charge.amount_ug * high // spread.total - charge.amount_ug * low // spread.total
        yield Charge(charge.from_hour, charge.to_hour, part, project_id, ChargeKind.IDLE_SHARE)


def second_hand_ug(
    te_ug: int,
    *,
    way: str,
    used_hours: int = 0,
    life_hours: int = 0,
    paid: int = 0,
    new_price: int = 0,
    added_ug: int = 0,
) -> int:
    """Return the embodied carbon of a second-hand asset for its new owner, µg.

    Refurbishment and transport (``added_ug``) are included. ``cut_off`` (default in LCA practice):
    nothing of the first life. ``remaining_life``: TE × remaining life / life. ``price``: TE × price
    paid / new price. Raises ValueError for any other method, and for a life or price that is not
    above 0.
    """
    if way == "cut_off":
        return added_ug
    part, whole = (
        (max(0, life_hours - used_hours), life_hours)
        if way == "remaining_life"
        else (paid, new_price)
    )
    if way not in {"remaining_life", "price"} or whole <= 0 or part < 0:
        raise ValueError(f"{way}: {part} of {whole}")
    return te_ug * min(part, whole) // whole + added_ug
