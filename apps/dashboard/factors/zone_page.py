"""Content of the page of one zone: the factor that applies and why, its editions, and its hours."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.choices import Resolution
from apps.carbon.factor_levels import (
    LEVELS,
    Level,
    ZoneLevels,
    editions_of_zone,
    hours_of_series,
    levels_of_zones,
)
from apps.carbon.models import EmissionFactor, HourFactor
from apps.core.units import UG_PER_G, US_PER_HOUR, hour_of
from apps.dashboard.charts import SERIES, Chart, figure_as_json, new_figure
from apps.dashboard.decorators import Visitor
from apps.dashboard.factors.factors_page import page_number
from apps.dashboard.formatting import factor_value, grams_per_kwh
from apps.dashboard.periods import local
from apps.fleet.models import Site
from apps.fleet.selectors import sites_of, zones_at
from apps.fleet.zones import Zone

PAGE_ROWS = 100
CHART_HOURS = 7 * 24
_ADDRESS = re.compile(r"https?://[^\s\"'<>()]+")
_REASONS = {
    Resolution.HOURLY_ACTUAL: "The measured factor of this hour precedes all others.",
    Resolution.HOURLY_ESTIMATED: "The estimated factor is used, since none is measured yet.",
    Resolution.MONTHLY: "The factor of this month is used, since this hour has none.",
    Resolution.ANNUAL_SUBREGION: (
        "The annual factor of a part of the country is used, since this hour and month have none."
    ),
    Resolution.ANNUAL_COUNTRY: (
        "The annual factor of the country is used, since this hour has no more precise one."
    ),
}


@dataclass(frozen=True)
class LevelRow:
    """A level of the hierarchy: the factor of it that could apply, None for none. ``is_needed``:
    no more precise level applies.
    """

    resolution: Resolution
    level: Level | None
    is_applied: bool
    is_needed: bool

    @property
    def value(self) -> str:
        return grams_per_kwh(self.level.ug_per_kwh) if self.level else ""


@dataclass(frozen=True)
class EditionRow:
    """An edition in the history."""

    factor: EmissionFactor

    @property
    def is_superseded(self) -> bool:
        return self.factor.superseded_us is not None

    @property
    def is_own(self) -> bool:
        return self.factor.lab_id is not None

    @property
    def value(self) -> str:
        return factor_value(self.factor.ug_per_kwh)

    @property
    def address(self) -> str:
        """Return the first address in the text of the source, '' for none."""
        return source_address(self.factor)


@dataclass(frozen=True)
class HourRow:
    """An hour in the table of the chart."""

    start_us: int
    value: str
    quality: str


@dataclass(frozen=True)
class ZonePage:
    """A zone. ``sites``: those in it, and those elsewhere that use its factor. ``series_zone``:
    the zone of the hourly factors.
    """

    zone: Zone
    levels: list[LevelRow]
    applied: Level | None
    reason: str
    sites: list[Site]
    editions: list[EditionRow]
    other_basis: str
    has_other_basis: bool
    chart: Chart | None
    hours: list[HourRow]
    series_zone: str
    last_hour: int | None
    first_day: str
    last_day: str
    hours_csv: str
    earlier: str
    later: str

    @property
    def value(self) -> str:
        return grams_per_kwh(self.applied.ug_per_kwh) if self.applied else ""

    @property
    def address(self) -> str:
        return source_address(self.applied.factor) if self.applied else ""


def source_address(factor: EmissionFactor) -> str:
    """Return the first address in the text of a source, '' for none."""
    match = _ADDRESS.search(factor.source)
    return match[0].rstrip(".,;") if match else ""


def zone_page(*, visitor: Visitor, zone: Zone, params: Mapping[str, str]) -> ZonePage:
    """Return the page of a zone. The number of queries does not depend on the number of rows."""
    lab, hour = visitor.lab, hour_of(visitor.now)
    zone_of_site = zones_at(lab, hour)
    used_zones = {code for code in zone_of_site.values() if code}
    levels = levels_of_zones(lab, used_zones | {zone.code}, hour)
    own = levels[zone.code]
    number = page_number(params)
    first = (number - 1) * PAGE_ROWS
    editions = list(editions_of_zone(lab, zone.code)[first : first + PAGE_ROWS + 1])
    other = Basis.DIRECT if lab.basis == Basis.LIFECYCLE else Basis.LIFECYCLE
    last = own.last_hour
    hours = _last_hours(own)
    return ZonePage(
        zone=zone,
        levels=_level_rows(own),
        applied=own.applied,
        reason=_REASONS[own.applied.resolution] if own.applied else "",
        sites=_sites_using(lab, zone, zone_of_site, levels),
        editions=[EditionRow(factor) for factor in editions[:PAGE_ROWS]],
        other_basis=str(other.label),
        has_other_basis=levels_of_zones(lab, [zone.code], hour, other)[zone.code].applied
        is not None,
        chart=_chart(hours, zone, visitor) if hours else None,
        hours=[
            HourRow(
                row.hour * US_PER_HOUR,
                grams_per_kwh(row.ug_per_kwh),
                _quality(row),
            )
            for row in reversed(hours)
        ],
        series_zone=hours[0].factor.zone if hours else "",
        last_hour=last,
        first_day="" if last is None else f"{local(last - CHART_HOURS + 1, visitor.zone).date()}",
        last_day="" if last is None else f"{local(last, visitor.zone).date()}",
        hours_csv=reverse("factor-hours-csv", args=[zone.code]),
        earlier=f"?page={number - 1}" if number > 1 else "",
        later=f"?page={number + 1}" if len(editions) > PAGE_ROWS else "",
    )


def _level_rows(levels: ZoneLevels) -> list[LevelRow]:
    by_resolution = {level.resolution: level for level in levels.levels}
    place = LEVELS.index(levels.applied.resolution) if levels.applied else len(LEVELS)
    return [
        LevelRow(resolution, by_resolution.get(resolution), number == place, number <= place)
        for number, resolution in enumerate(LEVELS)
    ]


def _sites_using(
    lab: Lab, zone: Zone, zone_of_site: Mapping[int, str], levels: Mapping[str, ZoneLevels]
) -> list[Site]:
    """Return the sites in the zone, and those elsewhere that use its factor."""
    using = []
    for site in sites_of(lab):
        code = zone_of_site.get(site.pk, "")
        applied = levels[code].applied if code else None
        if code == zone.code or (applied is not None and applied.factor.zone == zone.code):
            using.append(site)
    return using


def _last_hours(levels: ZoneLevels) -> list[HourFactor]:
    if levels.series_id is None or levels.last_hour is None:
        return []
    to_hour = levels.last_hour + 1
    return list(hours_of_series(levels.series_id, to_hour - CHART_HOURS, to_hour))


def _quality(row: HourFactor) -> str:
    is_actual = row.factor.resolution == Resolution.HOURLY_ACTUAL
    return "measured" if is_actual else "estimated"


def _chart(hours: Sequence[HourFactor], zone: Zone, visitor: Visitor) -> Chart:
    """Return the factors of hours as a stepped line. Hours without a value are gaps."""
    by_hour = {row.hour: row for row in hours}
    listed = range(hours[0].hour, hours[-1].hour + 1)
    times = [local(hour, visitor.zone).strftime("%Y-%m-%dT%H:%M:%S") for hour in listed]
    figure = new_figure()
    curves = (
        (Resolution.HOURLY_ACTUAL, "measured", "s1", "solid"),
        (Resolution.HOURLY_ESTIMATED, "estimated", "s5", "dot"),
    )
    legend = []
    for resolution, name, colour, dash in curves:
        values: list[float | None] = [
            by_hour[hour].ug_per_kwh / UG_PER_G
            if hour in by_hour and by_hour[hour].factor.resolution == resolution
            else None
            for hour in listed
        ]
        if any(value is not None for value in values):
            trace: dict[str, Any] = {
                "x": times,
                "y": values,
                "name": name,
                "mode": "lines+markers",
                "line": {"shape": "hv", "width": 2, "color": SERIES[colour], "dash": dash},
                "marker": {"size": 4},
                "connectgaps": False,
                "hovertemplate": f"%{{x|%-d %b %H:%M}}<br>{name}: %{{y:.3~g}} g/kWh<extra></extra>",
            }
            figure.add_scatter(**trace)
            legend.append((colour, name))
    figure.update_layout(
        yaxis={"rangemode": "tozero", "nticks": 5, "ticksuffix": " g"},
        xaxis={"type": "date", "nticks": 6, "tickformat": "%-d %b"},
        showlegend=False,
        margin={"l": 62, "r": 14},
    )
    low, high = (grams_per_kwh(pick(row.ug_per_kwh for row in hours)) for pick in (min, max))
    return Chart(
        "zone-hours",
        f"Hourly factors of {zone.name} over {len(listed)} hours, {low} to {high} g/kWh.",
        figure_as_json(figure),
        legend,
        False,
        "g/kWh",
    )
