"""Small labs for tests: built through the same services as real ones."""

import uuid
from dataclasses import dataclass

import msgspec

from apps.accounts.models import AuditEntry, Lab, Membership, PersonName, Project, User
from apps.accounts.services.labs import create_lab
from apps.carbon.models import AppliedFactor
from apps.carbon.services import apply_factors
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Placement, Site, SitePue, SiteZone
from apps.fleet.services import create_site, register_node
from apps.ingest.parsing import parse_batch
from apps.ingest.services import accept_batch
from tests.row_copies import copy_or_create
from tests.shipped_data import T0

MINUTE = 60_000_000
BOOT = "0b6f0c1e-1111-4222-8333-444455556666"


@dataclass
class SmallLab:
    """A lab with an owner, one site in Germany and one node."""

    lab: Lab
    owner: User
    site: Site
    node: Node


def small_lab(
    *, name: str = "Cell Lab", zone: str = "DE", kind: str = SiteKind.WORKSTATION
) -> SmallLab:
    """Create a lab with the shipped factors applied. Where nothing is yet: the rows that
    services made the first time.
    """
    return copy_or_create((name, zone, kind), lambda: _created(name, zone, kind), SMALL)


# What :func:`small_lab` writes to.
SMALL = (
    User, Lab, Membership, PersonName, AuditEntry, Project, Site, SitePue, SiteZone, Node,
    Placement, AppliedFactor, Job,
)  # fmt: skip


def _created(name: str, zone: str, kind: str) -> SmallLab:
    owner = User.objects.create_user(
        username=f"owner-{uuid.uuid4().hex[:6]}", password="correct horse battery"
    )
    lab = create_lab(name=name, time_zone="Europe/Berlin", owner=owner, now=T0)
    site = create_site(lab=lab, name="Room 1", kind=SiteKind(kind), zone=zone)
    node = register_node(lab=lab, uuid=uuid.uuid4(), hostname="ws-1", facts={}, site=site, now=T0)
    apply_factors(lab=lab)
    return SmallLab(lab, owner, site, node)


@dataclass
class W:
    """One window to push."""

    device: str
    energy_mj: int
    start_us: int = T0
    end_us: int = T0 + MINUTE
    seq: int = 0
    shares: tuple[tuple[str, int], ...] | None = None
    counter_start: int | None = 1_000_000
    measurement: str = "nvml_counter"
    epoch: str = BOOT + "/1"
    flags: int = 0
    mono_length_us: int | None = None  # None: the length of its time
    util_mean_pm: int | None = None
    util_max_pm: int | None = None
    mem_mean_mib: int | None = None
    mem_max_mib: int | None = None


def batch_body(
    node: Node, windows: list[W], *, sent_at: int | None = None, **header: object
) -> dict[str, object]:
    """Return a batch as a collector would send it, as a dict."""
    devices = list(dict.fromkeys(window.device for window in windows))
    shares = [window.shares or (("idle", window.energy_mj),) for window in windows]
    consumers = list(dict.fromkeys(key for part in shares for key, _ in part))
    sent = (
        sent_at if sent_at is not None else max((window.end_us for window in windows), default=T0)
    )
    flat = [(i, consumers.index(key), mj) for i, part in enumerate(shares) for key, mj in part]
    return {
        "schema": "1.0",
        "batch": str(uuid.uuid4()),
        "sent_at": sent,
        "node": str(node.uuid),
        "boot": BOOT,
        "monotonic": sent - T0 + 10**9,
        "devices": devices,
        "consumers": consumers,
        "windows": {
            "device": [devices.index(window.device) for window in windows],
            "epoch": [window.epoch for window in windows],
            "seq": [window.seq for window in windows],
            "start": [window.start_us for window in windows],
            "end": [window.end_us for window in windows],
            "mono_start": [
                window.end_us
                - T0
                + 10**9
                - (window.mono_length_us or window.end_us - window.start_us)
                for window in windows
            ],
            "mono_end": [window.end_us - T0 + 10**9 for window in windows],
            "counter_start": [window.counter_start for window in windows],
            "counter_end": [
                window.counter_start + window.energy_mj
                if window.counter_start is not None
                else None
                for window in windows
            ],
            "energy_mj": [window.energy_mj for window in windows],
            "measurement": [window.measurement for window in windows],
            "flags": [window.flags for window in windows],
            "util_mean_pm": [window.util_mean_pm for window in windows],
            "util_max_pm": [window.util_max_pm for window in windows],
            "mem_mean_mib": [window.mem_mean_mib for window in windows],
            "mem_max_mib": [window.mem_max_mib for window in windows],
            "processes": [0] * len(windows),
        },
        "shares": {
            "window": [row[0] for row in flat],
            "consumer": [row[1] for row in flat],
            "energy_mj": [row[2] for row in flat],
        },
        "gaps": [],
        "health": {},
        **header,
    }


def push(
    node: Node,
    windows: list[W],
    *,
    received_us: int | None = None,
    settle: bool = True,
    **header: object,
) -> list[list[str]]:
    """Push windows through parsing and ingest, and settle the ledger."""
    body = batch_body(node, windows, **header)
    parsed = parse_batch(msgspec.json.encode(body))
    answers = accept_batch(
        node=node, batch=parsed, received_us=received_us or int(str(body["sent_at"]))
    )
    if settle:
        run_until_idle(worker="test")
    return answers
