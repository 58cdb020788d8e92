"""Contents of the page Greener hours."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.http import QueryDict

from apps.accounts.models import Lab
from apps.carbon.choices import IntensitySource
from apps.carbon.greener_hours.forecast import (
    GreenerHours,
    HourIntensity,
    greener_hours,
)
from apps.carbon.greener_hours.starts import Start
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import providers_of
from apps.core.units import UG_PER_G, hour_of
from apps.dashboard.charts import SERIES, Chart, figure_as_json, new_figure
from apps.dashboard.formatting import grams_per_kwh, percent
from apps.dashboard.forms import require_valid
from apps.dashboard.greener_hours.forms import JobForm
from apps.fleet.models import Site
from apps.fleet.selectors import sites_of, zones_at
from apps.fleet.zones import zone_chain
from apps.fleet.zones import zones as grid_zones


@dataclass(frozen=True)
class HourRow:
    """An hour of the table. ``is_greenest``: an hour of the greenest job."""

    intensity: HourIntensity
    is_greenest: bool

    @property
    def number(self) -> str:
        """Return g per kWh."""
        return grams_per_kwh(self.intensity.ug_per_kwh)

    @property
    def source_label(self) -> str:
        """Return the source in words."""
        return str(self.intensity.source.label)


@dataclass(frozen=True)
class GreenerHoursPage:
    """The page. ``form`` and ``site`` None: the lab has no site. ``zone`` '': the site has no grid
    zone.
    """

    form: JobForm | None
    site: Site | None
    zone: str
    zone_name: str
    duration_hours: int
    wait_hours: int
    latest_start: datetime
    result: GreenerHours
    rows: Sequence[HourRow]
    chart: Chart | None
    provider: GridProvider | None

    @property
    def query(self) -> str:
        """Return the query of this page."""
        site = self.site.pk if self.site else ""
        return f"site={site}&hours={self.duration_hours}&wait={self.wait_hours}"

    @property
    def command(self) -> str:
        """Return the command that waits for the greenest start."""
        return (
            f"labcarbon-collect run --wait-greenest --hours {self.duration_hours} "
            f"--latest-start {self.latest_start.isoformat(timespec='minutes')} -- python train.py"
        )

    @property
    def best(self) -> Start | None:
        """Return the greenest start."""
        return self.result.best

    @property
    def is_now(self) -> bool:
        """Return whether no later start is greener than this hour."""
        return self.best is not None and self.best == self.result.now

    @property
    def best_number(self) -> str:
        """Return the mean of the greenest start in g per kWh."""
        return grams_per_kwh(self.best.ug_per_kwh) if self.best else ""

    @property
    def now_number(self) -> str:
        """Return the mean of a start in this hour in g per kWh, '' if it is unknown."""
        return grams_per_kwh(self.result.now.ug_per_kwh) if self.result.now else ""

    @property
    def saving(self) -> str:
        """Return by how much the greenest start is below a start in this hour."""
        now = self.result.now
        if self.best is None or now is None:
            return ""
        return percent(now.ug_per_kwh - self.best.ug_per_kwh, now.ug_per_kwh)

    @property
    def best_sources(self) -> str:
        """Return the sources of the greenest start in words."""
        if self.best is None:
            return ""
        sources = self.result.sources_of(self.best, self.duration_hours)
        return " and ".join(str(source.label) for source in sources)


def greener_hours_page(lab: Lab, params: QueryDict, now: int) -> GreenerHoursPage:
    """Return the page of a job with the fields of JobForm. Raises InvalidInput."""
    sites = list(sites_of(lab))
    hour, lab_zone = hour_of(now), ZoneInfo(lab.time_zone)
    zones = zones_at(lab, hour)
    site = next((each for each in sites if each.pk in zones), sites[0] if sites else None)
    form, duration_hours, wait_hours = None, 1, 1
    if site is not None:
        form = JobForm(params, sites, site)
        require_valid(form)
        data = form.cleaned_data
        site = next(each for each in sites if str(each.pk) == data["site"])
        duration_hours, wait_hours = int(data["hours"]), int(data["wait"])
    zone = zones.get(site.pk, "") if site else ""
    result = GreenerHours("", [], None, None)
    if zone:
        result = greener_hours(
            lab,
            zone,
            first_hour=hour,
            last_hour=hour + wait_hours,
            duration_hours=duration_hours,
            now=now,
        )
    best = result.best
    greenest = range(best.hour, best.hour + duration_hours) if best else range(0)
    rows = [HourRow(each, each.hour in greenest) for each in result.hours]
    found = grid_zones().get(zone)
    return GreenerHoursPage(
        form=form,
        site=site,
        zone=zone,
        zone_name=found.name if found else zone,
        duration_hours=duration_hours,
        wait_hours=wait_hours,
        latest_start=datetime.fromtimestamp((hour + wait_hours) * 3600, tz=lab_zone),
        result=result,
        rows=rows,
        chart=_chart(rows, lab_zone) if rows else None,
        provider=_provider_of(lab, zone) if zone else None,
    )


def _provider_of(lab: Lab, zone: str) -> GridProvider | None:
    """Return the provider of a zone, else of its closest parent."""
    by_zone = {row.zone: row for row in providers_of(lab)}
    return next((by_zone[code] for code in zone_chain(zone) if code in by_zone), None)


def _chart(rows: Sequence[HourRow], zone: ZoneInfo) -> Chart:
    """Return bars of the coming hours. Forecasts are solid, usual values light."""
    figure = new_figure()
    moments = [datetime.fromtimestamp(row.intensity.hour * 3600, tz=zone) for row in rows]
    for name, colour, is_greenest in (
        ("Greenest hours", "s2", True),
        ("Other hours", "s1", False),
    ):
        pairs = [
            (row, moment)
            for row, moment in zip(rows, moments, strict=True)
            if row.is_greenest == is_greenest
        ]
        figure.add_bar(
            x=[moment.strftime("%Y-%m-%dT%H:%M") for _, moment in pairs],
            y=[row.intensity.ug_per_kwh / UG_PER_G for row, _ in pairs],
            name=name,
            marker={
                "color": SERIES[colour],
                "opacity": [
                    1.0 if row.intensity.source == IntensitySource.FORECAST else 0.5
                    for row, _ in pairs
                ],
                "line": {"width": 0},
            },
            customdata=[
                f"{moment:%a} {moment.day} {moment:%b %H:%M}<br>{row.source_label}"
                for row, moment in pairs
            ],
            hovertemplate="%{customdata}: %{y:.3~g} g/kWh<extra></extra>",
        )
    figure.update_layout(
        barmode="overlay",
        yaxis={"rangemode": "tozero", "nticks": 5},
        xaxis={"type": "date", "tickformat": "%H:%M\n%-d %b", "nticks": 4, "tickangle": 0},
        showlegend=False,
        margin={"r": 10, "b": 42},
    )
    return Chart(
        "greener-hours",
        f"Expected grid intensity of {len(rows)} coming hours in g per kWh",
        figure_as_json(figure),
        [("s2", "Greenest hours"), ("s1", "Other hours")],
        False,
        "g/kWh",
    )
