"""Contents of the page of market-based emissions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.market.choices import MarketRule, RuleEdition, VolumeProfile
from apps.carbon.market.criteria import (
    Finding,
    check_exclusion,
    check_residual_mix,
)
from apps.carbon.market.market_years import StoredYear, has_use, stored_years, years_of
from apps.carbon.market.models import Instrument
from apps.carbon.market.records import COVERED
from apps.carbon.market.selectors import findings_of, instruments_of
from apps.carbon.market.stored_result import YearLine, YearResult
from apps.core.errors import InvalidInput
from apps.core.units import amount_text
from apps.dashboard.formatting import EMISSION, ENERGY, exact, grams_per_kwh, percent
from apps.fleet.zones import zones

NOT_MODELLED = (
    "exemption thresholds for small consumers",
    "the clause for contracts of before the change",
    "shares of standard supply",
)
CSV_HEADER = (
    "year", "from_utc", "until_utc", "edition", "is_draft", "is_stale", "zone", "rule",
    "instrument_id", "instrument", "volume_profile", "periods", "facility_energy_mj",
    "ug_co2e_per_kwh", "upstream_ug_co2e", "emission_ug_co2e",
)  # fmt: skip


@dataclass(frozen=True)
class LineRow:
    """A line of the table. ``subject``: its instrument, or the source of a published factor."""

    line: YearLine
    subject: str
    zone_name: str
    volume: str
    energy: str
    factor: str
    upstream: str
    emission: str


@dataclass(frozen=True)
class FindingRow:
    """A finding about an instrument or a zone. ``edition`` '': of both."""

    subject: str
    finding: Finding
    edition: str


@dataclass(frozen=True)
class EditionPart:
    """A year under a rule edition. ``ratio``: market-based ÷ location-based, '' if they are not
    comparable.
    """

    edition: RuleEdition
    is_draft: bool
    result: YearResult
    total: str
    exact: str
    covered: str
    ratio: str
    missing: str
    incomparable: str
    rows: list[LineRow]

    @property
    def is_uncovered(self) -> bool:
        """Return whether no instrument covers energy."""
        return self.result.covered_mj == 0

    @property
    def has_residual_mix(self) -> bool:
        """Return whether energy has a residual mix."""
        return any(line.rule == MarketRule.RESIDUAL_MIX for line in self.result.lines)

    @property
    def rests(self) -> list[str]:
        """Return what energy without an instrument has, in words."""
        rules = dict.fromkeys(line.rule for line in self.result.lines)
        return [_RESTS[rule] for rule in rules if rule not in COVERED]


_RESTS = {
    MarketRule.RESIDUAL_MIX: "the residual mix of its zone",
    MarketRule.GRID_AVERAGE: "the grid average, because no residual mix is entered",
    MarketRule.FOSSIL_FACTOR: "the fossil-based factor, because no residual mix is entered",
    MarketRule.MISSING_FACTOR: "no factor, so its emissions are unknown: enter the residual mix",
}


@dataclass(frozen=True)
class MarketPage:
    """A year. ``parts`` empty: not computed yet. ``is_stale``: an input has changed since.
    ``has_use``: complete days with use are summed.
    """

    year: int
    years: list[int]
    parts: list[EditionPart]
    from_hour: int
    until_hour: int
    computed_us: int | None
    is_stale: bool
    location: str
    location_exact: str
    location_missing: str
    energy: str
    findings: list[FindingRow]
    has_use: bool
    not_modelled: tuple[str, ...] = NOT_MODELLED


def parse_year(lab: Lab, text: str, now: int) -> int:
    """Return the year of a request, '': the current one. Raises InvalidInput."""
    years = years_of(lab, now)
    if not text:
        return years[0]
    if text not in {str(year) for year in years}:
        raise InvalidInput(
            f"{text[:20]!r} is not a year with use.",
            field="year",
            hint=f"Use a year from {years[-1]} to {years[0]}.",
        )
    return int(text)


def market_page(lab: Lab, year_text: str, now: int) -> MarketPage:
    """Return the page of a year. The number of queries does not depend on the number of lines."""
    year = parse_year(lab, year_text, now)
    stored = stored_years(lab, year, now)
    instruments = {row.pk: row for row in instruments_of(lab, with_withdrawn=True)}
    first = next(iter(stored.values()), None)
    result = first.result if first else None
    return MarketPage(
        year=year,
        years=years_of(lab, now),
        parts=[_part(each, instruments) for each in stored.values()],
        from_hour=first.from_hour if first else 0,
        until_hour=first.until_hour if first else 0,
        computed_us=first.computed_us if first else None,
        is_stale=any(each.is_stale for each in stored.values()),
        location=amount_text(result.location_ug, EMISSION) if result else "",
        location_exact=exact(result.location_ug, "emission_ug") if result else "",
        location_missing=(
            amount_text(result.location_missing_mj, ENERGY)
            if result and result.location_missing_mj
            else ""
        ),
        energy=amount_text(result.energy_mj, ENERGY) if result else "",
        findings=_findings(lab, year, stored, instruments),
        has_use=bool(result.lines) if result else has_use(lab, year),
    )


def _part(stored: StoredYear, instruments: Mapping[int, Instrument]) -> EditionPart:
    result = stored.result
    return EditionPart(
        edition=stored.edition,
        is_draft=stored.edition == RuleEdition.SCOPE2_DRAFT_2025,
        result=result,
        total=(
            "unknown"
            if result.missing_mj == result.energy_mj != 0
            else f"{'≥ ' if result.missing_mj else ''}{amount_text(result.emission_ug, EMISSION)}"
        ),
        exact=exact(result.emission_ug, "emission_ug"),
        covered=percent(result.covered_mj, result.energy_mj),
        ratio=_ratio(result),
        missing=amount_text(result.missing_mj, ENERGY) if result.missing_mj else "",
        incomparable=(
            amount_text(result.incomparable_mj, ENERGY) if result.incomparable_mj else ""
        ),
        rows=[_row(line, result, instruments) for line in result.lines],
    )


def _ratio(result: YearResult) -> str:
    """Return market-based ÷ location-based with two decimals, '' if they are not comparable."""
    if (
        result.location_ug <= 0
        or result.missing_mj
        or result.incomparable_mj
        or result.location_missing_mj
    ):
        return ""
    ratio = Decimal(result.emission_ug) / result.location_ug
    return str(ratio.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP))


def _row(line: YearLine, result: YearResult, instruments: Mapping[int, Instrument]) -> LineRow:
    zone = zones().get(line.zone)
    subject = ""
    if line.instrument_id is not None:
        subject = str(instruments[line.instrument_id])
    elif line.rule == MarketRule.GRID_AVERAGE and (grid := result.rates[line.zone].grid):
        subject = f"Annual factor of {grid.year}"
    upstream = "" if line.upstream_ug is None else amount_text(line.upstream_ug, EMISSION)
    if line.rule == MarketRule.GRID_AVERAGE:
        upstream = "in the factor"
    return LineRow(
        line,
        subject,
        zone.name if zone else line.zone or "Unknown zone",
        "" if line.profile == VolumeProfile.NONE else str(line.profile.label),
        amount_text(line.energy_mj, ENERGY),
        "" if line.ug_per_kwh is None else grams_per_kwh(line.ug_per_kwh),
        upstream,
        "" if line.emission_ug is None else amount_text(line.emission_ug, EMISSION),
    )


def _findings(
    lab: Lab,
    year: int,
    stored: Mapping[RuleEdition, StoredYear],
    instruments: Mapping[int, Instrument],
) -> list[FindingRow]:
    if not stored:
        return []
    rows = list[FindingRow]()
    [result, *_] = [each.result for each in stored.values()]
    for code, rates in result.rates.items():
        zone = zones().get(code)
        mix = rates.residual_mix
        for finding in check_residual_mix(mix.year if mix else None, year):
            rows.append(FindingRow(zone.name if zone else code or "Unknown zone", finding, ""))
    for edition, each in stored.items():
        for pk, reason in each.result.excluded.items():
            rows.append(
                FindingRow(str(instruments[pk]), check_exclusion(reason), str(edition.label))
            )
    matched = {
        pk for each in stored.values() for pk in (*each.result.used_mj, *each.result.excluded)
    }
    published = {
        rate.instrument_id
        for rates in result.rates.values()
        for rate in (rates.residual_mix, rates.fossil)
        if rate is not None
    }
    for pk, findings in findings_of(lab).items():
        if pk in matched | published:
            rows += [FindingRow(str(instruments[pk]), finding, "") for finding in findings]
    return rows


def csv_rows(lab: Lab, year: int, now: int) -> Iterator[tuple[object, ...]]:
    """Return the lines of a year as rows of the CSV."""
    instruments = {row.pk: row for row in instruments_of(lab, with_withdrawn=True)}
    for edition, stored in stored_years(lab, year, now).items():
        for line in stored.result.lines:
            yield (
                year,
                iso_hour(stored.from_hour),
                iso_hour(stored.until_hour),
                edition.value,
                "yes" if edition == RuleEdition.SCOPE2_DRAFT_2025 else "no",
                "yes" if stored.is_stale else "no",
                line.zone,
                line.rule.value,
                line.instrument_id,
                str(instruments[line.instrument_id]) if line.instrument_id is not None else "",
                line.profile.value,
                line.periods,
                line.energy_mj,
                line.ug_per_kwh,
                line.upstream_ug,
                line.emission_ug,
            )
