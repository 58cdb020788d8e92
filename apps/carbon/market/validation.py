"""Check the input of an instrument."""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from apps.carbon.factor_files import MAX_G_PER_KWH
from apps.carbon.market.certificate_ids import IdRange, parse_ids
from apps.carbon.market.choices import (
    CERTIFICATES,
    CONTRACTS,
    PUBLISHED,
    Granularity,
    InstrumentKind,
)
from apps.carbon.market.evidence import CheckedFile, check_file
from apps.catalog.services.custom_models import Document
from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour
from apps.core.text import is_unstorable
from apps.core.units import UG_PER_G
from apps.fleet.zones import resolve_zone

MAX_WH = 10**12  # a terawatt-hour
_MAX_DAYS = 3660
_MAX_MARKET = 60
_YEARS = range(1990, 2101)


@dataclass(frozen=True)
class InstrumentInput:
    """Values of an instrument as entered. ``market``, ``plant_zone``: codes or names of zones.

    ``volumes_wh``: parts of the volume by ``volumes_by``, month or hour, from the first day on.
    """

    kind: str
    name: str
    market: Sequence[str]
    first_day: date
    last_day: date
    ug_per_kwh: int | None
    volume_wh: int | None = None
    granularity: str = Granularity.YEAR
    volumes_by: str = Granularity.YEAR
    volumes_wh: Sequence[int] | None = None
    registry: str = ""
    certificates: str = ""
    plant_zone: str = ""
    retired_on: date | None = None
    beneficiary: str = ""
    notes: str = ""
    document: Document | None = None


@dataclass(frozen=True)
class CheckedInstrument:
    """Values that can be stored: columns of the instrument, its certificates and its document."""

    columns: dict[str, object]
    market: list[str]
    certificates: list[IdRange]
    document: CheckedFile | None


def check_instrument_input(
    values: InstrumentInput, zone: ZoneInfo, today: date
) -> CheckedInstrument:
    """Return the values of an instrument as stored. ``zone``: time zone of the lab. Raises
    InvalidInput with the field and the reason.
    """
    kind = InstrumentKind(_choice(InstrumentKind.values, values.kind, "kind"))
    granularity = _choice(Granularity.values, values.granularity, "granularity")
    _check_days(values, kind)
    _check_rate(values.ug_per_kwh, kind)
    market = _market(values.market, kind)
    volumes = _volumes(values, kind, zone)
    if values.retired_on is not None:
        _check_retirement(values.retired_on, kind, today)
    certificates = parse_ids(values.certificates)
    if certificates and kind not in CERTIFICATES:
        raise InvalidInput(
            f"A {kind.label.lower()} has no certificates.",
            field="certificates",
            hint="Choose the kind of certificate, or leave the ids empty.",
        )
    document = values.document
    return CheckedInstrument(
        columns={
            "kind": kind,
            "name": _text(values.name, "name", 200, is_needed=True),
            "registry": _text(values.registry, "registry", 100),
            "market": market,
            "plant_zone": _zone(values.plant_zone, "plant_zone"),
            "first_day": values.first_day,
            "last_day": values.last_day,
            "granularity": Granularity.YEAR if volumes["volume_wh"] is None else granularity,
            **volumes,
            "ug_per_kwh": values.ug_per_kwh,
            "retired_on": values.retired_on,
            "beneficiary": _text(values.beneficiary, "beneficiary", 200),
            "notes": _text(values.notes, "notes", 1000),
        },
        market=market,
        certificates=certificates,
        document=check_file(document.name, document.content) if document else None,
    )


def check_reason(reason: str) -> str:
    """Return the reason of a withdrawal. Raises InvalidInput without one."""
    return _text(reason, "reason", 400, is_needed=True)


def _choice(values: Sequence[str], value: str, field: str) -> str:
    if value not in values:
        raise InvalidInput(f"Choose a {field}.", field=field, hint=f"One of: {', '.join(values)}.")
    return value


def _text(value: str, field: str, most: int, *, is_needed: bool = False) -> str:
    text = " ".join(value.split())
    if is_needed and not text:
        raise InvalidInput(f"Enter a {field}.", field=field)
    if len(text) > most or is_unstorable(text):
        raise InvalidInput(
            f"This {field} cannot be stored.",
            field=field,
            hint=f"Enter at most {most} characters, without control characters.",
        )
    return text


def _check_days(values: InstrumentInput, kind: InstrumentKind) -> None:
    first, last = values.first_day, values.last_day
    if last < first or first.year not in _YEARS or last.year not in _YEARS:
        raise InvalidInput(
            "The vintage ends before it begins, or its year is impossible.",
            field="last_day",
            hint="Enter the first and the last day of production or supply.",
        )
    if (last - first).days >= _MAX_DAYS:
        raise InvalidInput(
            "The vintage is longer than ten years.",
            field="last_day",
            hint="Enter one instrument for each year.",
        )
    if kind in PUBLISHED and (first, last) != (date(first.year, 1, 1), date(first.year, 12, 31)):
        raise InvalidInput(
            f"A {kind.label.lower()} is of a calendar year.",
            field="first_day",
            hint=f"Enter {first.year}-01-01 to {first.year}-12-31.",
        )


def _check_rate(ug_per_kwh: int | None, kind: InstrumentKind) -> None:
    if ug_per_kwh is None:
        raise InvalidInput(
            "Enter the emission rate.",
            field="ug_per_kwh",
            hint="Wind, solar and hydropower have direct emissions of 0 g/kWh. Enter 0 for them.",
        )
    least = 1 if kind in PUBLISHED else 0
    if not least <= ug_per_kwh <= MAX_G_PER_KWH * UG_PER_G:
        raise InvalidInput(
            "The emission rate is impossible.",
            field="ug_per_kwh",
            hint=f"Enter {'more than ' if least else ''}0 and up to {MAX_G_PER_KWH} g CO2e per "
            "kWh.",
        )


def _check_retirement(retired_on: date, kind: InstrumentKind, today: date) -> None:
    if kind not in CERTIFICATES:
        raise InvalidInput(
            "Only certificates are retired.", field="retired_on", hint="Leave the date empty."
        )
    if retired_on.year not in _YEARS or retired_on > today:
        raise InvalidInput(
            "This day of retirement is in the future or impossible.",
            field="retired_on",
            hint="Enter it after the registry has retired the certificates.",
        )


def _market(names: Sequence[str], kind: InstrumentKind) -> list[str]:
    zones = sorted({zone for name in names if (zone := _zone(name, "market"))})
    if not zones or len(zones) > _MAX_MARKET or (kind in PUBLISHED and len(zones) > 1):
        raise InvalidInput(
            "Enter the grid zones of the market.",
            field="market",
            hint="A published factor has one zone, such as DE."
            if kind in PUBLISHED
            else f"A country such as DE, or up to {_MAX_MARKET} zones, separated by commas.",
        )
    return zones


def _zone(name: str, field: str) -> str:
    try:
        return resolve_zone(name)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, hint=error.hint) from error


def _volumes(values: InstrumentInput, kind: InstrumentKind, zone: ZoneInfo) -> dict[str, object]:
    """Return the columns of the volume."""
    volume, parts = values.volume_wh, values.volumes_wh
    if kind in PUBLISHED:
        if volume is not None or parts:
            raise InvalidInput(
                f"A {kind.label.lower()} has no volume.", field="volume", hint="Leave it empty."
            )
        return _columns(None)
    if parts:
        return _parts(values, parts, zone)
    if volume is None and kind in (*CERTIFICATES, *CONTRACTS):
        raise InvalidInput(
            "Enter the volume.", field="volume", hint="A certificate is usually 1 MWh."
        )
    if volume is not None:
        _check_volume(volume)
    return _columns(volume)


def _columns(volume: int | None) -> dict[str, object]:
    return {
        "volume_wh": volume,
        "volumes_by": Granularity.YEAR,
        "volumes_wh": None,
        "volumes_from_hour": None,
    }


def _check_volume(volume: int) -> None:
    if not 0 < volume <= MAX_WH:
        raise InvalidInput(
            "The volume is impossible.",
            field="volume",
            hint="Enter more than 0 and at most 1,000,000 MWh.",
        )


def _parts(values: InstrumentInput, parts: Sequence[int], zone: ZoneInfo) -> dict[str, object]:
    first_hour, number = _expected_parts(values, zone)
    if len(parts) != number:
        raise InvalidInput(
            f"There are {len(parts)} volumes, and the vintage has {number} {values.volumes_by}s.",
            field="volumes",
            hint="Enter one volume for each, 0 for those without production.",
        )
    if min(parts) < 0:
        raise InvalidInput("A volume is below 0.", field="volumes", hint="Enter 0 or more.")
    volume = sum(parts)
    _check_volume(volume)
    if values.volume_wh not in (None, volume):
        raise InvalidInput(
            f"The volumes sum to {volume:,} Wh, and the volume is {values.volume_wh:,} Wh.",
            field="volume",
            hint="Leave the volume empty: it is their sum.",
        )
    return {
        "volume_wh": volume,
        "volumes_by": values.volumes_by,
        "volumes_wh": list(parts),
        "volumes_from_hour": first_hour,
    }


def _expected_parts(values: InstrumentInput, zone: ZoneInfo) -> tuple[int | None, int]:
    """Return the first hour of hourly volumes, and the number of volumes of the vintage."""
    first, last = values.first_day, values.last_day
    if values.volumes_by == Granularity.HOUR:
        start = midnight_hour(first, zone)
        return start, midnight_hour(last + timedelta(days=1), zone) - start
    if values.volumes_by != Granularity.MONTH:
        raise InvalidInput(
            "Choose whether the volumes are by month or by hour.", field="volumes_by"
        )
    if first.day != 1 or last.day != monthrange(last.year, last.month)[1]:
        raise InvalidInput(
            "Monthly volumes need a vintage of whole months.",
            field="first_day",
            hint="Enter the first day of a month and the last day of a month.",
        )
    return None, (last.year - first.year) * 12 + last.month - first.month + 1
