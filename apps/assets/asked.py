"""From a body of the API to a draft or an entry: names looked up in the caller's lab."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet

from apps.accounts.models import Lab
from apps.assets.choices import EventKind
from apps.assets.models import Asset
from apps.assets.services.validation import Draft, Embodied, Entry, Facts, default_life_hours
from apps.assets.spreadsheets.catalog_match import Matcher
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of
from apps.core.errors import InvalidInput
from apps.core.intervals import us_of

Body = Mapping[str, Any]


def _named(rows: QuerySet[Any], field: str, value: Any, name: str) -> Any:
    """Return the thing of the lab that is called ``value``, None of None. Raises InvalidInput naming the field."""
    if value is None:
        return None
    found: Model | None = rows.filter(**{field: value}).first()
    if found is None:
        raise InvalidInput(f"There is no such {name} in this lab.", field=name, hint="Names of another lab are not known.")
    return found


def entry_of(lab: Lab, body: Body) -> Entry:
    """Return the entry that a body tells."""
    embodied = body.get("embodied")
    end = body.get("life_end_at")
    return Entry(
        body["kind"], us_of(body["at"]), embodied=Embodied(**embodied) if embodied else None,
        life_hours=body.get("life_hours"), life_end_us=us_of(end) if end else None,
        amortisation=body.get("amortisation", ""),
        project=_named(lab.projects.all(), "slug", body.get("project"), "project"),
        parent=_named(Asset.objects.filter(lab=lab).select_related("parent"), "pk", body.get("parent"), "parent"),
        site=_named(lab.sites.all(), "name", body.get("site"), "site"),
        **{name: body.get(name, "") for name in ("counterpart", "evidence", "note")},
    )  # fmt: skip


def facts_of(lab: Lab, body: Body, before: Asset | None = None) -> Facts:
    """Return what a body says an asset is; what it does not say stays as it was ``before``."""
    told = {field.name: getattr(before, field.name) for field in fields(Facts)} if before else {}
    told |= {name: value for name, value in body.items() if name in {field.name for field in fields(Facts)}}
    if "model" in body:
        told["model"] = _model(lab, str(told["kind"]), body["model"])
    return Facts(**told)


def _model(lab: Lab, kind: str, name: str | None) -> HardwareModel | None:
    if name is None:
        return None
    found = model_of(kind, name, lab)
    if found is None:
        raise InvalidInput(
            f"The catalogue knows no {kind} {name[:60]!r}.", field="model", hint="Leave it out, or add the model first."
        )
    return found


def draft_of(lab: Lab, body: Body) -> Draft:
    """Return the asset that a body tells. Embodied carbon that it does not speak of is the catalogue's."""
    facts = facts_of(lab, body)
    told: Body = body["opening"]
    opening = entry_of(lab, {"life_hours": default_life_hours(facts.kind), **told})
    if told["kind"] == EventKind.PURCHASE and "embodied" not in told:
        names = (facts.model.name,) if facts.model else ()
        known = Matcher(lab).known(facts.kind, names, "", None)
        opening = replace(opening, embodied=known.embodied)
    used = body.get("in_use_since")
    node: UUID | None = body.get("node")
    return Draft(
        facts, opening, us_of(used) if used else None,
        device=_named(lab.devices.all(), "key", body.get("device"), "device"),
        node=_named(lab.nodes.all(), "uuid", node, "node"),
    )  # fmt: skip
