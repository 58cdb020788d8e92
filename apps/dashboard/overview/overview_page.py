"""Page object of the overview: headline, coverage, facts, parts, savings, projects and alerts."""

from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.coverage import DeviceTime, device_times, time_shares
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.figures.scopes import EMBODIED, SCOPE_NAMES, scope_of
from apps.dashboard.budgets.budgets_page import BudgetRow, status_rows
from apps.dashboard.charts import Chart
from apps.dashboard.explain.pricing import Pricing, factor_text
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    cost_quantity,
    energy_and_emissions,
    percent_quantity,
    quantity,
)
from apps.dashboard.formatting import percent, shares
from apps.dashboard.frame.period_steps import PREVIOUS
from apps.dashboard.overview.alerts import Alert, alerts_of
from apps.dashboard.overview.change import Change, change_of, comparisons_of, not_comparable
from apps.dashboard.overview.energy_use import (
    Charge,
    DataTable,
    Use,
    charges,
    chart_summary,
    priced_use,
    unknown_shares,
    use_chart,
    use_data_table,
    use_of,
)
from apps.dashboard.overview.market_totals import MarketTotals, market_totals_of
from apps.dashboard.overview.months import Months, months_of
from apps.dashboard.overview.savings import Savings, savings_of
from apps.dashboard.overview.use_and_hardware import (
    CombinedEmissions,
    Hardware,
    all_charges,
    combined_emissions,
    hardware_chart,
    hardware_data_table,
    hardware_of,
)
from apps.dashboard.periods import Period, day_text, lab_query
from apps.dashboard.statements.closed_figures import ClosedFigures, closed_figures
from apps.fleet.selectors import node_statuses


@dataclass(frozen=True)
class CoverageSummary:
    """Shares of device time as text and widths, the number of silent nodes, and the emission
    factor.
    """

    measured: str
    estimated: str
    unknown: str
    widths: dict[str, str]
    silent: int
    factor: str
    factor_source: str
    factor_href: str


@dataclass(frozen=True)
class Fact:
    """A figure behind the headline. ``note``: a short remark."""

    title: str
    quantity: Quantity
    note: str = ""


@dataclass(frozen=True)
class Segment:
    """A part of the bar that is all energy. ``percent``: its width. ``is_named``: it has a colour
    of its own, so the legend names it.
    """

    name: str
    colour: str
    href: str
    percent: str
    energy: Quantity
    share: Quantity
    is_named: bool


@dataclass(frozen=True)
class Row:
    """A row of the projects table. ``figures`` None: no energy; ``combined_emissions`` None: the
    lab has no asset; ``cost`` None: no energy, or the lab has no price.
    """

    charge: Charge
    figures: EnergyAndEmissions | None
    share: Quantity | None
    combined_emissions: CombinedEmissions | None
    cost: Quantity | None


@dataclass(frozen=True)
class OverviewPage:
    """Content of the overview. ``measured``: whether the period has data. ``not_comparable``: the
    comparisons (keys of COMPARISONS) that are not possible, with the reason.
    """

    period: Period
    since: str
    measured: bool
    nodes: int
    headline: EnergyAndEmissions
    cost: Quantity | None
    range_text: str
    change: Change | None
    not_comparable: dict[str, str]
    coverage: CoverageSummary
    facts: list[Fact]
    segments: list[Segment]
    unnamed_projects: int
    savings: Savings
    months: Months | None
    units: Units
    rows: list[Row]
    totals: EnergyAndEmissions
    alerts: list[Alert]
    chart: Chart
    has_unknown_time: bool
    hardware: Hardware | None
    hardware_chart: Chart | None
    closed: ClosedFigures | None
    market: MarketTotals | None
    budgets: list[BudgetRow]

    @property
    def start_problems(self) -> list[Alert]:
        """Return the alerts of collectors that do not measure."""
        return [alert for alert in self.alerts if alert.kind == "start-problem"]


def overview_page(
    *,
    lab: Lab,
    period: Period,
    now: int,
    profile: str = "",
    can_manage: bool = False,
    comparison: str = PREVIOUS,
) -> OverviewPage:
    """Return the overview of a period in a scope profile ('': that of the lab). The number of
    queries does not depend on the number of rows.
    """
    use, pricing = priced_use(
        lab, lab_query(lab, period).replace(profile=profile or lab.profile), period.time_group
    )
    listed = charges(lab, use, period)
    times = device_times(lab, period.from_hour, period.to_hour, now)
    unknown = unknown_shares(lab, period, times, now)
    units = column_units([use.whole])
    whole = use.whole
    hardware = hardware_of(lab, use.query, whole, now, period)
    hardware_charges = all_charges(lab, hardware, listed, period)
    nodes = node_statuses(lab)
    comparisons = comparisons_of(lab, period, whole, times, now)
    return OverviewPage(
        period=period,
        since=_since(period),
        measured=bool(use.parts),
        nodes=len(nodes),
        headline=energy_and_emissions(use.query, whole),
        cost=cost_quantity(lab, use.query, whole),
        range_text=pricing.range_text,
        change=change_of(lab, comparisons.get(comparison), whole),
        not_comparable=not_comparable(comparisons),
        coverage=_coverage(times, sum(node.is_silent(now) for node in nodes), pricing, use.query),
        facts=_facts(whole, use.query, pricing, hardware),
        segments=_segments(listed, use),
        unnamed_projects=sum(charge.colour == "s-more" for charge in listed),
        savings=savings_of(lab, use.query, whole, period),
        months=months_of(lab, use.query, period, whole.energy_mj, now, hardware is not None),
        units=units,
        rows=[_row(lab, charge, units, whole, hardware) for charge in hardware_charges],
        totals=energy_and_emissions(use.query, whole, units),
        alerts=alerts_of(lab, listed, nodes, now, can_manage=can_manage),
        chart=use_chart(
            "energy-by-project", use, listed, period, unknown, chart_summary(use, listed, period)
        ),
        has_unknown_time=any(share is not None and share > 0.005 for share in unknown),
        hardware=hardware,
        hardware_chart=hardware_chart(hardware, hardware_charges, period),
        closed=closed_figures(lab, period, whole),
        market=market_totals_of(lab, period, now),
        budgets=status_rows(lab, None, now),
    )


def _row(lab: Lab, charge: Charge, units: Units, whole: Figure, hardware: Hardware | None) -> Row:
    used = bool(charge.figure.entries)
    return Row(
        charge,
        energy_and_emissions(charge.query, charge.figure, units) if used else None,
        percent_quantity(charge.query, charge.figure.energy_mj, whole.energy_mj) if used else None,
        combined_emissions(hardware, charge) if hardware else None,
        cost_quantity(lab, charge.query, charge.figure) if used else None,
    )


def overview_data_table(*, lab: Lab, period: Period, now: int) -> DataTable:
    """Return the data table of the energy chart."""
    use = use_of(lab, lab_query(lab, period), period.time_group)
    times = device_times(lab, period.from_hour, period.to_hour, now)
    return use_data_table(
        use, charges(lab, use, period), period, unknown_shares(lab, period, times, now)
    )


def overview_hardware_data_table(*, lab: Lab, period: Period, now: int) -> DataTable | None:
    """Return the data table of the hardware chart, None if no embodied carbon was charged."""
    use = use_of(lab, lab_query(lab, period), period.time_group)
    hardware = hardware_of(lab, use.query, use.whole, now, period)
    if hardware is None or not hardware.by_charge:
        return None
    return hardware_data_table(
        hardware, all_charges(lab, hardware, charges(lab, use, period), period), period
    )


def overview_rows(*, lab: Lab, period: Period) -> tuple[Use, list[Charge]]:
    """Return the use and charges of the CSV file."""
    use = use_of(lab, lab_query(lab, period))
    return use, charges(lab, use, period)


def _since(period: Period) -> str:
    if period.preset == "24h":
        return "the last 24 hours"
    if period.preset == "today":
        return "today"
    if period.preset:
        return f"since {period.first_day.day} {period.first_day:%B}"
    if period.is_whole_unit and period.unit != "day":
        return period.label
    if period.first_day == period.last_day:
        return day_text(period.last_day, year=True)
    return f"{day_text(period.first_day)} – {day_text(period.last_day, year=True)}"


def _coverage(
    times: list[DeviceTime], silent: int, pricing: Pricing, query: FigureQuery
) -> CoverageSummary:
    sums = time_shares(times)
    parts = {
        "measured": sums.measured_us,
        "estimated": sums.estimated_us,
        "unknown": sums.unknown_us,
    }
    factors = pricing.factors
    return CoverageSummary(
        **{name: percent(value, sums.expected_us) for name, value in parts.items()},
        widths={name: f"{width}%" for name, width in shares(parts).items()},
        silent=silent,
        factor=factor_text(factors[0])
        if len(factors) == 1
        else f"{len(factors)} emission factors"
        if factors
        else "",
        factor_source=" · ".join(factor.source for factor in factors),
        factor_href=(
            f"{reverse('explain')}?{query.replace(metric='emission_ug').to_query_string()}#factor"
        ),
    )


def _facts(
    whole: Figure, query: FigureQuery, pricing: Pricing, hardware: Hardware | None
) -> list[Fact]:
    """Return the figures that the headline consists of."""
    facts = [
        Fact(
            "Electricity (location-based)",
            quantity(query.replace(metric="emission_ug"), whole),
            f"range {pricing.range_text}" if pricing.range_text else "",
        )
    ]
    if whole.facility_energy_mj == whole.energy_mj:
        facts.append(Fact("Energy", quantity(query, whole), "as metered"))
    else:
        facility = quantity(query.replace(metric="facility_energy_mj"), whole)
        facts.append(Fact("Energy", quantity(query, whole), "as metered, before PUE"))
        facts.append(Fact("Facility energy", facility, "including PUE of the site"))
    if hardware is not None and hardware.headline.hardware is not None:
        scope = SCOPE_NAMES[scope_of(query.profile, EMBODIED)].partition(":")[0]
        facts.append(
            Fact("Hardware (amortised)", hardware.headline.hardware, f"{scope} · {hardware.known}")
        )
    return facts


def _segments(listed: list[Charge], use: Use) -> list[Segment]:
    """Return the parts of the whole energy, in the order of the table."""
    whole_mj = use.whole.energy_mj
    if whole_mj <= 0:
        return []
    return [
        Segment(
            charge.name,
            charge.colour,
            charge.href,
            f"{100 * max(0, charge.figure.energy_mj) / whole_mj:.2f}",
            quantity(charge.query, charge.figure),
            percent_quantity(charge.query, charge.figure.energy_mj, whole_mj),
            charge.colour != "s-more",
        )
        for charge in listed
        if charge.figure.entries
    ]
