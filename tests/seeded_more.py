"""Further contents of the seeded lab: people, rules, claims, policies, tokens, more plans, imports,
trackers.

All of it is invented and written through services.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from apps.accounts.choices import Role, TokenKind
from apps.accounts.models import Project
from apps.accounts.services.invitations import invite, revoke_invitation
from apps.accounts.services.labs import create_project, issue_node_token, issue_user_token
from apps.accounts.services.members import remove_member
from apps.accounts.services.tokens import create_token, revoke_token
from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners, select_items, withdraw
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.cleanup.retention_settings import set_retention_periods
from apps.artifacts.models import Artifact
from apps.artifacts.services.curation import archive, mark_candidate
from apps.artifacts.services.holds import place_hold
from apps.assets.discovery import proposals
from apps.assets.services import Embodied, Entry, record
from apps.assets.services.confirm_discovered import Selection, confirm_discovered, dismiss
from apps.assets.services.csv_import import confirm, upload
from apps.assets.spreadsheets.rows import Options
from apps.attribution.models import Claim
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import (
    Criteria,
    claim,
    drafted_rule,
    end_rule,
    make_rule,
    undo_claim,
    withdraw_rule,
)
from apps.catalog.matching import Draft
from apps.catalog.services import add_figure, add_model
from apps.core.units import US_PER_HOUR
from apps.energy.services.idle import set_idle_policy
from apps.fleet.models import Node
from apps.fleet.services import register_node, set_price, set_pue
from apps.ingest.models import Consumer
from apps.runs.models import Run
from apps.runs.services.ignored_params import ignore_parameter
from tests.artifacts.support import edge, register_rows, row, run_jobs
from tests.assets.support import bought
from tests.builders import SmallLab, W, push
from tests.seeded_lab import Seeded, add_member
from tests.trackers.support import tracker

CSV = (
    "name,kind,model,bought_on,serial\nStorage node,server,,2024-03-01,ST-1\n"
    "Card of the desk,gpu,NVIDIA GeForce RTX 4090,2025-05-01,RTX-1\n"
)
HOURS = 24  # of a cluster's use


@dataclass(frozen=True)
class Tokens:
    """Tokens of two callers of the API."""

    person: str
    node: str


def add_more(seeded: Seeded, *, now: int) -> Tokens:
    """Fill the lab further; return tokens of its owner and of its server's collector."""
    room = seeded.lab.sites.order_by("id")[0]
    small = SmallLab(seeded.lab, seeded.owner, room, seeded.nodes[0])
    create_project(lab=small.lab, slug="demo", name="Demo", now=now)
    tokens = _people(seeded, small, now)
    cluster = _cluster(small, now)
    _attribution(small, cluster, now)
    _policies(small, now)
    _plans(seeded, small, now)
    _register(small, now)
    _lifecycles(small, now)
    _catalogue(small, now)
    _codecarbon(small, now)
    run_jobs()
    return tokens


def _people(seeded: Seeded, small: SmallLab, now: int) -> Tokens:
    for name, role in (
        ("ben", Role.MEMBER),
        ("vera", Role.VIEWER),
        ("petra", Role.PI),
        ("rolf", Role.MEMBER),
    ):
        person = add_member(seeded, username=name, role=role)
        Run.objects.filter(lab=small.lab, os_user=name).update(user=person)
    remove_member(lab=small.lab, person=person, by=small.owner, now=now)
    invite(
        lab=small.lab,
        role=Role.MEMBER,
        by=small.owner,
        now=now,
        email="new@example.org",
        note="starts in May",
    )
    revoked, _ = invite(
        lab=small.lab, role=Role.VIEWER, by=small.owner, now=now, email="late@example.org"
    )
    revoke_invitation(lab=small.lab, pk=revoked.pk, by=small.owner, now=now)
    for name in ("notebook", "retired"):
        token, _ = create_token(
            lab=small.lab,
            kind=TokenKind.USER,
            name=name,
            scopes=["runs:read"],
            expires_us=now + 90 * DAY_US,
            by=small.owner,
            now=now,
        )
    revoke_token(lab=small.lab, public_id=token.public_id, by=small.owner, now=now)
    return Tokens(
        issue_user_token(lab=small.lab, user=small.owner, now=now, name="terminal"),
        issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now, by=small.owner),
    )


def _cluster(small: SmallLab, now: int) -> Node:
    """Add a day of a shared node: programs of people with and without an account, a container,
    unknown use.
    """
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, "cluster.seeded.labcarbon.invalid")
    node = register_node(
        lab=small.lab, uuid=identity, hostname="shared-1", facts={}, site=small.site, now=now
    )
    begin = (now // US_PER_HOUR - 48) * US_PER_HOUR
    users = (
        "proc:ben/python3",
        "proc:guest/blender",
        "container:4f0ad1c2b3",
        "unknown",
        "proc:petra/jupyter-lab",
    )
    for gpu in range(2):
        windows = []
        for hour in range(HOURS):
            energy, start = 700_000_000 + 1_000_003 * hour + gpu, begin + hour * US_PER_HOUR
            shares = ((users[(hour + gpu) % len(users)], energy - 50_000_001), ("idle", 50_000_001))
            key = f"gpu:GPU-5ead0000-{gpu:04d}"
            windows.append(
                W(key, energy, start, start + US_PER_HOUR, hour, shares, None, "nvml_power")
            )
        facts = {key: {"name": "NVIDIA L40S", "driver": "580.159.04"}}
        results = push(
            node, windows, sent_at=now, received_us=now, settle=False, device_facts=facts
        )
        assert results == [["accepted"]] * HOURS, results[:3]
    run_jobs()
    return node


def _attribution(small: SmallLab, node: Node, now: int) -> None:
    vision, speech = (
        Project.objects.get(lab=small.lab, slug=slug) for slug in ("vision", "speech")
    )
    since = now - 10 * DAY_US
    for criteria, project, end in (
        (Criteria(os_user="ben", node=node), vision, ""),
        (Criteria(os_user="petra"), speech, ""),
        (Criteria(cluster="hpc", account="acct-speech"), speech, "end"),
        (Criteria(path_prefix="/home/guest"), vision, "withdraw"),
    ):
        rule = drafted_rule(
            lab=small.lab, criteria=criteria, project=project, person=None, from_us=since
        )
        written = make_rule(rule=rule, by=small.owner, now=now)
        if end == "end":
            end_rule(rule=written, at_us=now, by=small.owner, now=now)
        elif end:
            withdraw_rule(rule=written, by=small.owner, now=now)
    consumers = Consumer.objects.filter(lab=small.lab, kind__in=("proc", "container")).order_by(
        "pk"
    )
    hour = now // US_PER_HOUR
    for number, consumer in enumerate(consumers):
        spans = [ConsumerSpan(consumer.pk, node.pk, hour - 100, hour)]
        act = claim(lab=small.lab, spans=spans, project=speech, by=small.owner, now=now + number)
        if number % 2:
            undo_claim(lab=small.lab, act=act, by=small.owner, now=now + number)
    assert Claim.objects.filter(lab=small.lab).exists()
    run_jobs()


def _policies(small: SmallLab, now: int) -> None:
    set_idle_policy(
        lab=small.lab, policy="by_energy", from_us=now - 5 * DAY_US, by=small.owner, now=now
    )
    price = {"ucurrency_per_kwh": 310_000, "currency": "EUR"}
    set_price(site=small.site, **price, from_us=now - 20 * DAY_US, by=small.owner, now=now)  # type: ignore[arg-type]
    set_pue(site=small.site, pue_ppm=1_280_000, from_us=now - 7 * DAY_US)
    vision = Project.objects.get(lab=small.lab, slug="vision")
    set_retention_periods(
        lab=small.lab, project=None, days={"intermediate": "45"}, by=small.owner, now=now
    )
    set_retention_periods(
        lab=small.lab,
        project=vision,
        days={"intermediate": "60", "crashed": "never"},
        by=small.owner,
        now=now,
    )
    ignore_parameter(project=vision, name="batch", by=small.owner, now=now)


def _plans(seeded: Seeded, small: SmallLab, now: int) -> None:
    """Add a withdrawn and an approved cleanup plan of the workstation."""
    lab = SmallLab(small.lab, small.owner, small.site, seeded.nodes[1])
    runs = list(Run.objects.filter(lab=lab.lab, state="finished").order_by("-started_us")[:3])
    rows = [
        row(
            f"desk-{run.pk}-{step}.ckpt",
            kind="checkpoint",
            bytes=900_000_000 + step,
            facts={"step": step},
            copies=[{"path": f"/home/ada/{run.pk}/{step}.ckpt", "medium": "ssd"}],
            runs=[edge(run)],
        )
        for run in runs
        for step in range(1, 6)
    ]
    register_rows(lab, *rows, now=now - 200 * DAY_US, by=lab.owner)
    run_jobs()
    first = create_plan(
        lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=now - 30 * DAY_US
    )
    withdraw(plan=first, by=lab.owner, now=now - 29 * DAY_US)
    plan = create_plan(
        lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=now - 20 * DAY_US
    )
    line = plan.items.order_by("pk")[0].pk
    select_items(plan=plan, selected=[], listed=[line], by=lab.owner, now=now - 20 * DAY_US)
    notify_owners(plan=plan, grace_days=14, trash_days=14, by=lab.owner, now=now - 20 * DAY_US)
    approve(plan=plan, by=lab.owner, now=now - 2 * DAY_US)
    unplanned = Artifact.objects.filter(
        lab=lab.lab, kind="checkpoint", cleanup_items=None
    ).order_by("pk")
    if len(spare := list(unplanned[:2])) == 2:
        mark_candidate(artifact=spare[0], by=lab.owner, now=now)
        archive(artifact=spare[1], by=lab.owner, now=now)
    held: dict[str, Any] = {"until_hour": None, "by": lab.owner, "is_manager": True, "now": now}
    place_hold(
        on=Project.objects.get(lab=lab.lab, slug="speech"), reason="Audit of the grant", **held
    )
    place_hold(on=runs[0], reason="Thesis of Ben", **held)


def _register(small: SmallLab, now: int) -> None:
    """Add a confirmed import, an import with an invalid line, a registered and a dismissed
    discovery.
    """
    done = upload(
        lab=small.lab,
        file_name="hardware.csv",
        content=CSV.encode(),
        options=Options(),
        by=small.owner,
        now=now,
    )
    confirm(row=done, by=small.owner, now=now)
    wrong = CSV + "Broken line,gpu,,soon,\n"
    upload(
        lab=small.lab,
        file_name="wrong.csv",
        content=wrong.encode(),
        options=Options(),
        by=small.owner,
        now=now,
    )
    run_jobs()
    keys = [proposal.key for proposal in proposals(small.lab)]
    selections = [Selection(keys[0], now - 400 * DAY_US, 5 * 8_760, kind="server")]
    confirm_discovered(lab=small.lab, selections=selections, by=small.owner, now=now)
    dismiss(lab=small.lab, keys=keys[-1:], by=small.owner, now=now)


def _lifecycles(small: SmallLab, now: int) -> None:
    """Add assets with every kind of lifecycle event: lent, repaired, repurposed, charged by use,
    retired.
    """
    vision = Project.objects.get(lab=small.lab, slug="vision")
    speech = Project.objects.get(lab=small.lab, slug="speech")
    begin = (now // US_PER_HOUR) * US_PER_HOUR - 900 * DAY_US
    repair = Embodied(11_000_000_003, source="Bill of the workshop")
    histories: tuple[tuple[str, dict[str, Any], tuple[Entry, ...]], ...] = (
        (
            "Lent card",
            {},
            (
                Entry("transfer", begin + 30 * DAY_US, project=vision),
                Entry("lend", begin + 100 * DAY_US, project=speech),
                Entry("return", begin + 200 * DAY_US),
                Entry("lend", begin + 300 * DAY_US, counterpart="Institute next door"),
            ),
        ),
        (
            "Repaired card",
            {"counterpart": "Vendor"},
            (
                Entry("repair", begin + 50 * DAY_US, embodied=repair),
                Entry("upgrade", begin + 60 * DAY_US),
                Entry("repurpose", begin + 400 * DAY_US),
                Entry("life_change", begin + 500 * DAY_US, life_end_us=begin + 2_000 * DAY_US),
                Entry("retire", begin + 890 * DAY_US),
            ),
        ),
        (
            "Card by use",
            {"amortisation": "sci"},
            (Entry("dispose", begin + 800 * DAY_US, counterpart="Recycler", evidence="WEEE 7"),),
        ),
    )
    for name, opening, entries in histories:
        asset = bought(small, name=name, kg=97, at_us=begin, now=now, opening=opening)
        for entry in entries:
            record(asset=asset, entry=entry, by=small.owner, now=now)
    run_jobs()


def _catalogue(small: SmallLab, now: int) -> None:
    model = add_model(lab=small.lab, kind="gpu", name="Prototype card", by=small.owner, now=now)
    draft = Draft(
        method="pcf", unit="item", total_ug=151_000_000_007, source="Letter of the vendor", note=""
    )
    add_figure(lab=small.lab, model=model, draft=draft, by=small.owner, now=now)


def _codecarbon(small: SmallLab, now: int) -> None:
    """Add two CodeCarbon runs of a machine without a collector. The client of the second has its
    own PUE.
    """
    for number, pue_ppm in enumerate((1_000_000, 1_200_000)):
        client = tracker(small, pue_ppm=pue_ppm, name=f"notebooks {number}")
        run = client.begin(
            timestamp="2026-11-19T08:00:00+00:00", experiment_id=str(uuid.UUID(int=number + 1))
        )
        for step in range(1, 6):
            at_us = now - 26 * US_PER_HOUR + step * 120_000_000
            client.emit(run, at_us=at_us, gpu=0.005 + number / 1000, cpu=0.002, ram=0.0001)
    run_jobs()
