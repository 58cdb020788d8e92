"""Fields of an activity that a column can have, and headings that usually mean them. Pure."""

import re
from collections.abc import Sequence

from apps.activity.kinds import KINDS
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.columns import Column, plain

# Fields of all kinds, with their labels.
COMMON = {
    "kind": "Kind", "id": "Id of the row", "name": "Name", "project": "Project (short name)",
    "from": "First day or start", "to": "End (not included)", "last_day": "Last day (included)",
    "month": "Month", "zone": "Grid zone or cloud region", "g_per_kwh": "g CO₂e per kWh",
    "pue": "PUE",
}  # fmt: skip
INPUTS = {each.name: each for kind in KINDS.values() for each in kind.inputs}
FIELDS = COMMON | {name: each.label for name, each in INPUTS.items()}
DAYS = frozenset({"from", "to", "last_day"})
NUMBERS = frozenset({"g_per_kwh", "pue"}) | {
    name for name, each in INPUTS.items() if not each.choices and not each.is_text
}
_HEADINGS = {
    "kind": "type activity_type art tipo",
    "id": "uuid external_id row_id invoice bill invoice_number bill_number rechnungsnummer",
    "name": "activity title description bezeichnung beschreibung nom nombre",
    "project": "project_slug projekt projet proyecto",
    "from": "start start_date first_day begin beginn von debut inicio since",
    "to": "end end_utc to_utc",
    "last_day": "end_date until bis ende fin hasta",
    "month": "monat mois mes billing_month",
    "zone": "region grid_zone cloud_region netzzone",
    "g_per_kwh": "emission_factor factor_g_per_kwh grid_intensity",
    "kwh": "energy energy_kwh energie energie_kwh energia",
    "provider": "cloud cloud_provider anbieter",
    "vcpus": "vcpu cpus cores_per_instance",
    "memory_gb": "memory ram ram_gb",
    "gpu": "gpu_model gpu_type",
    "gpus": "gpu_count number_of_gpus",
    "utilization": "utilisation utilization_percent load auslastung",
    "tb_months": "tb_month terabyte_months",
    "medium": "storage_medium storage_class",
    "gigabytes": "gb transfer_gb data_gb transferred_gb",
    "hours": "instance_hours duration_hours stunden heures horas",
    "device": "device_type gerat",
    "count": "number anzahl quantity",
}  # fmt: skip
_FIELD_BY_HEADING = {
    heading: field for field, headings in _HEADINGS.items() for heading in headings.split()
}
_FIELD_BY_LABEL = {plain(label): field for field, label in FIELDS.items()}


def guess(heading: str) -> str:
    """Return the field that a heading usually means, '' if unknown."""
    for text in (heading, re.sub(r"[(\[].*?[)\]]", "", heading)):
        name = plain(text)
        if name in FIELDS:
            return name
        field = _FIELD_BY_HEADING.get(name) or _FIELD_BY_LABEL.get(name)
        if field:
            return field
    return ""


def guesses(columns: Sequence[Column]) -> dict[str, str]:
    """Return the guessed field of each column. A field is proposed once, for its first column."""
    fields: dict[str, str] = {}
    for column in columns:
        field = guess(column.heading)
        fields[column.key] = "" if field in fields.values() else field
    return fields


def require_distinct_headings(columns: Sequence[Column]) -> None:
    """Raise InvalidInput if two columns have the same heading: it is unclear which one counts."""
    positions: dict[str, int] = {}
    for position, column in enumerate(columns, start=1):
        name = plain(column.heading)
        if name and name in positions:
            raise InvalidInput(
                f"The heading {column.heading!r} is that of columns {positions[name]} and "
                f"{position}.",
                field="file",
                hint="Remove one of these columns, or correct its heading, and upload the file "
                "again.",
            )
        positions[name] = position


def heading_score(cells: Sequence[str]) -> int:
    """Return how many of a line's cells are known headings."""
    return sum(bool(guess(cell)) for cell in cells if cell.strip())
