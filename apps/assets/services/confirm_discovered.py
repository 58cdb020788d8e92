"""Confirmation and dismissal of discovered hardware."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, Project, User
from apps.assets.choices import EventKind
from apps.assets.discovery import MACHINES, Proposal, proposals
from apps.assets.models import Asset, AssetMeter, DismissedProposal
from apps.assets.services.meters import set_meter
from apps.assets.services.register import write_drafts
from apps.assets.services.validation import Draft, Entry, Facts
from apps.assets.spreadsheets.catalog_match import Matcher
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.fleet.models import ACTIVE


@dataclass(frozen=True)
class Selection:
    """A proposal that a user confirms, with corrections.

    ``asset``: the registered asset that gets the meter instead of a new one. ``kind``: kind of
    machine of a node.
    """

    key: str
    bought_us: int
    life_hours: int
    project: Project | None = None
    kind: str = ""
    asset: Asset | None = None


@dataclass(frozen=True)
class Confirmed:
    """Number of created assets, of assets that got their meter, and of outdated proposals."""

    made: int
    linked: int
    gone: int


@transaction.atomic
def confirm_discovered(
    *, lab: Lab, selections: Sequence[Selection], by: User | None, now: int
) -> Confirmed:
    """Register selected proposals. GPUs become parts of their node's asset.

    A second confirmation has no effect. Raises InvalidInput naming the field.
    """
    Lab.objects.select_for_update().get(pk=lab.pk)  # serialise confirmations
    here = {proposal.key: proposal for proposal in proposals(lab)}
    confirmed_proposals = [
        (here[each.key], each)
        for each in {each.key: each for each in selections}.values()
        if each.key in here
    ]
    created_count = linked = 0
    for machines in (True, False):
        part = [
            (proposal, each)
            for proposal, each in confirmed_proposals
            if (proposal.device is None) == machines
        ]
        linked += sum(_linked(proposal, each, by, now) for proposal, each in part)
        homes = {} if machines else _homes(lab, part)
        matcher = Matcher(lab)
        drafts = [
            _draft(proposal, each, homes, matcher) for proposal, each in part if each.asset is None
        ]
        created_count += len(write_drafts(lab, drafts, by, now))
    if created_count:
        details = {"assets": created_count, "from": "discovery"}
        subject = f"{created_count} asset{'' if created_count == 1 else 's'}"
        audit.record(
            lab=lab, by=by, action=Act.ASSETS_IMPORTED, subject=subject, details=details, now=now
        )
        enqueue(kind="assets.use_all", key=str(lab.pk))
        enqueue(kind="assets.charge", key=str(lab.pk))
    return Confirmed(
        created_count, linked, len({each.key for each in selections}) - len(confirmed_proposals)
    )


def _linked(proposal: Proposal, each: Selection, by: User | None, now: int) -> bool:
    if each.asset is None:
        return False
    if each.asset not in (proposal.same, *proposal.like):
        raise InvalidInput(
            f"{proposal.name} is not {each.asset}.", field="as", hint="Choose one of the list."
        )
    if AssetMeter.objects.filter(ACTIVE, asset=each.asset).exists():
        raise InvalidInput(
            f"{each.asset} is selected twice.", field="as", hint="Select each asset once."
        )
    node = None if proposal.device else proposal.node
    set_meter(
        asset=each.asset,
        device=proposal.device,
        node=node,
        from_us=proposal.since_us,
        by=by,
        now=now,
    )
    return True


def _homes(lab: Lab, part: Sequence[tuple[Proposal, Selection]]) -> dict[int, Asset]:
    """Return the asset of each node, which becomes the parent of its GPUs."""
    nodes = {proposal.node.pk for proposal, _ in part}
    meters = AssetMeter.objects.filter(ACTIVE, asset__lab=lab, node_id__in=nodes).select_related(
        "asset"
    )
    return {
        meter.node_id: meter.asset
        for meter in meters.order_by("from_hour")
        if meter.node_id is not None
    }


def _draft(proposal: Proposal, each: Selection, homes: dict[int, Asset], matcher: Matcher) -> Draft:
    kind, known = proposal.kind, proposal.known
    if proposal.device is None and each.kind:
        if each.kind not in MACHINES:
            raise InvalidInput(
                f"{each.kind[:40]!r} is not a kind of machine.",
                field="kind",
                hint=f"Use {', '.join(MACHINES)}.",
            )
        kind = each.kind
        known = matcher.known(kind, (proposal.reported,) if proposal.reported else (), "", None)
    parent = homes.get(proposal.node.pk)
    opening = Entry(
        EventKind.PURCHASE,
        each.bought_us,
        embodied=known.embodied,
        life_hours=each.life_hours,
        project=each.project,
        parent=parent,
        site=None if parent else proposal.site,
        note="Seen by a collector",
    )
    facts = Facts(proposal.name, kind, known.model, proposal.serial)
    node = None if proposal.device else proposal.node
    return Draft(facts, opening, deployed_us=each.bought_us, device=proposal.device, node=node)


@transaction.atomic
def dismiss(*, lab: Lab, keys: Sequence[str], by: User | None, now: int) -> int:
    """Dismiss proposals until they are restored. Return their number."""
    open_proposals = [
        proposal
        for proposal in proposals(lab)
        if proposal.key in set(keys) and not proposal.dismissed
    ]
    DismissedProposal.objects.bulk_create(
        [
            DismissedProposal(
                lab=lab,
                device=each.device,
                node=None if each.device else each.node,
                dismissed_us=now,
                dismissed_by=by,
            )
            for each in open_proposals
        ],
        ignore_conflicts=True,
    )
    return len(open_proposals)


@transaction.atomic
def propose_again(*, lab: Lab, keys: Sequence[str]) -> int:
    """Restore dismissed proposals. Return their number."""
    requested_keys = set(keys)
    rows = [
        row.pk
        for row in DismissedProposal.objects.filter(lab=lab)
        if (f"device:{row.device_id}" if row.device_id else f"node:{row.node_id}") in requested_keys
    ]
    return DismissedProposal.objects.filter(pk__in=rows).delete()[0]
