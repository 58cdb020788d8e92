"""What the forms on an asset's page ask to record, each as something that can be tried before it is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from django.http import QueryDict

from apps.assets.choices import EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services import (
    Embodied,
    Entry,
    correct_opening,
    describe,
    record,
    reverse,
    set_meter,
    store,
    upgrade,
)
from apps.core.errors import Conflict, InvalidInput
from apps.core.intervals import midnight_hour
from apps.core.text import parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.assets.forms import (
    facts,
    kilograms,
    meter,
    number,
    opening,
    own_value,
    owner,
    part_draft,
    selected_asset,
)
from apps.dashboard.decorators import Visitor
from apps.dashboard.form_fields import from_us, optional_site


@dataclass(frozen=True)
class Change:
    """Something to record: how, and how it is told when that is done."""

    make: Callable[[], object]
    message: str


def _repair(data: QueryDict, visitor: Visitor, asset: Asset) -> dict[str, Any]:
    return {"embodied": own_value(data) if data.get("kg", "").strip() else None, "counterpart": _text(data, "counterpart")}


def _dispose(data: QueryDict, visitor: Visitor, asset: Asset) -> dict[str, Any]:
    actual = kilograms(data, "kg")
    what = None if actual is None else Embodied(actual, source=_text(data, "evidence") or _text(data, "counterpart"))
    return {"embodied": what, "counterpart": _text(data, "counterpart")}


def _life(data: QueryDict, visitor: Visitor, asset: Asset) -> dict[str, Any]:
    text = data.get("end_day", "")
    try:
        end = midnight_hour(date.fromisoformat(text), visitor.zone) * US_PER_HOUR if text else None
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:40]!r} is no day.", field="end_day", hint="Choose the day its life ends.") from error
    return {"life_end_us": end, "amortisation": data.get("amortisation", "")}


def _nothing(data: QueryDict, visitor: Visitor, asset: Asset) -> dict[str, Any]:
    return {}


def _text(data: QueryDict, name: str) -> str:
    return data.get(name, "").strip()


Parts = Callable[[QueryDict, Visitor, Asset], dict[str, Any]]
ENTRIES: dict[str, Parts] = {
    EventKind.DEPLOY: _nothing,
    EventKind.MOVE: lambda data, visitor, _: {
        "parent": selected_asset(data, visitor, "parent"),
        "site": optional_site(data, visitor),
    },
    EventKind.TRANSFER: lambda data, visitor, _: {"project": owner(data, visitor)},
    EventKind.REPURPOSE: _life,
    EventKind.REPAIR: _repair,
    EventKind.LIFE_CHANGE: _life,
    EventKind.LEND: lambda data, visitor, _: {
        "project": owner(data, visitor, "borrower"), "counterpart": _text(data, "counterpart"),
    },
    EventKind.RETURN: _nothing,
    EventKind.RETIRE: _nothing,
    EventKind.DISPOSE: _dispose,
}  # fmt: skip


def change_of(data: QueryDict, visitor: Visitor, asset: Asset) -> Change:
    """Return what a form asks to record of an asset. Raises InvalidInput naming the field, Conflict."""
    do = data.get("do", "")
    who: dict[str, Any] = {"by": visitor.user, "now": visitor.now}
    if do in ENTRIES:
        kind = EventKind(do)
        more = ENTRIES[do](data, visitor, asset)
        entry = Entry(kind, from_us(data, visitor), evidence=_text(data, "evidence"), note=_text(data, "note"), **more)
        return Change(partial(record, asset=asset, entry=entry, **who), f"{asset.name}: {kind.label.lower()}.")
    makers = {"upgrade": _upgrade, "reverse": _reverse, "opening": _opening, "meter": _meter, "store": _store}
    if do not in makers:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the forms.")
    return makers[do](data, visitor, asset, who)


def _upgrade(data: QueryDict, visitor: Visitor, asset: Asset, who: dict[str, Any]) -> Change:
    out, new = selected_asset(data, visitor, "out"), part_draft(data, visitor, asset)
    make = partial(
        upgrade, asset=asset, out=out, new=new, at_us=from_us(data, visitor), evidence=_text(data, "evidence"),
        note=_text(data, "note"), **who,
    )  # fmt: skip
    return Change(make, f"{asset.name} is upgraded.")


def _reverse(data: QueryDict, visitor: Visitor, asset: Asset, who: dict[str, Any]) -> Change:
    event = LifecycleEvent.objects.filter(asset=asset, pk=parse_record_number(data.get("entry", "")) or 0).first()
    if event is None:
        raise Conflict("This entry is not there.", hint="Load the page again to see the entries as they are now.")
    is_restored = event.reverses_id is not None
    message = "The entry holds again." if is_restored else f"The entry {event.get_kind_display().lower()!r} is reversed."
    return Change(partial(reverse, event=event, note=_text(data, "note"), **who), message)


def _opening(data: QueryDict, visitor: Visitor, asset: Asset, who: dict[str, Any]) -> Change:
    entry = opening(data, visitor, asset.kind)
    return Change(partial(correct_opening, asset=asset, entry=entry, **who), f"How {asset.name} was bought is corrected.")


def _meter(data: QueryDict, visitor: Visitor, asset: Asset, who: dict[str, Any]) -> Change:
    device, node = meter(data, visitor, asset)
    make = partial(set_meter, asset=asset, device=device, node=node, from_us=from_us(data, visitor), **who)
    name = device or (node.hostname if node else "")
    message = (
        f"The use of {asset.name} is told by {name}." if name else f"Nothing tells the use of {asset.name} from then on."
    )
    return Change(make, message)


def _store(data: QueryDict, visitor: Visitor, asset: Asset, who: dict[str, Any]) -> Change:
    terabytes = number(data, "terabytes", max_value=10**9, words="a volume in TB", needed=True)
    project = owner(data, visitor)
    size = int((terabytes or 0) * 1000)
    make = partial(store, asset=asset, project=project, gigabytes=size, from_us=from_us(data, visitor), **who)
    return Change(make, f"{project.name if project else 'The lab'} keeps {data.get('terabytes')} TB on {asset.name}.")


def described(data: QueryDict, visitor: Visitor, asset: Asset) -> str:
    """Say anew what an asset is; no figure changes. Return how that is told."""
    new_facts = facts(data, visitor)
    describe(asset=asset, facts=new_facts, by=visitor.user, now=visitor.now)
    return f"{new_facts.name.strip()} is described anew."
