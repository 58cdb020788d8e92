"""Content of a statement: frozen figures, and what the current ones differ by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.choices import Resolution
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import ALLOCATION, INVENTORY
from apps.carbon.figures.scopes import PROFILE_NAMES, PROFILES, SCOPE_NAMES
from apps.core.units import PPM
from apps.dashboard.figures import (
    ChangeSince,
    Projected,
    Quantity,
    change_since,
    estimated,
    quantity,
)
from apps.dashboard.formatting import Unit, factor_value, percent, pue, unit_for
from apps.dashboard.periods import Period
from apps.dashboard.statements.market_part import MarketPart, market_part
from apps.dashboard.statements.texts import subject_name, subject_names
from apps.reports.conservation import ASSET, COVERAGE, EMISSION, ENERGY, FACILITY, WITHOUT_FACTOR
from apps.reports.figures import period_query
from apps.reports.models import Statement
from apps.reports.rows import FACTOR, LAB, NONE, Lines, Row
from apps.reports.selectors import frozen_rows, revisions

COLUMNS = (ENERGY, EMISSION, ALLOCATION, INVENTORY)
PRINTED_CHARGES, PRINTED_FACTORS = 12, 5


@dataclass(frozen=True)
class Headline:
    """Figures of the lab. ``without_factor`` None: all energy has a factor. ``coverage``: percent
    of device time with data, '' if none is expected.
    """

    energy: Projected
    facility: Projected
    emission: Projected
    allocation: Projected
    inventory: Projected
    without_factor: Projected | None
    coverage: str
    assets: int
    assets_known: int


@dataclass(frozen=True)
class FigureRow:
    """A project, another charge or a scope. A cell None: the statement has no such line."""

    key: str
    name: str
    cells: list[tuple[str, int | None, Projected | None]]


@dataclass(frozen=True)
class ScopeTable:
    """The scopes of a profile, which add up to the lab."""

    profile: str
    name: str
    rows: list[FigureRow]


@dataclass(frozen=True)
class FactorRow:
    """The energy and emissions that were computed with an edition of a factor and a PUE."""

    key: str
    name: str
    facts: str
    value: str
    pue: str
    energy: Projected
    emission: Projected


@dataclass(frozen=True)
class Current:
    """Energy and emissions as of now, and their difference from the statement. ``emission`` None:
    the lab has changed its basis, so emissions cannot be compared.
    """

    energy: Quantity
    emission: Quantity | None
    energy_change: ChangeSince
    emission_change: ChangeSince | None
    differs: bool


@dataclass(frozen=True)
class StatementPage:
    """A statement. ``current`` None: a later revision exists. ``charges`` add up to ``totals``."""

    statement: Statement
    period: Period
    revisions: list[Statement]
    next_revision: Statement | None
    headline: Headline
    market: MarketPart
    current: Current | None
    units: list[tuple[str, str]]
    charges: list[FigureRow]
    totals: list[tuple[str, int | None, Projected | None]]
    scopes: list[ScopeTable]
    factors: list[FactorRow]
    closed_by: str
    previous_sha256: str

    @property
    def is_latest(self) -> bool:
        return self.next_revision is None


def period_of(statement: Statement) -> Period:
    """Return the closed period, in the time zone in which it was closed."""
    return Period(statement.from_hour, statement.to_hour, ZoneInfo(statement.time_zone))


def person_name(statement: Statement) -> str:
    """Return the name of the person who closed a period, '' for none."""
    by = statement.created_by
    return (by.get_full_name() or by.get_username()) if by else ""


def overview_address(statement: Statement) -> str:
    """Return the address of the overview of the period."""
    return f"{reverse('overview')}?{period_of(statement).fixed_query}"


def headline_of(lines: Lines) -> Headline:
    """Return the figures of the lab."""
    without_mj = lines.value(LAB, WITHOUT_FACTOR) or 0
    coverage = lines.value(LAB, COVERAGE)
    assets, known = (lines.value(LAB, name) or 0 for name in ("assets", "assets_known"))
    return Headline(
        energy=estimated(lines.value(LAB, ENERGY) or 0),
        facility=estimated(lines.value(LAB, FACILITY) or 0),
        emission=estimated(lines.value(LAB, EMISSION) or 0, EMISSION, at_least=bool(without_mj)),
        allocation=_hardware(lines.value(LAB, ALLOCATION) or 0, known, assets),
        inventory=_hardware(lines.value(LAB, INVENTORY) or 0, known, assets),
        without_factor=estimated(without_mj) if without_mj else None,
        coverage="" if coverage is None else percent(coverage, PPM),
        assets=assets,
        assets_known=known,
    )


def _hardware(value: int, known: int, assets: int) -> Projected:
    """Return embodied carbon: a lower bound if assets have no figure, and unknown instead of 0."""
    amount = estimated(value, EMISSION, at_least=known < assets)
    if value or known == assets:
        return amount
    return replace(amount, missing="none known" if known else "unknown")


def current_of(lab: Lab, statement: Statement, lines: Lines) -> Current:
    """Return the current energy and emissions of a closed period beside the frozen ones."""
    query = period_query(lab, statement.from_hour, statement.to_hour)
    found = figure(lab, query)
    energy = found.energy_mj - (lines.value(LAB, ENERGY) or 0)
    same_basis = statement.basis == lab.basis
    emission = found.emission_ug - (lines.value(LAB, EMISSION) or 0) if same_basis else None
    return Current(
        energy=quantity(query, found),
        emission=quantity(query.replace(metric=EMISSION), found) if same_basis else None,
        energy_change=change_since(energy, ENERGY),
        emission_change=None if emission is None else change_since(emission, EMISSION),
        differs=bool(energy) or emission != 0,
    )


def statement_page(lab: Lab, statement: Statement, *, printed: bool = False) -> StatementPage:
    """Return the page of a statement. ``printed``: the smaller charges are one row, and nothing
    current is shown. Raises Conflict for a statement that was changed in the database.
    """
    rows = frozen_rows(statement)
    lines, names = Lines(rows), subject_names(lab)
    listed = list(revisions(statement).defer("content"))
    later = [each for each in listed if each.revision > statement.revision]
    energies, emissions = (
        [lines.value(subject, metric) or 0 for subject in lines.subjects()]
        for metric in (ENERGY, EMISSION)
    )
    units = {
        ENERGY: unit_for(ENERGY, energies, column=True),
        **dict.fromkeys(COLUMNS[1:], unit_for(EMISSION, emissions, column=True)),
    }

    def row(subject: str, name: str, key: str, **part: str) -> FigureRow:
        values = [(metric, lines.value(subject, metric, **part)) for metric in COLUMNS]
        return FigureRow(
            key,
            name,
            [
                (metric, value, None if value is None else estimated(value, metric, units[metric]))
                for metric, value in values
            ],
        )

    charges = [
        row(subject, subject_name(subject, names), subject)
        for subject in lines.subjects()
        if subject != LAB and not subject.startswith(ASSET)
    ]
    charges.sort(key=lambda each: [-(value or 0) for _, value, _ in each.cells])
    if printed:
        charges = _with_others(charges, units)
    return StatementPage(
        statement=statement,
        period=period_of(statement),
        revisions=listed,
        next_revision=later[-1] if later else None,
        headline=headline_of(lines),
        market=market_part(rows, lines),
        current=None if later or printed else current_of(lab, statement, lines),
        units=[(metric, units[metric].name) for metric in COLUMNS],
        charges=charges,
        totals=row(LAB, "Lab", LAB).cells,
        scopes=[
            ScopeTable(
                profile,
                PROFILE_NAMES[profile],
                [
                    row(LAB, SCOPE_NAMES.get(scope, scope), scope, profile=profile, scope=scope)
                    for scope in lines.scopes(profile)
                ],
            )
            for profile in PROFILES
        ],
        factors=_factor_rows(rows, lines, PRINTED_FACTORS if printed else None),
        closed_by=person_name(statement),
        previous_sha256=next(
            (each.sha256 for each in listed if each.revision == statement.revision - 1), ""
        ),
    )


def _with_others(charges: list[FigureRow], units: Mapping[str, Unit]) -> list[FigureRow]:
    """Return the largest charges, and all others as one row."""
    if len(charges) <= PRINTED_CHARGES:
        return charges
    rest = charges[PRINTED_CHARGES - 1 :]
    cells: list[tuple[str, int | None, Projected | None]] = []
    for i, metric in enumerate(COLUMNS):
        value = sum(each.cells[i][1] or 0 for each in rest)
        cells.append((metric, value, estimated(value, metric, units[metric])))
    return [*charges[: PRINTED_CHARGES - 1], FigureRow("others", f"{len(rest)} others", cells)]


def _factor_rows(rows: list[Row], lines: Lines, limit: int | None) -> list[FactorRow]:
    """Return the parts of the lab by factor and PUE, those beyond ``limit`` as one row."""
    facts: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.kind == FACTOR:
            facts.setdefault(row.subject, {})[row.metric] = row.value
    energies, emissions = (lines.part_sums(metric) for metric in (ENERGY, EMISSION))
    keys = sorted(energies, key=lambda key: (-energies[key], key))
    shown = keys if limit is None or len(keys) <= limit else keys[: limit - 1]
    listed = [
        _factor_row(key, facts.get(key[0], {}), energies[key], emissions.get(key, 0))
        for key in shown
    ]
    if rest := keys[len(shown) :]:
        sums = [sum(values.get(key, 0) for key in rest) for values in (energies, emissions)]
        listed.append(
            FactorRow(
                key="others",
                name=f"{len(rest)} others",
                facts="",
                value="",
                pue="",
                energy=estimated(sums[0]),
                emission=estimated(sums[1], EMISSION),
            )
        )
    return listed


def _factor_row(
    key: tuple[str, str], facts: Mapping[str, str], energy_mj: int, emission_ug: int
) -> FactorRow:
    factor, pue_ppm = key
    is_known, ug_per_kwh = factor != NONE, facts.get("ug_per_kwh")
    value = factor_value(None if ug_per_kwh is None else int(ug_per_kwh))
    return FactorRow(
        key=factor,
        name=_factor_name(facts) if is_known else "No factor",
        facts=_source_text(facts) if is_known else "",
        value=value if is_known else "",
        pue="unknown" if pue_ppm == NONE else pue(int(pue_ppm)),
        energy=estimated(energy_mj),
        emission=estimated(emission_ug, EMISSION),
    )


def _factor_name(facts: Mapping[str, str]) -> str:
    year = f"{facts['year']}-{int(facts['month']):02}" if "month" in facts else facts["year"]
    resolution = facts["resolution"]
    label = dict(Resolution.choices).get(resolution, resolution)
    return f"{facts.get('zone_name') or facts.get('zone', '')}, {label}, {year}"


def _source_text(facts: Mapping[str, str]) -> str:
    parts = (f"edition {facts['edition']}", facts.get("source", ""), facts.get("licence", ""))
    return ", ".join(filter(None, parts))
