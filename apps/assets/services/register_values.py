"""Values of a file about an asset, and their differences to the register."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from typing import Any

from apps.assets.choices import OPENING, Amortisation, EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.validation import Draft, Embodied, Entry
from apps.core.clock import utc
from apps.core.units import HOURS_PER_YEAR, UG_PER_KG, US_PER_HOUR, hour_of

Values = dict[str, str]

# Columns of a file whose content determines a value. An empty cell changes nothing.
CELLS: Mapping[str, tuple[str, ...]] = {
    "name": ("name",),
    "kind": ("kind", "category", "model"),
    "model": ("model",),
    "serial": ("serial",),
    "tag": ("tag",),
    "supplier": ("supplier",),
    "price": ("price",),
    "warranty_until": ("warranty_until", "warranty_months"),
    "location": ("location", "site"),
    "note": ("note", "model"),
    "order_number": ("order_number",),
    "contact": ("contact",),
    "bought_on": ("bought_on", "lease_start"),
    "second_hand": ("second_hand",),
    "leased": ("leased", "lessor", "lease_start", "lease_end"),
    "lessor": ("lessor",),
    "life_years": ("life_years",),
    "amortisation": ("amortisation",),
    "owner": ("owner",),
    "site": ("site",),
    "parent": ("parent",),
    "in_use_since": ("in_use_since", "status"),
    "retired_on": ("retired_on", "ended_on"),
    "disposed_on": ("disposed_on", "ended_on", "lease_end"),
    "end_of_life": ("end_of_life", "status", "lease_end"),
    "mass": ("mass_kg", "mass_g"),
    "recipient": ("recipient",),
    "end_of_life_emissions": ("end_of_life_kg", "end_of_life_source"),
    "embodied": (
        "embodied_kg",
        "model",
        "manufacturer",
        "category",
        "kind",
        "capacity",
        "capacity_tb",
        "capacity_gb",
        "second_hand",
    ),
}
FACTS = (
    "name",
    "kind",
    "model",
    "serial",
    "tag",
    "supplier",
    "warranty_until",
    "location",
    "note",
    "order_number",
    "contact",
)
OPENING_VALUES = (
    "bought_on",
    "second_hand",
    "leased",
    "lessor",
    "life_years",
    "amortisation",
    "owner",
    "site",
    "parent",
    "embodied",
)
DISPOSAL_VALUES = ("end_of_life", "mass", "recipient", "end_of_life_emissions")
DATED = {
    "in_use_since": EventKind.DEPLOY,
    "retired_on": EventKind.RETIRE,
    "disposed_on": EventKind.DISPOSE,
}
_FIGURE_CELLS = (
    "model",
    "manufacturer",
    "category",
    "kind",
    "capacity_tb",
    "second_hand",
    "embodied_kg",
    "embodied_low_kg",
    "embodied_high_kg",
    "embodied_source",
    "embodied_manufacture_kg",
    "embodied_transport_kg",
    "embodied_end_of_life_kg",
    "embodied_includes_end_of_life",
    "capacity",
    "capacity_gb",
)
_FIGURE = "figure_cells"


@dataclass(frozen=True)
class Difference:
    """A value of the register that a file changes."""

    field: str
    before: str
    after: str

    def payload(self) -> dict[str, str]:
        return asdict(self)


def values_of_draft(draft: Draft, cells: Mapping[str, str]) -> Values:
    """Return the values of a line of a file. ``cells``: its columns."""
    facts, opening = draft.facts, draft.opening
    dates = {entry.kind: entry.at_us for entry in draft.entries}
    disposal = next((entry for entry in draft.entries if entry.kind == EventKind.DISPOSE), None)
    if draft.deployed_us is not None:
        dates[EventKind.DEPLOY] = draft.deployed_us
    return {
        **_fact_values(facts),
        "bought_on": _hour_text(hour_of(opening.at_us)),
        **_kind_values(opening),
        "life_years": _years(opening.life_hours),
        "amortisation": opening.amortisation or Amortisation.LINEAR,
        "owner": opening.project.slug if opening.project else "",
        "site": opening.site.name if opening.site else "",
        "parent": cells.get("parent", ""),
        "embodied": _embodied_text(opening.embodied),
        **{
            field: _hour_text(hour_of(dates[kind])) if kind in dates else ""
            for field, kind in DATED.items()
        },
        **_disposal_values(disposal, disposal.embodied if disposal else None),
        _FIGURE: "\x1f".join(cells.get(name, "") for name in _FIGURE_CELLS),
    }


def figure_cells(values: Values) -> dict[str, str]:
    """Return the cells of a line that decide its figure, without empty ones."""
    texts = values.get(_FIGURE, "").split("\x1f")
    return {field: text for field, text in zip(_FIGURE_CELLS, texts, strict=False) if text}


def with_product(cells: Mapping[str, str], draft: Draft) -> Mapping[str, str]:
    """Return the cells of a line with its name as the model, if the model was found by it."""
    if cells.get("model") or draft.facts.model is None or not cells.get("name"):
        return cells
    return {**cells, "model": cells["name"]}


def values_of_asset(asset: Asset, events: Sequence[LifecycleEvent]) -> Values:
    """Return the values of an asset in the register. ``events``: its active events."""
    opening = next(event for event in events if event.kind in OPENING)
    hours = {event.kind: event.hour for event in reversed(events)}
    parent = opening.parent
    disposal = next((event for event in events if event.kind == EventKind.DISPOSE), None)
    is_unknown = disposal is None or disposal.total_ug is None
    return {
        **_fact_values(asset),
        "bought_on": _hour_text(opening.hour),
        **_kind_values(opening),
        "life_years": _years(opening.life_hours),
        "amortisation": opening.amortisation or Amortisation.LINEAR,
        "owner": opening.project.slug if opening.project else "",
        "site": opening.site.name if opening.site else "",
        "parent": (parent.tag or parent.name) if parent else "",
        "embodied": _embodied_text(None if opening.total_ug is None else opening),
        **{
            field: _hour_text(hours[kind]) if kind in hours else "" for field, kind in DATED.items()
        },
        **_disposal_values(disposal, None if is_unknown else disposal),
    }


def changed_fields(
    values: Values, baseline: Values | None, cells: Mapping[str, str]
) -> frozenset[str]:
    """Return the fields that a file states otherwise than its last import (``baseline``). Without
    one, all stated fields are returned.
    """
    stated = {
        field
        for field, columns in CELLS.items()
        if values[field] and any(cells.get(column) for column in columns)
    }
    if baseline is None:
        # Without an earlier import, only a stated figure is compared, not that of the catalogue.
        return frozenset(stated if cells.get("embodied_kg") else stated - {"embodied"})
    changed = {field for field in stated if values[field] != baseline.get(field)}
    if figure_cells(values) == figure_cells(baseline):
        changed.discard("embodied")  # the catalogue changed, not the file
    return frozenset(changed)


def differences(
    fields: Collection[str],
    values: Values,
    current: Values,
    parent: Asset | None,
    zone: tzinfo,
) -> list[Difference]:
    """Return the differences of ``fields`` to the register, with times in ``zone``. ``parent``:
    the current one.
    """
    known_parents = {parent.tag, parent.name} if parent else {""}
    if not current["disposed_on"] and "disposed_on" not in fields:  # somebody reversed it
        fields = set(fields) - set(DISPOSAL_VALUES)
    return [
        Difference(field, *(_local(field, each[field], zone) for each in (current, values)))
        for field in CELLS
        if field in fields
        and values[field] != current[field]
        and not (field == "parent" and values[field] in known_parents)
    ]


def _fact_values(facts: Any) -> Values:
    price = facts.price_ucurrency
    return {
        **{name: str(getattr(facts, name) or "") for name in FACTS if name != "model"},
        "model": facts.model.name if facts.model else "",
        "price": "" if price is None else f"{_decimal(price, 6)} {facts.currency}",
    }


def _kind_values(opening: Entry | LifecycleEvent) -> Values:
    is_leased = opening.kind == EventKind.LEASE
    return {
        "second_hand": _yes(opening.kind == EventKind.SECOND_HAND),
        "leased": _yes(is_leased),
        "lessor": opening.counterpart if is_leased else "",
    }


def _disposal_values(
    disposal: Entry | LifecycleEvent | None, emissions: Embodied | LifecycleEvent | None
) -> Values:
    """Return the values of a disposal. ``emissions``: of its end of life, None: not stated."""
    if disposal is None:
        return dict.fromkeys(DISPOSAL_VALUES, "")
    mass_g = disposal.mass_g
    return {
        "end_of_life": disposal.end_of_life.replace("_", " "),
        "mass": "" if mass_g is None else f"{_decimal(mass_g, 3)} kg",
        "recipient": disposal.counterpart,
        "end_of_life_emissions": _embodied_text(emissions) if emissions else "",
    }


def _embodied_text(what: Embodied | LifecycleEvent | None) -> str:
    if what is None:
        return "unknown"
    parts = [f"{_kg(what.total_ug)} kg CO2e"]
    if what.low_ug is not None or what.high_ug is not None:
        parts.append(f"{_kg(what.low_ug)} to {_kg(what.high_ug)}")
    for name in ("manufacture", "transport", "end_of_life"):
        part_ug = getattr(what, f"{name}_ug")
        if part_ug is not None:
            parts.append(f"{name.replace('_', ' ')} {_kg(part_ug)}")
    if what.includes_end_of_life is not None:
        parts.append(f"{'with' if what.includes_end_of_life else 'without'} end of life")
    return "; ".join([*parts, what.source] if what.source else parts)


def _kg(value_ug: int | None) -> str:
    return "unknown" if value_ug is None else _decimal(value_ug, len(str(UG_PER_KG)) - 1)


def _decimal(value: int, places: int) -> str:
    """Return an integer of 10^-``places`` as an exact decimal."""
    whole, part = divmod(value, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".")


def _years(hours: int | None) -> str:
    if not hours:
        return ""
    whole, rest = divmod(hours, HOURS_PER_YEAR)
    return f"{whole} years" if not rest else f"{hours} hours"


def _hour_text(hour: int) -> str:
    return f"{utc(hour * US_PER_HOUR):%Y-%m-%dT%H:%MZ}"


def _local(field: str, text: str, zone: tzinfo) -> str:
    """Return a value as a person of the lab writes it: times in the zone of the lab."""
    if not text or field not in {"bought_on", *DATED}:
        return text
    local = datetime.fromisoformat(text).astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def dated_entry(draft: Draft, kind: str) -> Entry:
    """Return the dated event of a draft."""
    if kind == EventKind.DEPLOY and draft.deployed_us is not None:
        return Entry(EventKind.DEPLOY, draft.deployed_us)
    return next(entry for entry in draft.entries if entry.kind == kind)
