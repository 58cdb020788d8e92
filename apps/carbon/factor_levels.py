"""Reads of pages of factors: what applies to a zone in an hour and why, editions, and hours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import F, Max, Q, QuerySet

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.choices import Resolution
from apps.carbon.factors import factors_of_zones, hourly_series_of
from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_hour, factor_for_year
from apps.carbon.models import EmissionFactor, HourFactor

LEVELS = (
    Resolution.HOURLY_ACTUAL,
    Resolution.HOURLY_ESTIMATED,
    Resolution.MONTHLY,
    Resolution.ANNUAL_SUBREGION,
    Resolution.ANNUAL_COUNTRY,
)


@dataclass(frozen=True)
class Level:
    """A factor that could apply to a zone in an hour, and its value in that hour."""

    factor: EmissionFactor
    ug_per_kwh: int

    @property
    def resolution(self) -> Resolution:
        return Resolution(self.factor.resolution)


@dataclass(frozen=True)
class ZoneLevels:
    """The factors of a zone in an hour, the most precise first: the first one applies.

    ``series_id``: its hourly series, None for none. ``last_hour``: the last hour of that series.
    """

    levels: tuple[Level, ...]
    series_id: int | None = None
    last_hour: int | None = None

    @property
    def applied(self) -> Level | None:
        return self.levels[0] if self.levels else None


def levels_of_zones(
    lab: Lab, zones: Iterable[str], hour: int, basis: str = ""
) -> dict[str, ZoneLevels]:
    """Return {zone: what applies to it in a UTC hour} on ``basis``, '': the lab's. At most four
    queries.
    """
    codes = list(zones)
    series = hourly_series_of(lab, codes, basis)
    ids = set(series.values())
    of_hour, last_hours = dict[int, HourFactor](), dict[int, int]()
    if ids:
        current = HourFactor.objects.filter(series__in=ids, superseded_us__isnull=True)
        of_hour = {row.series_id: row for row in current.filter(hour=hour).select_related("factor")}
        lasts = current.order_by().values("series").annotate(last=Max("hour"))
        last_hours = dict(lasts.values_list("series", "last"))
    result = {}
    for zone, factors in factors_of_zones(lab, codes, basis).items():
        series_id = series.get(zone)
        row = of_hour.get(series_id) if series_id is not None else None
        levels = [Level(row.factor, row.ug_per_kwh)] if row else []
        result[zone] = ZoneLevels(
            (*levels, *_of_periods(factors, hour)),
            series_id,
            last_hours.get(series_id) if series_id is not None else None,
        )
    return result


def _of_periods(factors: Sequence[EmissionFactor], hour: int) -> list[Level]:
    """Return the factor of the month of an hour, and that of its year."""
    by_id = {factor.pk: factor for factor in factors}
    periods = [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors]
    year = datetime.fromtimestamp(hour * 3600, tz=UTC).year
    chosen = [factor_for_hour(periods, hour), factor_for_year(periods, year)]
    ids = dict.fromkeys(period.factor_id for period in chosen if period is not None)
    found = [by_id[factor_id] for factor_id in ids]
    return [Level(each, each.ug_per_kwh) for each in found if each.ug_per_kwh is not None]


def editions_of_zone(lab: Lab, zone: str) -> QuerySet[EmissionFactor]:
    """Return all editions of a zone that a lab can see, those of the lab's basis first, then by
    period, the newest first.
    """
    editions = EmissionFactor.objects.filter(Q(lab=lab) | Q(lab__isnull=True), zone=zone)
    return editions.order_by(
        F("basis").desc() if lab.basis == Basis.LIFECYCLE else F("basis").asc(),
        "-year",
        "-month",
        F("lab").asc(nulls_last=True),
        "resolution",
        "-edition",
    )


def hours_of_series(series_id: int, from_hour: int, to_hour: int) -> QuerySet[HourFactor]:
    """Return the current factors of the UTC hours ``[from_hour, to_hour)``, in order."""
    rows = HourFactor.objects.filter(
        series=series_id, hour__gte=from_hour, hour__lt=to_hour, superseded_us__isnull=True
    )
    return rows.select_related("factor").order_by("hour")
