"""Divide the change of energy or emissions between two periods into parts. Pure.

The parts are steps from the earlier period to the later one, in the order of PARTS. Each step is
rounded half up once and the last one is the later amount, so the parts add up to the difference
exactly (ADR 60).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

COVERAGE, WORK, MIX, EFFICIENCY = "coverage", "work", "mix", "efficiency"
IDLE, OVERHEAD, SYSTEM, UNATTRIBUTED = "idle", "overhead", "system", "unattributed"
PLACE, PUE, GRID, EDITION, UNSEPARATED = "place", "pue", "grid", "edition", "unseparated"
PARTS = (
    COVERAGE, WORK, MIX, EFFICIENCY, IDLE, OVERHEAD, SYSTEM, UNATTRIBUTED,
    PLACE, PUE, GRID, EDITION, UNSEPARATED,
)  # fmt: skip
USED = "used"
OWN_LINES = (IDLE, OVERHEAD, SYSTEM, UNATTRIBUTED)
RATES = (PLACE, PUE, GRID, EDITION)
_HOUR_PARTS = 1_000_000  # device-hours are scaled by coverage in millionths


@dataclass(frozen=True)
class Use:
    """The use of a charged party on a node in a period.

    ``device_hours``: hours of a device in which it used energy. ``amount``: what is divided, energy
    (mJ) or emissions (µg). ``series``: {name: (facility energy in mJ, amount)} by series of
    factors. Factors of one series differ by hour or month only.
    """

    device_hours: int = 0
    energy_mj: int = 0
    facility_mj: int = 0
    amount: int = 0
    series: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __add__(self, other: "Use") -> "Use":
        series = dict(self.series)
        for name, (facility_mj, amount) in other.series.items():
            old_mj, old_amount = series.get(name, (0, 0))
            series[name] = (old_mj + facility_mj, old_amount + amount)
        return Use(
            self.device_hours + other.device_hours,
            self.energy_mj + other.energy_mj,
            self.facility_mj + other.facility_mj,
            self.amount + other.amount,
            series,
        )


@dataclass(frozen=True)
class Place:
    """A charged party (project or receiver without project), its kind of use (USED, or one of
    OWN_LINES) and a node.
    """

    charge: str
    kind: str
    node: str


@dataclass(frozen=True)
class Coverage:
    """Device time of a node with data, and expected, in both periods, µs."""

    known_before_us: int
    expected_before_us: int
    known_after_us: int
    expected_after_us: int

    @property
    def is_separable(self) -> bool:
        """Return whether at least half of the time is known where data are expected."""
        return (
            2 * self.known_before_us >= self.expected_before_us
            and 2 * self.known_after_us >= self.expected_after_us
        )

    @property
    def ratio(self) -> tuple[int, int]:
        """Return the later share of known time by the earlier one; 1 if data are expected in one
        period only.
        """
        above = self.known_after_us * self.expected_before_us
        below = self.known_before_us * self.expected_after_us
        return (above, below) if above and below else (1, 1)


@dataclass
class _Steps:
    """The amounts of a project after each step. ``hours``: device-hours × _HOUR_PARTS."""

    covered: int = 0
    covered_mj: int = 0
    covered_hours: int = 0
    hours: int = 0
    energy_mj: int = 0
    placed: int = 0
    nodes: int = 0


def divided(numerator: int, denominator: int) -> int:
    """Return a quotient, half up. The denominator is positive."""
    return (2 * numerator + denominator) // (2 * denominator)


def divide_change(
    before: Mapping[Place, Use], after: Mapping[Place, Use], coverage: Mapping[str, Coverage]
) -> dict[str, dict[str, int]]:
    """Return {charged party: {part: amount}}. Parts of 0 are left out.

    The parts of a party add up to the change of its amount exactly. ``coverage`` is by node.
    """
    parts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    nodes = _by_node(before)
    projects: dict[str, _Steps] = defaultdict(_Steps)
    rounding: dict[tuple[str, str], int] = defaultdict(int)
    rates: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for place in {**before, **after}:
        old, new = before.get(place, Use()), after.get(place, Use())
        own = parts[place.charge]
        covered = coverage.get(place.node, Coverage(0, 0, 0, 0))
        if not covered.is_separable:
            own[UNSEPARATED] += new.amount - old.amount
            continue
        if old.energy_mj < 0 or new.energy_mj < 0:  # a node meter below its devices
            own[place.kind if place.kind in OWN_LINES else UNSEPARATED] += new.amount - old.amount
            continue
        reference = old if old.energy_mj else nodes.get(place.node, Use())
        reference = reference if reference.energy_mj else new
        step = _covered(old, covered.ratio)
        own[COVERAGE] += step.amount - old.amount
        priced = _valued(reference, new)
        key = place.charge, place.kind
        for part, amount in _rate_parts(reference, new, priced).items():
            rates[key][part] += amount
        rounding[key] += _rounding(reference, new)
        if place.kind == USED:
            steps = projects[place.charge]
            steps.covered += step.amount
            steps.covered_mj += step.energy_mj
            steps.covered_hours += step.device_hours
            steps.hours += new.device_hours * _HOUR_PARTS
            steps.energy_mj += new.energy_mj
            steps.placed += priced
            steps.nodes += 1
        else:
            own[place.kind] += priced - step.amount
    earlier = sum(steps.covered_hours for steps in projects.values())
    later = sum(steps.hours for steps in projects.values())
    for charge, steps in projects.items():
        for part, amount in _use_parts(steps, earlier, later).items():
            (rates[charge, USED] if part == PLACE else parts[charge])[part] += amount
    for (charge, kind), amounts in rates.items():
        quantity = EFFICIENCY if kind == USED else kind
        for part, amount in amounts.items():
            is_rounding = abs(amount) <= rounding[charge, kind]
            parts[charge][quantity if is_rounding else part] += amount
    return {
        charge: {part: own[part] for part in PARTS if own.get(part)}
        for charge, own in parts.items()
    }


def sum_parts(by_charge: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return {part: sum over all parties}, in the order of PARTS, without parts of 0."""
    sums = {part: sum(own.get(part, 0) for own in by_charge.values()) for part in PARTS}
    return {part: amount for part, amount in sums.items() if amount}


def _by_node(uses: Mapping[Place, Use]) -> dict[str, Use]:
    sums: dict[str, Use] = {}
    for place, use in uses.items():
        if use.energy_mj > 0:
            sums[place.node] = sums.get(place.node, Use()) + use
    return sums


def _covered(old: Use, ratio: tuple[int, int]) -> Use:
    """Return a use as it would be with the coverage of the later period. Device-hours are in
    millionths.
    """
    above, below = ratio
    return Use(
        divided(old.device_hours * _HOUR_PARTS * above, below),
        divided(old.energy_mj * above, below),
        amount=divided(old.amount * above, below),
    )


def _valued(reference: Use, new: Use) -> int:
    """Return the amount of the later energy at the mean rate of ``reference``."""
    if not reference.energy_mj:
        return new.amount
    return divided(new.energy_mj * reference.amount, reference.energy_mj)


def _rate_parts(reference: Use, new: Use, priced: int) -> dict[str, int]:
    """Return the parts of PUE, grid and edition: from ``priced`` to the later amount."""
    with_pue = priced
    if reference.facility_mj:
        with_pue = divided(new.facility_mj * reference.amount, reference.facility_mj)
    grid = 0
    for name, (facility_mj, amount) in new.series.items():
        old_mj, old_amount = reference.series.get(name, (0, 0))
        if old_mj:
            grid += amount - divided(facility_mj * old_amount, old_mj)
    return {PUE: with_pue - priced, GRID: grid, EDITION: new.amount - with_pue - grid}


def _rounding(reference: Use, new: Use) -> int:
    """Return the largest amount that can come from the rounding of ledger entries."""
    scale = -(-new.energy_mj // reference.energy_mj) if reference.energy_mj else 1
    return 2 * (1 + new.device_hours + reference.device_hours * max(1, scale))


def _use_parts(steps: _Steps, earlier: int, later: int) -> dict[str, int]:
    """Return the parts of work, mix, efficiency and place of a project. ``earlier`` and ``later``
    are the device-hours of all projects.

    A project without earlier device-hours has the energy per device-hour of the later period.
    """
    placed = steps.placed
    mixed = (
        divided(steps.covered * steps.hours, steps.covered_hours) if steps.covered_hours else placed
    )
    worked = divided(steps.covered * later, earlier) if earlier else mixed
    used = placed
    if steps.covered_mj and steps.nodes > 1:
        used = divided(steps.covered * steps.energy_mj, steps.covered_mj)
    return {
        WORK: worked - steps.covered,
        MIX: mixed - worked,
        EFFICIENCY: used - mixed,
        PLACE: placed - used,
    }
