"""Write hourly factors of a zone: new hours, later values, and the rollups that they make stale."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import Max

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.choices import Resolution, RollupKind
from apps.carbon.factor_files import MAX_G_PER_KWH
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.models import AppliedFactor, EmissionFactor, HourFactor, HourlySeries
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.rollups.writer import mark_stale
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.core.units import UG_PER_G
from apps.fleet.zones import zones

_BATCH = 500


@transaction.atomic
def record_hours(
    *,
    lab: Lab,
    zone: str,
    basis: str,
    is_actual: bool,
    source: str,
    licence: str,
    hours: Mapping[int, int],
    now: int,
    own_file: OwnFactorFile | None = None,
) -> int:
    """Record the factors {UTC hour: µg CO2e per kWh} of a zone. Return how many are new or changed.

    A value of before stays, superseded. An estimated value does not replace an actual one, nor a
    value of a provider (``own_file`` None) one of the same quality from a file of the lab. Hours
    that were not recorded have the factor of their month or year. Raises InvalidInput for an
    unknown zone or an impossible value; then nothing is recorded.
    """
    _check(zone, basis, hours)
    if not hours:
        return 0
    Lab.objects.select_for_update().get(pk=lab.pk)
    series, _ = HourlySeries.objects.get_or_create(lab=lab, zone=zone, basis=basis)
    is_empty = not series.hours.filter(superseded_us__isnull=True).exists()
    current = _current(series, hours)
    resolution = Resolution.HOURLY_ACTUAL if is_actual else Resolution.HOURLY_ESTIMATED
    superseded, written = list[int](), list[HourFactor]()
    records: dict[int, EmissionFactor] = {}
    for hour, ug_per_kwh in sorted(hours.items()):
        year = datetime.fromtimestamp(hour * 3600, tz=UTC).year
        if year not in records:
            records[year] = _record_of(
                lab, zone, basis, resolution, year, source, licence, now, own_file
            )
        old = current.get(hour)
        if old is not None:
            if old.ug_per_kwh == ug_per_kwh and old.factor_id == records[year].pk:
                continue
            if not is_actual and old.factor.resolution == Resolution.HOURLY_ACTUAL:
                continue
            is_own = own_file is None and old.factor.own_file_id is not None
            if is_own and old.factor.resolution == resolution:
                continue
            superseded.append(old.pk)
        written.append(
            HourFactor(
                series=series,
                hour=hour,
                factor=records[year],
                ug_per_kwh=ug_per_kwh,
                loaded_us=now,
            )
        )
    for part in _batches(superseded):
        HourFactor.objects.filter(pk__in=part).update(superseded_us=now)
    HourFactor.objects.bulk_create(written, batch_size=_BATCH)
    if is_empty and written:
        enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    elif written and AppliedFactor.objects.filter(hourly=series).exists():
        mark_stale(
            lab=lab,
            what=RollupKind.USE,
            from_hour=written[0].hour,
            to_hour=written[-1].hour + 1,
        )
    return len(written)


def _check(zone: str, basis: str, hours: Mapping[int, int]) -> None:
    if zone not in zones():
        raise InvalidInput(
            f"{zone[:40]!r} is not a grid zone.",
            field="zone",
            hint="Enter the code of a zone of the list of zones, such as DE.",
        )
    if basis not in Basis.values:
        raise InvalidInput(
            f"{basis[:40]!r} is not a basis.", field="basis", hint="lifecycle or direct"
        )
    bad = [hour for hour, ug in sorted(hours.items()) if not 0 < ug <= MAX_G_PER_KWH * UG_PER_G]
    if bad:
        raise InvalidInput(
            f"{len(bad)} hours have an impossible factor, the first at {iso_hour(bad[0])}: "
            f"{hours[bad[0]] / UG_PER_G:g} g/kWh.",
            field="g_per_kwh",
            hint=f"Enter a grid factor above 0 and up to {MAX_G_PER_KWH} g CO2e per kWh.",
        )


def _current(series: HourlySeries, hours: Iterable[int]) -> dict[int, HourFactor]:
    current: dict[int, HourFactor] = {}
    for part in _batches(sorted(hours)):
        rows = series.hours.filter(hour__in=part, superseded_us__isnull=True)
        current |= {row.hour: row for row in rows.select_related("factor")}
    return current


def _record_of(
    lab: Lab,
    zone: str,
    basis: str,
    resolution: str,
    year: int,
    source: str,
    licence: str,
    now: int,
    own_file: OwnFactorFile | None,
) -> EmissionFactor:
    """Return the record of the source of a year's hours. Another source is another edition."""
    key = {
        "lab": lab, "zone": zone, "basis": basis, "resolution": resolution, "year": year
    }  # fmt: skip
    records = EmissionFactor.objects.filter(**key)
    existing = records.filter(source=source, licence=licence, own_file=own_file).first()
    if existing is not None:
        return existing
    last = records.aggregate(edition=Max("edition"))["edition"] or 0
    return EmissionFactor.objects.create(
        **key,
        zone_name=zones()[zone].name,
        edition=last + 1,
        ug_per_kwh=None,
        source=source,
        licence=licence,
        loaded_us=now,
        own_file=own_file,
    )


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _BATCH):
        yield numbers[start : start + _BATCH]
