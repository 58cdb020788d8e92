"""Sums that the lines of a statement must keep. Pure.

- The lab is the sum of its projects and of the charges that no project bears.
- Hardware is also the sum of the assets.
- The scopes of each profile sum to the lab.
- A figure is the sum of its parts by factor and PUE.
- A part is its energy × PUE × factor, up to the rounding of its ledger entries.
- Coverage is device time with data over expected device time.
- Market-based totals keep sums of their own (:mod:`apps.reports.market_totals`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from apps.core.units import MJ_PER_KWH, PPM
from apps.reports.imbalances import Imbalance
from apps.reports.market_totals import market_imbalances
from apps.reports.rows import FACTOR, LAB, LINE, NONE, Row

ENERGY, FACILITY, EMISSION, ENTRIES = "energy_mj", "facility_energy_mj", "emission_ug", "entries"
WITHOUT_FACTOR = "without_factor_mj"
PART_METRICS = (ENERGY, FACILITY, EMISSION, ENTRIES)
USE_METRICS = (*PART_METRICS, WITHOUT_FACTOR)
HARDWARE_METRICS = ("embodied_ug", "embodied_inventory_ug")
MEASURED, ESTIMATED, UNKNOWN = "measured_us", "estimated_us", "unknown_us"
COVERAGE = "coverage_ppm"
ASSET = "asset:"


def coverage_ppm(measured_us: int, estimated_us: int, unknown_us: int) -> int | None:
    """Return the share of expected device time with data, half up. None: nothing is expected."""
    covered, expected = measured_us + estimated_us, measured_us + estimated_us + unknown_us
    return (2 * covered * PPM + expected) // (2 * expected) if expected else None


@dataclass(frozen=True)
class _Rule:
    """Totals are sums of other lines. ``total_of`` returns the key of the total that contains a
    line. ``is_total``: whether a line must be such a sum, even if it contains nothing.
    """

    text: str
    total_of: Callable[[Row], Row | None]
    is_total: Callable[[Row], bool]


def _is_party(row: Row) -> bool:
    """Return whether the subject is a project, or a charge that no project bears."""
    return row.subject != LAB and not row.subject.startswith(ASSET)


def _is_lab(row: Row, metrics: tuple[str, ...]) -> bool:
    return row.subject == LAB and row.metric in metrics and not row.profile


_RULES = (
    _Rule(
        "the sum of projects and other charges",
        lambda row: replace(row.key, subject=LAB) if _is_party(row) and not row.factor else None,
        lambda key: _is_lab(key, (*USE_METRICS, *HARDWARE_METRICS)),
    ),
    _Rule(
        "the sum of the assets",
        lambda row: replace(row.key, subject=LAB) if row.subject.startswith(ASSET) else None,
        lambda key: _is_lab(key, HARDWARE_METRICS),
    ),
    _Rule(
        "the sum of the scopes of a profile",
        lambda row: replace(row.key, profile="", scope="") if row.scope else None,
        lambda key: _is_lab(key, (ENERGY, FACILITY, EMISSION, *HARDWARE_METRICS)),
    ),
    _Rule(
        "the sum of its parts by factor",
        lambda row: replace(row.key, factor="", pue_ppm="") if row.factor else None,
        lambda key: _is_party(key) and key.metric in PART_METRICS,
    ),
    _Rule(
        "the energy of its parts without a factor",
        lambda row: (
            replace(row.key, metric=WITHOUT_FACTOR, factor="", pue_ppm="")
            if (row.metric, row.factor) == (ENERGY, NONE)
            else None
        ),
        lambda key: _is_party(key) and key.metric == WITHOUT_FACTOR,
    ),
)


def imbalances(rows: Iterable[Row]) -> list[Imbalance]:
    """Return the lines that do not keep a sum, in the order of the rows."""
    listed = list(rows)
    all_lines = [row for row in listed if row.kind == LINE]
    lines = [row for row in all_lines if not row.is_market]
    values = {row.key: row.number for row in lines if not row.factor}
    problems = chain(
        _duplicates(all_lines),
        *(_unequal(rule, lines, values) for rule in _RULES),
        _unlinear_parts(lines, _factors(listed)),
        _wrong_coverage(values),
        market_imbalances(listed),
    )
    order = {row.key: i for i, row in enumerate(listed)}
    return sorted(problems, key=lambda problem: order.get(problem.row.key, len(order)))


def _duplicates(lines: list[Row]) -> Iterator[Imbalance]:
    keys = set[Row]()
    for row in lines:
        if row.key in keys:
            yield Imbalance(row, "occurs twice")
        keys.add(row.key)


def _unequal(rule: _Rule, lines: list[Row], values: Mapping[Row, int]) -> Iterator[Imbalance]:
    """Yield the totals that are not the sum of their lines, once for each profile."""
    sums: dict[tuple[Row, str], int] = defaultdict(int)
    for row in lines:
        total = rule.total_of(row)
        if total is not None:
            sums[total, row.profile] += row.number
    summed = {total for total, _ in sums}
    for key in values:
        if rule.is_total(key) and key not in summed:
            sums[key, ""] = 0
    for (total, _), number in sums.items():
        stated = values.get(total)
        if stated is None:
            yield Imbalance(total, f"is missing, but {rule.text} is {number}")
        elif stated != number:
            yield Imbalance(total, f"is {stated}, but {rule.text} is {number}")


def _factors(rows: list[Row]) -> dict[str, int | None]:
    """Return {edition: µg per kWh}, None for a factor that changes by hour."""
    factors: dict[str, int | None] = {}
    for row in rows:
        if row.kind == FACTOR:
            factors.setdefault(row.subject, None)
            if row.metric == "ug_per_kwh":
                factors[row.subject] = row.number
    return factors


def _unlinear_parts(lines: list[Row], factors: Mapping[str, int | None]) -> Iterator[Imbalance]:
    """Yield the parts that differ from energy × PUE × factor by more than rounding. An entry is
    rounded by 0.5, and its share for a project by 1, in energy and in the product.
    """
    parts: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in lines:
        if row.factor:
            parts[row.subject, row.factor, row.pue_ppm][row.metric] = row
    for (_, factor, pue), part in parts.items():
        if missing := [metric for metric in PART_METRICS if metric not in part]:
            row = next(iter(part.values()))
            yield Imbalance(row, f"has no {missing[0]} beside it")
            continue
        energy, entries = part[ENERGY].number, part[ENTRIES].number
        pue_ppm = 0 if pue == NONE else int(pue)
        if factor not in factors and factor != NONE:
            yield Imbalance(part[ENERGY], "has a factor that is not in the statement")
            continue
        facility = part[FACILITY].number
        if abs(facility * PPM - energy * pue_ppm) > entries * (2 * PPM + pue_ppm):
            yield Imbalance(part[FACILITY], f"is {facility}, which is not energy × PUE")
        ug_per_kwh = 0 if factor == NONE else factors[factor]
        if ug_per_kwh is None:
            continue
        emission, divisor, rate = part[EMISSION].number, MJ_PER_KWH * PPM, pue_ppm * ug_per_kwh
        if abs(emission * divisor - energy * rate) > entries * (2 * divisor + rate):
            yield Imbalance(part[EMISSION], f"is {emission}, which is not energy × PUE × factor")


def _wrong_coverage(values: Mapping[Row, int]) -> Iterator[Imbalance]:
    of_lab = {row.metric: number for row, number in values.items() if row.subject == LAB}
    times = [of_lab.get(metric) for metric in (MEASURED, ESTIMATED, UNKNOWN)]
    if None in times:
        return
    expected = coverage_ppm(*[time or 0 for time in times])
    if of_lab.get(COVERAGE) != expected:
        stated = of_lab.get(COVERAGE)
        key = next(row for row in values if row.metric == MEASURED)
        yield Imbalance(
            replace(key, metric=COVERAGE),
            f"is {stated}, but the device times result in {expected}",
        )
