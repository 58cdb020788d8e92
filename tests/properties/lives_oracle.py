"""An oracle of asset lives in exact fractions, written from docs/assets.md alone.

It imports nothing of the product. Amounts are µg CO2e, time is whole UTC hours. With ``rounding``
it rounds where the document says so, and each amount is the integer of the product. Without, every
amount is exact, and rounding moves at most 1 µg per step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import floor

FOREVER = 10**7
Party = str | None  # a project, or None: the lab, or an unknown project


@dataclass(frozen=True)
class Step:
    """One lifecycle event. ``carbon``: None is unknown or none."""

    kind: str
    hour: int
    carbon: int | None = None
    life: int = 0  # opening: planned life in hours
    end: int | None = None  # new planned end
    method: str = ""
    who: Party = None  # new owner, or borrower
    contains_end_of_life: bool | None = None
    end_of_life: int | None = None  # stated separately
    left_as: str = ""  # disposal
    grams: int | None = None  # disposal


@dataclass(frozen=True)
class UseDay:
    """Use of a device in one day of the lab, in hours: by project, idle, and off."""

    start: int
    end: int
    used: tuple[tuple[Party, Fraction], ...]
    idle: Fraction
    off: Fraction


@dataclass
class Life:
    """An asset: its events in order of time, its meters and the GB stored by projects.

    ``meters``: (hour, days of use of the device; None: no meter from then on).
    ``volumes``: (hour, project, GB). ``projects``: all projects in the order of their creation.
    """

    steps: list[Step]
    projects: Sequence[str]
    category: str = "gpu"
    meters: list[tuple[int, Sequence[UseDay] | None]] = field(default_factory=list)
    volumes: list[tuple[int, Party, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """An amount charged evenly over ``[start, end)`` to a party for a reason."""

    start: int
    end: int
    amount: Fraction
    party: Party
    reason: str


@dataclass
class State:
    """``left`` is spread over ``[since, end)``, once in use. ``kept``: by use, of unused time."""

    left: Fraction
    planned: int
    method: str
    owner: Party
    kept: Fraction = Fraction(0)
    since: int = -1
    end: int = -1
    lent: bool = False
    borrower: Party = None


STARTS = {"deploy", "lend", "repurpose"}
RECYCLING_UG_PER_G = Fraction("4685.68")  # DESNZ 2025, WEEE, open-loop: 4.68568 kg per tonne


def changes_figures(step: Step) -> bool:
    return step.kind not in {"move", "upgrade", "retire"} and not (
        step.kind == "repair" and not step.carbon
    )


class Books:
    """Charges, book value and inventory of one life."""

    def __init__(self, life: Life, *, rounding: bool) -> None:
        self.life, self.rounding = life, rounding
        self.rows: list[Row] = []
        self.booked: list[tuple[int, int, Party, str]] = []  # hour, µg, owner, category
        self.splits = 0  # steps that can round
        self._charge()

    # Rounding, as documented.

    def _whole(self, amount: Fraction) -> Fraction:
        self.splits += 1
        return Fraction(floor(amount)) if self.rounding else amount

    def _parts(self, amount: Fraction, weights: Sequence[Fraction]) -> list[Fraction]:
        """Divide by weight: rounded down, then 1 µg each to the largest remainders."""
        self.splits += len(weights)
        exact = [amount * weight / sum(weights) for weight in weights]
        if not self.rounding:
            return exact
        parts = [Fraction(floor(part)) for part in exact]
        ranked = sorted(range(len(exact)), key=lambda i: (parts[i] - exact[i], i))
        for i in ranked[: int(amount - sum(parts))]:
            parts[i] += 1
        return parts

    def within(self, row: Row, start: int, end: int) -> Fraction:
        low, high = (min(max(hour, row.start), row.end) - row.start for hour in (start, end))
        length = row.end - row.start
        if high <= low:
            return Fraction(0)
        return self._whole(row.amount * high / length) - self._whole(row.amount * low / length)

    # Charges.

    def _charge(self) -> None:
        steps = [step for step in self.life.steps if changes_figures(step)]
        opening = steps[0]
        if opening.carbon is not None:
            self.booked.append((opening.hour, opening.carbon, opening.who, self._category()))
        state = State(
            left=Fraction(opening.carbon or 0),
            planned=opening.life,
            method=opening.method or "linear",
            owner=opening.who,
        )
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            self._begin_interval(state, step)
            if step.kind == "repair":
                self._repair(state, step)
            if step.kind == "dispose":
                rest = state.left - self._spent(state, step.hour) + state.kept
                self.rows.append(Row(step.hour, step.hour + 1, rest, state.owner, "written_off"))
                self._end_of_life(opening, step, state.owner)
                return
            if state.since >= 0:
                self._pass(state, step.hour, following.hour if following else FOREVER)

    def _category(self) -> str:
        return "3.8" if self.life.steps[0].kind == "lease" else "3.2"

    def _spent(self, state: State, hour: int) -> Fraction:
        """Return the part of the amount of the interval that time has used up."""
        if state.since < 0:
            return Fraction(0)
        gone = min(max(hour, state.since), state.end) - state.since
        return self._whole(state.left * Fraction(gone, state.end - state.since))

    def _begin_interval(self, state: State, step: Step) -> None:
        hour = step.hour
        if step.kind in {"repurpose", "life_change"}:
            state.method = step.method or state.method
        if step.end is not None and state.since < 0:
            state.planned = step.end - hour
        if step.kind in STARTS and state.since < 0:
            state.since, state.end = hour, hour + state.planned
        elif state.since >= 0 and (
            step.end is not None
            or (hour < state.end and state.method == "linear" and step.kind != "dispose")
        ):
            state.left = state.left - self._spent(state, hour) + state.kept
            state.kept, state.since = Fraction(0), hour
            state.end = state.end if step.end is None else step.end
        if step.kind == "transfer":
            state.owner = step.who
        if step.kind in {"lend", "return"}:
            state.lent, state.borrower = step.kind == "lend", step.who

    def _repair(self, state: State, step: Step) -> None:
        hour, carbon = step.hour, step.carbon or 0
        self.booked.append((hour, carbon, state.owner, self._category()))
        if state.since >= 0 and hour >= state.end:
            self.rows.append(Row(hour, hour + 1, Fraction(carbon), state.owner, "held"))
        elif state.since >= 0 and state.method == "sci":
            state.left, state.since = state.left - self._spent(state, hour) + carbon, hour
        else:
            state.left += carbon

    def _pass(self, state: State, hour: int, until: int) -> None:
        """Charge the time between two events."""
        for low, high in self._pieces(max(hour, state.since), min(until, state.end)):
            amount = self._spent(state, high) - self._spent(state, low)
            if state.lent:
                party = state.borrower or state.owner
                self.rows.append(Row(low, high, amount, party, "lent"))
                continue
            for party, reason, part in self._shared(low, amount, state.owner):
                if state.method == "sci" and reason in {"idle", "unmeasured"}:
                    state.kept += part
                else:
                    self.rows.append(Row(low, high, part, party, reason))
        if hour <= state.end <= until:
            self.rows.append(Row(state.end, state.end + 1, state.kept, state.owner, "idle"))
            state.kept = Fraction(0)

    def _end_of_life(self, opening: Step, step: Step, owner: Party) -> None:
        known, carbon = opening.contains_end_of_life, step.carbon
        if carbon is None and step.left_as == "recycled" and step.grams is not None:
            carbon = floor(RECYCLING_UG_PER_G * step.grams + Fraction(1, 2))
        if carbon is None or known is None or (known and not opening.end_of_life):
            return
        actual = carbon - (opening.end_of_life or 0)
        self.rows.append(Row(step.hour, step.hour + 1, Fraction(actual), owner, "end_of_life"))
        self.booked.append((step.hour, actual, owner, "3.5"))

    def _meter(self, hour: int) -> tuple[int, Sequence[UseDay] | None]:
        """Return since when the present meter counts, and its days; None without a meter."""
        listed = [meter for meter in self.life.meters if meter[0] <= hour]
        return listed[-1] if listed else (-1, None)

    def _stored(self, hour: int) -> dict[Party, int]:
        return {who: gb for since, who, gb in self.life.volumes if since <= hour}

    def _situation(self, hour: int) -> tuple[object, ...]:
        """Return what determines the shares of an hour."""
        since, days = self._meter(hour)
        if days is not None:
            return since, *(day.start for day in days if day.start <= hour < day.end)
        stored = any(self._stored(hour).values())
        return ("stored", max(at for at, _, _ in self.life.volumes if at <= hour)) if stored else ()

    def _pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Divide a period where the shares can change."""
        cuts = {since for since, _ in self.life.meters}
        cuts |= {hour for hour, _, _ in self.life.volumes}
        cuts |= {
            cut
            for _, days in self.life.meters
            for day in days or ()
            for cut in (day.start, day.end)
        }
        changes = {cut for cut in cuts if self._situation(cut) != self._situation(cut - 1)}
        inside = sorted({start, end, *(cut for cut in changes if start < cut < end)})
        return pairwise(inside) if start < end else ()

    def _shared(
        self, hour: int, amount: Fraction, owner: Party
    ) -> list[tuple[Party, str, Fraction]]:
        days = self._meter(hour)[1]
        if days is None:
            stored = self._stored(hour)
            if not any(stored.values()):
                return [(owner, "held", amount)]
            used = [(who, Fraction(gb)) for who, gb in stored.items() if gb]
            idle = off = Fraction(0)
        else:
            day = next((day for day in days if day.start <= hour < day.end), None)
            if day is None:
                return [(owner, "unmeasured", amount)]
            used, idle, off = list(day.used), day.idle, day.off
        order: list[Party] = [None, *self.life.projects]
        used.sort(key=lambda pair: order.index(pair[0]))
        parts = self._parts(amount, [*(weight for _, weight in used), idle, off])
        named = [
            (who, "used", part) for (who, _), part in zip(used, parts[: len(used)], strict=True)
        ]
        return [
            *named,
            (owner, "idle", parts[-2]),
            (owner, "unmeasured" if days is not None else "held", parts[-1]),
        ]

    # Results.

    def charged(self, start: int, end: int) -> dict[tuple[Party, str], Fraction]:
        """Return what is charged and written off in a period, by party and reason."""
        sums: dict[tuple[Party, str], Fraction] = {}
        for row in self.rows:
            part = self.within(row, start, end)
            if part:
                key = row.party, row.reason
                sums[key] = sums.get(key, Fraction(0)) + part
        return {key: value for key, value in sums.items() if value}

    def embodied(self, hour: int) -> int | None:
        """Return the embodied carbon known before an hour; None: unknown."""
        known = [carbon for at, carbon, _, _ in self.booked if at < hour]
        repairs = [s for s in self.life.steps if s.kind == "repair" and s.carbon == 0]
        known += [0 for step in repairs if step.hour < hour]
        return sum(known) if known else None

    def inventory(self, start: int, end: int) -> dict[tuple[Party, str], int]:
        """Return what the inventory books in a period, by owner and category."""
        sums: dict[tuple[Party, str], int] = {}
        for at, carbon, owner, category in self.booked:
            if start <= at < end and carbon:
                sums[owner, category] = sums.get((owner, category), 0) + carbon
        return sums
