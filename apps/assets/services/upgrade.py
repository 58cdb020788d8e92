"""Swap of a part: disposal of one and registration of another in one transaction."""

from dataclasses import replace

from django.db import transaction

from apps.accounts.models import User
from apps.assets.choices import OPENING, EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.events import record
from apps.assets.services.register import register
from apps.assets.services.validation import Draft, Entry
from apps.core.errors import InvalidInput


@transaction.atomic
def upgrade(
    *,
    asset: Asset,
    out: Asset | None,
    new: Draft | None,
    at_us: int,
    by: User | None,
    now: int,
    evidence: str = "",
    note: str = "",
) -> LifecycleEvent:
    """Record an upgrade of ``asset``.

    ``out``, a part of it, is disposed of, and its balance is written off to its owner. ``new`` is
    registered as a part, in use at once. Raises InvalidInput naming the field, Conflict.
    """
    if out is None and new is None:
        raise InvalidInput(
            "No part is selected.",
            field="out",
            hint="Choose a part to remove, enter a new part, or both.",
        )
    if out is not None and out.parent_id != asset.pk:
        raise InvalidInput("Not a part of this asset.", field="out", hint="Choose a current part.")
    if out is not None and out.parts.exists():
        raise InvalidInput(
            f"{out.name} contains parts.",
            field="out",
            hint="Record its disposal, where you choose what happens to them.",
        )
    description = f"{out.name if out else 'nothing'} out, {new.facts.name if new else 'nothing'} in"
    row = record(
        asset=asset,
        entry=Entry(
            EventKind.UPGRADE, at_us, evidence=evidence, note=f"{description}. {note}".strip()
        ),
        by=by,
        now=now,
    )
    if out is not None:
        disposal = Entry(
            EventKind.DISPOSE, at_us, evidence=evidence, note=f"Taken out of {asset.name}"[:500]
        )
        record(asset=out, entry=disposal, by=by, now=now)
    if new is not None:
        if new.opening.kind not in OPENING:
            raise InvalidInput(
                "The first event must be a purchase.",
                field="kind",
                hint="Use purchase or second_hand.",
            )
        opening = replace(new.opening, at_us=at_us, parent=asset, site=asset.site)
        register(
            lab=asset.lab, draft=replace(new, opening=opening, deployed_us=at_us), by=by, now=now
        )
    return row
