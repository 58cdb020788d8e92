"""Parse rows of declared use: energy, zone or factor, PUE and period. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.units import INT64_MAX, PPM, UG_PER_G, kwh_to_mj

COLUMNS = (
    "name",
    "project",
    "from",
    "to",
    "device_hours",
    "watts",
    "kwh",
    "zone",
    "g_per_kwh",
    "pue",
)
REQUIRED = ("name", "from", "to")


@dataclass(frozen=True)
class DeclaredRow:
    """A declared activity. ``ug_per_kwh`` None: the factor of the zone applies."""

    line: int
    name: str
    project: str
    start_us: int
    end_us: int
    energy_mj: int
    zone: str
    ug_per_kwh: int | None
    pue_ppm: int


def _number(row: Mapping[str, str], column: str, line: int) -> Decimal | None:
    text = (row.get(column) or "").strip().replace(" ", "").replace("_", "")
    if not text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise InvalidInput(
            f"line {line}: {column} {text!r} is not a number.",
            field=column,
            hint="Enter a number such as 1234.5.",
        ) from error
    if not value.is_finite() or value < 0:
        raise InvalidInput(
            f"line {line}: {column} is {text}.", field=column, hint="Enter zero or more."
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


def _energy_mj(row: Mapping[str, str], line: int) -> int:
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
    energy = (
        Fraction(kwh) if kwh is not None else Fraction(hours or 0) * Fraction(watts or 0) / 1000
    )
    energy_mj = kwh_to_mj(energy)
    if energy_mj > INT64_MAX // 2:
        raise InvalidInput(
            f"line {line}: {float(energy):.3g} kWh is too much for one row.",
            field="kwh",
            hint="Split the row.",
        )
    return energy_mj


def parse_row(row: Mapping[str, str], line: int) -> DeclaredRow:
    """Return one row of the file. Raises InvalidInput with line, column and hint."""
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
    zone, grams = (row.get("zone") or "").strip().upper(), _number(row, "g_per_kwh", line)
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
    pue = _number(row, "pue", line)
    if pue is not None and pue < 1:
        raise InvalidInput(
            f"line {line}: PUE {pue} is below 1.",
            field="pue",
            hint="Enter 1.0 if the energy includes it.",
        )
    return DeclaredRow(
        line=line,
        name=(row.get("name") or "").strip()[:200],
        project=(row.get("project") or "").strip(),
        start_us=start_us,
        end_us=end_us,
        energy_mj=_energy_mj(row, line),
        zone=zone,
        ug_per_kwh=int(grams * UG_PER_G) if grams is not None else None,
        pue_ppm=int((pue if pue is not None else Decimal(1)) * PPM),
    )
