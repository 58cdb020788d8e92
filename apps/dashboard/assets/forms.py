"""What forms of assets say: numbers, things of the lab, how something was bought, and an entry of a life."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation

from django.http import QueryDict

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.assets.amortisation import second_hand_ug
from apps.assets.choices import EventKind
from apps.assets.models import Asset
from apps.assets.selectors import LAB_ITSELF, asset_of, free_meters
from apps.assets.services import Draft, Embodied, Entry, Facts, default_life_hours
from apps.assets.services.validation import HOURS_PER_YEAR
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import kg_to_ug
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import best_figure, match, model_of, models_of, suggest
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.decorators import Visitor
from apps.dashboard.form_fields import from_us, optional_site
from apps.fleet.models import Device, Node

MAX_KG = 1_000_000
WAYS = {
    "cut_off": "Cut-off: nothing of its first life (usual)",
    "remaining_life": "In proportion to the life that was left",
    "price": "In proportion to the price that was paid",
}


def number(data: Mapping[str, str], name: str, *, max_value: int, words: str, needed: bool = False) -> Decimal | None:
    """Return a number from 0 to ``most``, None for nothing typed. Raises InvalidInput."""
    text = data.get(name, "").strip().replace(",", ".")
    if not text and not needed:
        return None
    try:
        value = Decimal(text)
        if not value.is_finite() or not 0 <= value <= max_value:
            raise InvalidOperation
    except InvalidOperation as error:
        raise InvalidInput(f"{text[:40]!r} is not {words}.", field=name, hint=f"A number from 0 to {max_value}.") from error
    return value


def kilograms(data: Mapping[str, str], name: str, *, needed: bool = False) -> int | None:
    """Return µg of a number of kilograms, None for nothing typed."""
    value = number(data, name, max_value=MAX_KG, words="a weight in kg CO₂e", needed=needed)
    return None if value is None else kg_to_ug(value)


def hours_of_years(data: Mapping[str, str], name: str, kind: str) -> int:
    """Return hours of a number of years; nothing typed: what is usual for the kind."""
    value = number(data, name, max_value=100, words="a number of years")
    return default_life_hours(kind) if value is None else int(value * HOURS_PER_YEAR)


def owner(data: Mapping[str, str], visitor: Visitor, name: str = "owner") -> Project | None:
    """Return the project that a form names, None for the lab itself."""
    slug = data.get(name, "")
    if slug in {"", LAB_ITSELF}:
        return None
    project = project_by_slug(visitor.lab, slug)
    if project is None:
        raise InvalidInput("There is no such project in your lab.", field=name, hint="Choose one of the list.")
    return project


def selected_asset(data: Mapping[str, str], visitor: Visitor, name: str) -> Asset | None:
    """Return the asset that a form names, None for none."""
    text = data.get(name, "")
    if not text:
        return None
    asset_id = parse_record_number(text)
    asset = None if asset_id is None else asset_of(visitor.lab, asset_id)
    if asset is None:
        raise InvalidInput("There is no such asset in your lab.", field=name, hint="Choose one of the list.")
    return asset


def meter(data: Mapping[str, str], visitor: Visitor, asset: Asset | None = None) -> tuple[Device | None, Node | None]:
    """Return the device or node that a form names as ``device:<id>`` or ``node:<id>``; neither for none."""
    kind, _, text = data.get("meter", "").partition(":")
    if not kind:
        return None, None
    devices, nodes = free_meters(visitor.lab, asset)
    device = next((each for each in devices if kind == "device" and str(each.pk) == text), None)
    node = next((each for each in nodes if kind == "node" and str(each.pk) == text), None)
    if device is None and node is None:
        hint = "Choose one of the list: each meter tells the use of one asset."
        raise InvalidInput("This meter is not there, or tells the use of another asset.", field="meter", hint=hint)
    return device, node


def model_of_form(data: Mapping[str, str], visitor: Visitor, kind: str) -> HardwareModel | None:
    """Return the catalogue's model that a form names (``model`` by number, ``model_name`` as typed), None for none."""
    name = data.get("model_name", "").strip()
    if name and not is_unstorable(name):
        named = model_of(kind, name, visitor.lab)
        if named is None:
            near = ", ".join(model.name for model in suggest(kind, name, 3, visitor.lab))
            hint = f"Did you mean {near}?" if near else "Write it otherwise, or leave it out."
            raise InvalidInput(f"The catalogue has no {name[:60]!r} of this kind.", field="model_name", hint=hint)
        return named
    text = data.get("model", "")
    if not text:
        return None
    model = models_of(visitor.lab).filter(pk=parse_record_number(text) or 0).first()
    if model is None:
        raise InvalidInput("There is no such model.", field="model", hint="Search again, or give a value of your own.")
    return model


def embodied(data: Mapping[str, str], visitor: Visitor, kind: str) -> Embodied | None:
    """Return what a thing brought: the catalogue's figure, one's own value, or None (nobody knows)."""
    way = data.get("figure", "")
    if way == "catalogue":
        model = model_of_form(data, visitor, kind)
        figure = best_figure(model, visitor.lab) if model else None
        if figure is None:
            hint = "Choose a model that has a figure, or give a value of your own."
            raise InvalidInput("The catalogue has no figure for this.", field="model", hint=hint)
        units = number(data, "units", max_value=100_000, words="a number of units") if figure.unit != "item" else Decimal(1)
        if units is None or units < 1 or units % 1:
            unit = figure.get_unit_display()
            raise InvalidInput(
                f"How many {unit}?", field="units", hint=f"This figure is for one {unit}: write a whole number."
            )
        return Embodied.of(figure, int(units))
    if way == "own":
        return own_value(data)
    if way == "unknown":
        return None
    raise InvalidInput(
        "Say what it brought.", field="figure", hint="A figure of the catalogue, a value, or that nobody knows."
    )


def own_value(data: Mapping[str, str]) -> Embodied:
    """Return a value with its range and source, as typed."""
    whole = kilograms(data, "kg", needed=True)
    source = data.get("source", "").strip()
    if not source:
        raise InvalidInput("Where is this value from?", field="source", hint="A data sheet, a study, or your estimate.")
    part = kilograms(data, "end_of_life_kg")
    holds = True if part is not None else {"yes": True, "no": False}.get(data.get("holds_end_of_life", ""))
    return Embodied(
        whole or 0, kilograms(data, "low_kg"), kilograms(data, "high_kg"), end_of_life_ug=part, includes_end_of_life=holds,
        source=source[:500],
    )  # fmt: skip


def second_hand(data: Mapping[str, str], what: Embodied | None, life_hours: int) -> Embodied:
    """Return what a second-hand thing brings to its new owner, of what it brought to its first one."""
    way = data.get("way", "cut_off")
    added = kilograms(data, "added_kg") or 0
    if way not in WAYS:
        raise InvalidInput(
            "This is no way to count a second-hand thing.", field="way", hint=f"Use one of {', '.join(WAYS)}."
        )
    if way == "cut_off":
        source = "second-hand, cut-off: refurbishment and transport alone"
        return Embodied(added, includes_end_of_life=False, source=source, figure=what.figure if what else None)
    if what is None:
        hint = "Give the figure of the thing new, or use the cut-off."
        raise InvalidInput("A share of what nobody knows is not known.", field="way", hint=hint)
    used = number(data, "used_years", max_value=100, words="a number of years", needed=way == "remaining_life") or Decimal(0)
    paid = number(data, "paid", max_value=10**9, words="a price", needed=way == "price") or Decimal(0)
    new = number(data, "price_new", max_value=10**9, words="a price", needed=way == "price") or Decimal(0)
    if way == "price" and not new:
        raise InvalidInput(
            "What did it cost new?", field="price_new", hint="A share of nothing is nothing: use the cut-off."
        )

    def share(value: int) -> int:
        return second_hand_ug(
            value, way=way, used_hours=int(used * HOURS_PER_YEAR), life_hours=life_hours, paid=int(paid * 100),
            new_price=int(new * 100), added_ug=added,
        )  # fmt: skip

    low, high = what.low_ug or what.total_ug, what.high_ug or what.total_ug
    source_text = f"{what.source}; second-hand, {WAYS[way].lower()}"[:500]
    return Embodied(
        share(what.total_ug), share(low), share(high), includes_end_of_life=what.includes_end_of_life, figure=what.figure,
        source=source_text,
    )  # fmt: skip


def opening(data: Mapping[str, str], visitor: Visitor, kind: str) -> Entry:
    """Return how a thing was bought."""
    what = embodied(data, visitor, kind)
    used = data.get("condition", "new") == "used"
    life_hours = hours_of_years(data, "life_years", kind)
    if used:
        what = second_hand(data, what, hours_of_years(data, "first_life_years", kind))
    return Entry(
        EventKind.SECOND_HAND if used else EventKind.PURCHASE, from_us(data, visitor), embodied=what, life_hours=life_hours,
        amortisation=data.get("amortisation", ""), project=owner(data, visitor),
        parent=selected_asset(data, visitor, "parent"),
        site=optional_site(data, visitor), counterpart=data.get("counterpart", "").strip(),
        evidence=data.get("evidence", "").strip(), note=data.get("note", "").strip(),
    )  # fmt: skip


def facts(data: QueryDict, visitor: Visitor) -> Facts:
    """Return what a thing is."""
    kind = data.get("kind", "")
    price = number(data, "price", max_value=10**9, words="a price")
    return Facts(
        name=data.get("name", ""), kind=kind, model=model_of_form(data, visitor, kind), serial=data.get("serial", ""),
        tag=data.get("tag", ""), supplier=data.get("supplier", "").strip(), location=data.get("location", "").strip(),
        price_ucurrency=None if price is None else int(price * 1_000_000), currency=data.get("currency", "").strip(),
        warranty_until=_day(data, "warranty"), note=data.get("about", "").strip(),
    )  # fmt: skip


def _day(data: Mapping[str, str], name: str) -> date | None:
    text = data.get(name, "")
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise InvalidInput(
            f"{text[:40]!r} is no day.", field=name, hint="Write it as 2027-03-31, or leave it out."
        ) from error


def draft(data: QueryDict, visitor: Visitor) -> Draft:
    """Return the asset that the form of a new one describes."""
    new_facts = facts(data, visitor)
    if new_facts.kind not in HardwareKind.values:
        raise InvalidInput("Say what kind of thing it is.", field="kind", hint="Choose one of the list.")
    entry = opening(data, visitor, new_facts.kind)
    if data.get("use") == "stock":
        in_use = None
    elif data.get("use") == "other":
        in_use = from_us({"from_day": data.get("use_day", "")}, visitor)
    else:
        in_use = entry.at_us
    device, node = meter(data, visitor)
    return Draft(new_facts, entry, deployed_us=in_use, device=device, node=node)


def part_draft(data: QueryDict, visitor: Visitor, host: Asset) -> Draft | None:
    """Return the part that an upgrade puts in, None for none: its figure is what was typed, else the catalogue's."""
    name = data.get("part_name", "").strip()
    if not name:
        return None
    kind = data.get("part_kind", "")
    if kind not in HardwareKind.values:
        raise InvalidInput("Say what kind of part it is.", field="part_kind", hint="Choose one of the list.")
    typed = kilograms(data, "part_kg")
    known = match(kind, name, visitor.lab)
    what = None
    if typed is not None:
        source = data.get("part_source", "").strip()
        if not source:
            raise InvalidInput("Where is this value from?", field="part_source", hint="A data sheet, a study, an estimate.")
        what = Embodied(typed, source=source[:500])
    elif known.figure is not None and known.by == "model" and known.figure.unit == "item":
        what = Embodied.of(known.figure)
    entry = Entry(
        EventKind.PURCHASE,
        visitor.now,
        embodied=what,
        life_hours=hours_of_years(data, "part_years", kind),
        project=host.owner,
    )
    return Draft(Facts(name, kind, model=known.model, serial=data.get("part_serial", "")), entry)
