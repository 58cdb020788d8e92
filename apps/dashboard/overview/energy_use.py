"""Energy over time and by charge, shared by the overview and the project pages."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.coverage import DeviceTime, covered_by_day, covered_by_hour, expected_between
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery, iso_hour
from apps.dashboard.charts import Chart, Series, stacked
from apps.dashboard.explain.pricing import PRICING_GROUPS, Pricing, pricing_from
from apps.dashboard.figures import Quantity, quantity, total
from apps.dashboard.formatting import Unit, format_value, unit_for
from apps.dashboard.periods import Bucket, Period, running_place
from apps.ingest.choices import EnergyQuality

SPECIAL = {
    "~idle": ("Idle", "s-idle", "on but not used"),
    "~system": ("System", "s-system", "services, kernel and login screens of the machines"),
    "~unattributed": ("Unattributed", "s-unattributed", "used without a project"),
    "~overhead": ("Node overhead", "s-overhead", "node energy outside device meters"),
}
COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6")


@dataclass(frozen=True)
class Charge:
    """A receiver of energy: a project, idle, system, unattributed, or node overhead."""

    key: str
    name: str
    colour: str
    note: str
    href: str
    query: FigureQuery
    figure: Figure


@dataclass(frozen=True)
class Use:
    """The ledger of a subject over a period, by hour (or first hour of a day), charge and
    quality.
    """

    query: FigureQuery
    parts: dict[tuple[int, str, int], Figure]

    @cached_property
    def whole(self) -> Figure:
        return total(self.parts.values())

    def by_charge(self) -> dict[str, Figure]:
        groups: dict[str, list[Figure]] = defaultdict(list)
        for (_, charge, _), part in self.parts.items():
            groups[charge].append(part)
        return {charge: total(parts) for charge, parts in groups.items()}

    def by_quality(self) -> dict[str, Figure]:
        groups: dict[str, list[Figure]] = defaultdict(list)
        for (_, _, quality), part in self.parts.items():
            groups[EnergyQuality(quality).name].append(part)
        return {name: total(groups[name]) for name in EnergyQuality.names if name in groups}


def use_of(lab: Lab, query: FigureQuery, time_group: str = "hour") -> Use:
    """Return the use behind ``query``, by hour or by ``Period.time_group``. One query."""
    return Use(query, figures_by(lab, query, [time_group, "charge", "quality"]))


def priced_use(lab: Lab, query: FigureQuery, time_group: str) -> tuple[Use, Pricing]:
    """Return the use behind ``query`` and the factors of its emissions, from one pass over the
    ledger. Two queries, and two more for declared energy.
    """
    figures = figures_by(lab, query, [time_group, *PRICING_GROUPS])
    by_use: dict[tuple[int, str, int], list[Figure]] = defaultdict(list)
    by_price: dict[tuple[Any, ...], list[Figure]] = defaultdict(list)
    for (hour, quality, charge, factor, pue), part in figures.items():
        by_use[hour, charge, quality].append(part)
        by_price[quality, charge, factor, pue].append(part)
    use = Use(query, {key: total(parts) for key, parts in by_use.items()})
    priced = {key: total(parts) for key, parts in by_price.items()}
    return use, pricing_from(lab, query.replace(metric="emission_ug"), priced)


def merge_charges(use: Use, key: str) -> Use:
    """Return the same use with all charges as one, called ``key``."""
    groups: dict[tuple[int, str, int], list[Figure]] = defaultdict(list)
    for (hour, _, quality), part in use.parts.items():
        groups[hour, key, quality].append(part)
    return Use(use.query, {place: total(parts) for place, parts in groups.items()})


def charge_query(query: FigureQuery, key: str) -> FigureQuery:
    """Return the query of one charge within a lab's ``query``."""
    if key.startswith("~"):
        return query.replace(consumer=key[1:])
    return query.replace(subject_kind="project", subject_key=key)


def project_colour(slug: str, slugs: Sequence[str], taken: Collection[str]) -> str:
    """Return the colour of a project: that of its place in ``slugs``, so that it is the same in all
    periods, else the next one that is not ``taken``, else that of further projects.
    """
    place = slugs.index(slug) if slug in slugs else 0
    order = [COLOURS[(place + i) % len(COLOURS)] for i in range(len(COLOURS))]
    return next((colour for colour in order if colour not in taken), "s-more")


def charges(lab: Lab, use: Use, period: Period) -> list[Charge]:
    """Return projects by energy, then energy without a project. Projects without energy are left
    out.
    """
    names = dict(lab.projects.order_by("pk").values_list("slug", "name"))
    by_charge = use.by_charge()
    projects = sorted(
        (key for key in by_charge if not key.startswith("~")),
        key=lambda key: (-by_charge[key].energy_mj, key),
    )
    listed: list[Charge] = []
    for key in projects:
        href = reverse("project", args=[key]) + (f"?{period.query}" if period.query else "")
        colour = project_colour(key, list(names), [charge.colour for charge in listed])
        listed.append(
            Charge(
                key,
                names.get(key, key),
                colour,
                "",
                href,
                charge_query(use.query, key),
                by_charge[key],
            )
        )
    for key, (name, colour, note) in SPECIAL.items():
        if key in by_charge:
            page = reverse("unattributed") + (f"?{period.query}" if period.query else "")
            nodes = reverse("nodes") + (f"?{period.query}" if period.query else "")
            href = page if key in ("~system", "~unattributed") else nodes
            listed.append(
                Charge(key, name, colour, note, href, charge_query(use.query, key), by_charge[key])
            )
    return listed


@dataclass(frozen=True)
class DataTableRow:
    """A row of a chart's data table."""

    label: str
    cells: list[Quantity | None]
    unknown: str


@dataclass(frozen=True)
class DataTable:
    """The data table of a stacked chart: every bar as a figure."""

    headings: list[str]
    unit: Unit
    rows: list[DataTableRow]
    totals: list[Quantity]
    grain: str
    measure: str = "Energy"


def _bucket_of(buckets: list[Bucket]) -> dict[int, int]:
    return {
        hour: i
        for i, bucket in enumerate(buckets)
        for hour in range(bucket.from_hour, bucket.to_hour)
    }


def in_buckets(use: Use, buckets: list[Bucket]) -> dict[tuple[int, str, str], Figure]:
    """Return {(bucket, charge, quality): figure}."""
    place = _bucket_of(buckets)
    groups: dict[tuple[int, str, str], list[Figure]] = defaultdict(list)
    for (hour, charge, quality), part in use.parts.items():
        groups[place[hour], charge, EnergyQuality(quality).name].append(part)
    return {key: total(parts) for key, parts in groups.items()}


def unknown_shares(
    lab: Lab, period: Period, times: list[DeviceTime], now: int
) -> list[float | None]:
    """Return per bucket the share of expected device time without data (None: no data expected).
    One query.
    """
    buckets = period.buckets()
    hours = (covered_by_hour if period.time_group == "hour" else covered_by_day)(
        lab, period.from_hour, period.to_hour
    )
    shares: list[float | None] = []
    for bucket in buckets:
        expected = expected_between(times, bucket.from_hour, bucket.to_hour, now)
        covered_us = sum(hours.get(hour, 0) for hour in range(bucket.from_hour, bucket.to_hour))
        shares.append(max(0.0, 1 - covered_us / expected) if expected else None)
    return shares


def use_chart(
    name: str,
    use: Use,
    listed: list[Charge],
    period: Period,
    unknown: list[float | None],
    summary: str,
) -> Chart:
    """Return the stacked chart of ``listed`` charges by quality; projects beyond six share one
    colour and name.
    """
    buckets = period.buckets()
    cells = in_buckets(use, buckets)
    unit = chart_unit(cells, buckets)
    by_key = {charge.key: charge for charge in listed}
    values: dict[tuple[str, str, str, str], list[float]] = {}
    for charge in listed:
        title, href = (
            ("Other projects", reverse("projects"))
            if charge.colour == "s-more"
            else (charge.name, charge.href)
        )
        for quality in EnergyQuality.names:
            column = [
                cells.get((i, charge.key, quality), Figure()).energy_mj / unit.divisor
                for i in range(len(buckets))
            ]
            if not any(column):
                continue
            key = (title, by_key[charge.key].colour, quality, href)
            values[key] = [
                a + b for a, b in zip(values.get(key, [0.0] * len(buckets)), column, strict=True)
            ]
    return stacked(
        name=name,
        summary=summary,
        labels=[bucket.label for bucket in buckets],
        full_labels=[bucket.full_label for bucket in buckets],
        edges=[iso_hour(bucket.from_hour) for bucket in buckets] + [iso_hour(buckets[-1].to_hour)],
        unit=unit.name,
        series=[Series(*key, column) for key, column in values.items()],
        unknown=unknown,
        running=running_place(buckets),
    )


def chart_unit(cells: dict[tuple[int, str, str], Figure], buckets: list[Bucket]) -> Unit:
    """Return the unit of a chart: fit for its highest bar."""
    heights: dict[int, int] = defaultdict(int)
    for (bucket, _, _), part in cells.items():
        heights[bucket] += part.energy_mj
    return unit_for("energy_mj", heights.values())


def use_data_table(
    use: Use, listed: list[Charge], period: Period, unknown: list[float | None]
) -> DataTable:
    """Return the data table: a row per bucket, a column per charge, and the total."""
    buckets = period.buckets()
    cells = in_buckets(use, buckets)
    unit = chart_unit(cells, buckets)
    by_cell: dict[tuple[int, str], list[Figure]] = defaultdict(list)
    for (place, charge, _), part in cells.items():
        by_cell[place, charge].append(part)
    rows = []
    for i, bucket in enumerate(buckets):
        span: dict[str, Any] = {"from_hour": bucket.from_hour, "to_hour": bucket.to_hour}
        cell_parts = [by_cell.get((i, charge.key)) for charge in listed]
        row = [
            quantity(charge.query.replace(**span), total(parts), unit) if parts else None
            for charge, parts in zip(listed, cell_parts, strict=True)
        ]
        known_parts = [part for parts in cell_parts if parts for part in parts]
        row.append(
            quantity(use.query.replace(**span), total(known_parts), unit) if known_parts else None
        )
        gap = unknown[i] or 0.0
        rows.append(DataTableRow(bucket.full_label, row, f"{gap:.0%}" if gap > 0.005 else ""))
    totals = [quantity(charge.query, charge.figure, unit) for charge in listed] + [
        quantity(use.query, use.whole, unit)
    ]
    return DataTable([charge.name for charge in listed], unit, rows, totals, period.grain)


def chart_summary(use: Use, listed: list[Charge], period: Period) -> str:
    """Return a summary of the chart in one sentence."""
    if not listed:
        return "No energy was measured in this period."
    top = max(listed, key=lambda charge: charge.figure.energy_mj)
    unit = unit_for("energy_mj", [use.whole.energy_mj])
    grain = {"hour": "Hourly", "day": "Daily", "week": "Weekly"}[period.grain]
    return (
        f"{grain} energy, {period.label}: {format_value(use.whole.energy_mj, unit)} {unit.name} "
        "in total, "
        f"mostly {top.name} ({format_value(top.figure.energy_mj, unit)} {unit.name})."
    )
