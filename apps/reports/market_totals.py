"""Market-based totals in a statement: their rows, and the sums that they must keep. Pure.

A total is that of a rule edition, such as ``market:scope2-2015``. Its energy is the facility energy
of the lab. It is the sum of its parts by zone, rule, instrument and volume profile. A part is its
energy × rate, plus upstream emissions, up to the rounding of its matching periods.

They are never added to location-based figures.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apps.carbon.market.choices import MarketRule, RuleEdition
from apps.carbon.market.records import COVERED, ZoneRates
from apps.carbon.market.stored_result import YearLine, YearResult
from apps.core.units import MJ_PER_KWH
from apps.reports.imbalances import Imbalance
from apps.reports.rows import FACTOR, LAB, LINE, MARKET, STATEMENT, Row, line

STATE = "market_based"  # fact of a statement: whether it has market-based totals
INCLUDED, OTHER_PERIOD = "included", "other_period"
NOT_COMPUTED, OUTDATED = "not_computed", "outdated"
ENERGY, EMISSION, WITHOUT_FACTOR = "facility_energy_mj", "emission_ug", "without_factor_mj"
COVERED_ENERGY, UPSTREAM, PERIODS = "covered_mj", "upstream_ug", "matching_periods"
RATE, UPSTREAM_RATE = "ug_per_kwh", "upstream_ug_per_kwh"
_COVERED_RULES = {rule.value for rule in COVERED}


def state_row(state: str) -> Row:
    """Return the fact whether a statement has market-based totals, or why not."""
    return Row(STATEMENT, STATEMENT, STATE, value=state)


def state_of(rows: Iterable[Row]) -> str:
    """Return the fact of :func:`state_row`, '' for a statement without it."""
    return next((row.value for row in rows if (row.kind, row.metric) == (STATEMENT, STATE)), "")


def subject_of(edition: RuleEdition) -> str:
    """Return the subject of the total of a rule edition."""
    return f"{MARKET}{edition.value}"


def total_rows(results: Mapping[RuleEdition, YearResult], basis: str) -> list[Row]:
    """Return the rule editions and rates behind the totals, then the totals with their parts."""
    editions, lines = list[Row](), list[Row]()
    rates = dict[str, list[Row]]()
    for edition, result in results.items():
        is_draft = edition == RuleEdition.SCOPE2_DRAFT_2025
        facts = {"name": str(edition.label), "status": "draft" if is_draft else "in force"}
        editions += _facts(subject_of(edition), facts)
        for part in result.lines:
            key = _part_key(part)
            rates[key] = _facts(key, _rate_facts(part, result.rates[part.zone]))
        lines += _lines(subject_of(edition), result, basis)
    return [*editions, *(row for key in sorted(rates) for row in rates[key]), *lines]


def _facts(subject: str, facts: Mapping[str, object]) -> list[Row]:
    return [
        Row(FACTOR, subject, metric, value=str(value))
        for metric, value in facts.items()
        if value is not None and value != ""
    ]


def _part_key(part: YearLine) -> str:
    """Return the key of a part. A zone has one rate of a rule, instrument and volume profile."""
    instrument = "none" if part.instrument_id is None else str(part.instrument_id)
    names = (part.zone or "unknown", part.rule.value, instrument, part.profile.value or "none")
    return MARKET + ":".join(names)


def _rate_facts(part: YearLine, rates: ZoneRates) -> dict[str, object]:
    rate = {
        MarketRule.RESIDUAL_MIX: rates.residual_mix,
        MarketRule.FOSSIL_FACTOR: rates.fossil,
        MarketRule.GRID_AVERAGE: rates.grid,
    }.get(part.rule)
    upstream = 0 if part.rule == MarketRule.GRID_AVERAGE else rates.upstream_ug_per_kwh
    return {
        "zone": part.zone,
        "rule": part.rule.value,
        "instrument": part.instrument_id,
        "year": rate.year if rate else None,
        "volume_profile": part.profile.value,
        RATE: part.ug_per_kwh,
        UPSTREAM_RATE: None if part.upstream_ug is None else upstream,
    }


def _lines(subject: str, result: YearResult, basis: str) -> Iterator[Row]:
    columns = {"accounting": "market", "basis": basis}
    totals = {
        ENERGY: result.energy_mj,
        EMISSION: result.emission_ug,
        COVERED_ENERGY: result.covered_mj,
        WITHOUT_FACTOR: result.missing_mj,
    }
    for metric, value in totals.items():
        yield line(subject, metric, value, **columns)
    for part in sorted(result.lines, key=_part_key):
        values = {
            ENERGY: part.energy_mj,
            PERIODS: part.periods,
            EMISSION: part.emission_ug,
            UPSTREAM: part.upstream_ug,
        }
        for metric, number in values.items():
            if number is not None:
                yield line(subject, metric, number, factor=_part_key(part), **columns)


def market_imbalances(rows: Sequence[Row]) -> Iterator[Imbalance]:
    """Yield the market-based lines that do not keep a sum."""
    lines = [row for row in rows if row.kind == LINE and row.is_market]
    facts: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row.kind == FACTOR:
            facts[row.subject][row.metric] = row.value
    lab_mj = next(
        (
            row.number
            for row in rows
            if row.kind == LINE and (row.subject, row.metric) == (LAB, ENERGY) and not row.profile
        ),
        None,
    )
    for subject in dict.fromkeys(row.subject for row in lines):
        of_subject = [row for row in lines if row.subject == subject]
        yield from _total_imbalances(of_subject, facts, lab_mj)
        yield from _part_imbalances(of_subject, facts)


def _total_imbalances(
    lines: Sequence[Row], facts: Mapping[str, Mapping[str, str]], lab_mj: int | None
) -> Iterator[Imbalance]:
    """Yield the totals that are not the sums of their parts."""
    priced = {row.factor for row in lines if row.metric == EMISSION and row.factor}
    sums = dict.fromkeys((ENERGY, EMISSION, COVERED_ENERGY, WITHOUT_FACTOR), 0)
    for row in lines:
        if row.factor and row.metric in (ENERGY, EMISSION):
            sums[row.metric] += row.number
        if row.factor and row.metric == ENERGY:
            is_covered = facts.get(row.factor, {}).get("rule") in _COVERED_RULES
            sums[COVERED_ENERGY] += row.number if is_covered else 0
            sums[WITHOUT_FACTOR] += 0 if row.factor in priced else row.number
    totals = {row.metric: row for row in lines if not row.factor}
    for metric, number in sums.items():
        if metric not in totals:
            yield Imbalance(lines[0], f"has no total {metric} beside it")
        elif totals[metric].number != number:
            text = f"is {totals[metric].number}, but the sum of its parts is {number}"
            yield Imbalance(totals[metric], text)
    if ENERGY in totals and totals[ENERGY].number != lab_mj:
        text = f"is {totals[ENERGY].number}, but the facility energy of the lab is {lab_mj}"
        yield Imbalance(totals[ENERGY], text)


def _part_imbalances(
    lines: Sequence[Row], facts: Mapping[str, Mapping[str, str]]
) -> Iterator[Imbalance]:
    """Yield the parts that differ from energy × rate by more than the rounding of their matching
    periods, each by 0.5.
    """
    parts: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in lines:
        if row.factor:
            parts[row.factor][row.metric] = row
    for key, part in parts.items():
        first = next(iter(part.values()))
        if missing := [metric for metric in (ENERGY, PERIODS) if metric not in part]:
            yield Imbalance(first, f"has no {missing[0]} beside it")
            continue
        if key not in facts:
            yield Imbalance(first, "has a factor that is not in the statement")
            continue
        upstream = part[UPSTREAM].number if UPSTREAM in part else 0
        direct = part[EMISSION].number - upstream if EMISSION in part else 0
        amounts = {UPSTREAM: (UPSTREAM_RATE, upstream), EMISSION: (RATE, direct)}
        for metric, (rate_name, amount) in amounts.items():
            rate = facts[key].get(rate_name)
            if (rate is None) != (metric not in part):
                yield Imbalance(first, f"has {rate_name} or {metric}, but not both")
            elif rate is not None:
                difference = abs(amount * MJ_PER_KWH - part[ENERGY].number * int(rate))
                if 2 * difference > part[PERIODS].number * MJ_PER_KWH:
                    text = f"is {part[metric].number}, which is not energy × rate"
                    yield Imbalance(part[metric], text)
