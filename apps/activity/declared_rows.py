"""Parse rows of declared use: energy, zone or factor, PUE and period. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from apps.carbon.meter_errors import (
    DECLARED_ENERGY_PPM,
    DECLARED_POWER_PPM,
    FACTOR_ERROR_PPM,
)
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import is_unstorable, parse_decimal
from apps.core.units import INT64_MAX, PPM, UG_PER_G, kwh_to_mj

COLUMNS = (
    "id",
    "name",
    "project",
    "from",
    "to",
    "device_hours",
    "watts",
    "kwh",
    "kwh_low",
    "kwh_high",
    "zone",
    "g_per_kwh",
    "g_per_kwh_low",
    "g_per_kwh_high",
    "pue",
)
REQUIRED = ("name", "from", "to")
MAX_ID_CHARS = 200
MAX_DIGITS = 18  # before the decimal point, and after it
MAX_PUE = 10
MAX_ERROR = 1000  # above a value, as a multiple of it

Range = tuple[int, int]  # below and above a value, in parts per million of it


@dataclass(frozen=True)
class DeclaredRow:
    """A declared activity. ``ug_per_kwh`` None: the factor of the zone applies.

    ``id``: the user's, '' without one. ``energy_range``: stated or default. ``factor_range``: of a
    declared factor, None for that of a zone.
    """

    line: int
    id: str
    name: str
    project: str
    start_us: int
    end_us: int
    energy_mj: int
    energy_range: Range
    zone: str
    ug_per_kwh: int | None
    factor_range: Range | None
    pue_ppm: int


def _number(row: Mapping[str, str], column: str, line: int) -> Decimal | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    value = parse_decimal(text)
    if value is None:
        raise InvalidInput(
            f"line {line}: {column} {text[:40]!r} is not a number.",
            field=column,
            hint="Enter digits with at most one decimal point, such as 1234.5.",
        )
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if value.adjusted() >= MAX_DIGITS or exponent < -MAX_DIGITS:
        raise InvalidInput(
            f"line {line}: {column} {text[:40]!r} is out of range.",
            field=column,
            hint=f"Enter at most {MAX_DIGITS} digits before and after the decimal point.",
        )
    return value


def _time(row: Mapping[str, str], column: str, line: int) -> int:
    text = (row.get(column) or "").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"line {line}: {column} {text!r} is not a date.",
            field=column,
            hint="Enter 2026-11-01 or 2026-11-01T08:00Z.",
        ) from error
    return datetime_to_us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _energy_kwh(row: Mapping[str, str], line: int) -> tuple[Fraction, int]:
    """Return the energy and the default of its error in parts per million."""
    hours, watts, kwh = (_number(row, column, line) for column in ("device_hours", "watts", "kwh"))
    if kwh is not None and (hours is not None or watts is not None):
        raise InvalidInput(
            f"line {line}: kwh and device_hours or watts are both set.",
            field="kwh",
            hint="Enter one or the other.",
        )
    if kwh is None and (hours is None or watts is None):
        raise InvalidInput(
            f"line {line}: no energy.",
            field="kwh",
            hint="Enter kwh, or both device_hours and watts (per device).",
        )
    if kwh is not None:
        return Fraction(kwh), DECLARED_ENERGY_PPM
    return Fraction(hours or 0) * Fraction(watts or 0) / 1000, DECLARED_POWER_PPM


def _energy_mj(energy_kwh: Fraction, line: int) -> int:
    energy_mj = kwh_to_mj(energy_kwh)
    if energy_mj > INT64_MAX // 2:
        raise InvalidInput(
            f"line {line}: {float(energy_kwh):.3g} kWh is too much for one row.",
            field="kwh",
            hint="Split the row.",
        )
    return energy_mj


def _range(
    row: Mapping[str, str], column: str, value: Fraction, default_ppm: int, line: int
) -> Range:
    """Return the range of ``value`` that ``<column>_low`` and ``<column>_high`` state, or the
    default.
    """
    low, high = (_number(row, f"{column}_{end}", line) for end in ("low", "high"))
    if low is None and high is None:
        return default_ppm, default_ppm
    if low is None or high is None:
        raise InvalidInput(
            f"line {line}: only one of {column}_low and {column}_high is set.",
            field=f"{column}_low",
            hint="Enter both or none.",
        )
    if not low <= value <= high or low == high:
        raise InvalidInput(
            f"line {line}: {column}_low {low} to {column}_high {high} is no range of "
            f"{float(value):g}.",
            field=f"{column}_low",
            hint="Enter a lower and a higher value (P5 and P95).",
        )
    if not value:
        return default_ppm, default_ppm
    below, above = (value - Fraction(low)) / value, (Fraction(high) - value) / value
    if above > MAX_ERROR:
        raise InvalidInput(
            f"line {line}: {column}_high {high} is more than {MAX_ERROR} times the value.",
            field=f"{column}_high",
            hint="Enter the P95 of the value.",
        )
    return round(below * PPM), round(above * PPM)


def _factor(row: Mapping[str, str], line: int) -> tuple[str, int | None, Range | None]:
    """Return the zone, or the declared factor with its range."""
    zone, grams = (row.get("zone") or "").strip(), _number(row, "g_per_kwh", line)
    if zone and grams is not None:
        raise InvalidInput(
            f"line {line}: zone and g_per_kwh are both set.",
            field="zone",
            hint="Enter one or the other.",
        )
    if not zone and grams is None:
        raise InvalidInput(
            f"line {line}: neither zone nor g_per_kwh.",
            field="zone",
            hint="Enter a zone such as DE, or the g_per_kwh of the grid.",
        )
    if grams is None:
        for column in ("g_per_kwh_low", "g_per_kwh_high"):
            if (row.get(column) or "").strip():
                raise InvalidInput(
                    f"line {line}: {column} is set without g_per_kwh.",
                    field=column,
                    hint="The factor of a zone has its own range.",
                )
        return zone.upper(), None, None
    range_ = _range(row, "g_per_kwh", Fraction(grams), FACTOR_ERROR_PPM, line)
    return "", int(grams * UG_PER_G), range_


def parse_row(row: Mapping[str, str], line: int) -> DeclaredRow:
    """Return one row of the file. Raises InvalidInput with line, column and hint."""
    if None in row:  # what csv returns for fields without a column
        raise InvalidInput(
            f"line {line}: more fields than columns.",
            hint="Quote a field that contains a comma. Use a point in decimal numbers.",
        )
    for column, text in row.items():
        if is_unstorable(text or ""):
            raise InvalidInput(
                f"line {line}: {column} contains an invalid character.",
                field=column,
                hint="Remove it.",
            )
    for column in REQUIRED:
        if not (row.get(column) or "").strip():
            raise InvalidInput(
                f"line {line}: {column} is empty.",
                field=column,
                hint=f"Required columns: {', '.join(REQUIRED)}.",
            )
    start_us, end_us = _time(row, "from", line), _time(row, "to", line)
    if end_us <= start_us:
        raise InvalidInput(
            f"line {line}: the period is empty.",
            field="to",
            hint="Enter a later 'to'. It is not included.",
        )
    zone, ug_per_kwh, factor_range = _factor(row, line)
    identifier = (row.get("id") or "").strip()
    if len(identifier) > MAX_ID_CHARS:
        raise InvalidInput(
            f"line {line}: the id is longer than {MAX_ID_CHARS} characters.",
            field="id",
            hint="Enter a shorter id.",
        )
    pue = _number(row, "pue", line)
    if pue is not None and not 1 <= pue <= MAX_PUE:
        raise InvalidInput(
            f"line {line}: PUE {pue} is {'below 1' if pue < 1 else f'above {MAX_PUE}'}.",
            field="pue",
            hint="Enter 1.0 if the energy includes it.",
        )
    energy_kwh, error_ppm = _energy_kwh(row, line)
    return DeclaredRow(
        line=line,
        id=identifier,
        name=(row.get("name") or "").strip()[:200],
        project=(row.get("project") or "").strip(),
        start_us=start_us,
        end_us=end_us,
        energy_mj=_energy_mj(energy_kwh, line),
        energy_range=_range(row, "kwh", energy_kwh, error_ppm, line),
        zone=zone,
        ug_per_kwh=ug_per_kwh,
        factor_range=factor_range,
        pue_ppm=int((pue if pue is not None else Decimal(1)) * PPM),
    )
