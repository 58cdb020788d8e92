"""A lab worth looking at, for browser tests and pictures: four weeks, two machines, five GPUs,
three projects.

Everything comes in through the doors that real data takes: parsing, ingest, settling. The figures
are invented and the same each time (seeded); the lab's name says that it is made up.
"""

import random
import uuid
from dataclasses import dataclass
from typing import Any

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, Project, User
from apps.accounts.services.labs import create_lab, create_project
from apps.carbon.services import apply_factors, load_factors
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node
from apps.fleet.services import create_site, register_node, set_static_power
from apps.ingest.choices import FLAG_MERGED
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import decide
from apps.runs.choices import RunState
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.metrics import add_points
from apps.runs.services.runs import RunFacts, change_run, put_run
from tests.builders import BOOT, MINUTE, W, push
from tests.runs.fingerprints import hex64, parsed

DAYS = 28
LIVE_HOURS = 2  # minute by minute; before that the spool had merged windows to whole hours
PROJECTS = (("connectome", "Connectome"), ("vision", "Vision"), ("speech", "Speech"))
SCRIPTS = {"connectome": "segment.py", "vision": "train_unet.py", "speech": "finetune.py"}
GPU_NAME = "NVIDIA A100-SXM4-80GB"


@dataclass(frozen=True)
class Piece:
    """A run holds a GPU for some hours."""

    run: str
    project: str
    from_hour: int
    to_hour: int
    watts: int


@dataclass(frozen=True)
class Seeded:
    """What was made."""

    lab: Lab
    owner: User
    nodes: tuple[Node, ...]
    runs: tuple[str, ...]


def seed(*, now: int, password: str | None = None, username: str = "ada") -> Seeded:
    """Build the lab so that its last window ended a moment before ``now`` (µs UTC)."""
    dice = random.Random(20261101)
    load_factors(now=now)
    owner = User.objects.create_user(username=username, password=password)
    lab = create_lab(
        name="Made-up Neuroscience Lab", time_zone="Europe/Berlin", owner=owner, now=now
    )
    for slug, name in PROJECTS:
        create_project(lab=lab, slug=slug, name=name, now=now)
    Project.objects.filter(lab=lab, slug="demo").delete()
    room = create_site(
        lab=lab, name="Machine room", kind=SiteKind.MACHINE_ROOM, zone="DE", pue_ppm=1_340_000
    )
    office = create_site(lab=lab, name="Office", kind=SiteKind.WORKSTATION, zone="DE")
    server = register_node(
        lab=lab, uuid=_uuid("server"), hostname="gpu-01", facts={}, site=room, now=now
    )
    desk = register_node(
        lab=lab, uuid=_uuid("desk"), hostname="ws-3", facts={}, site=office, now=now
    )
    set_static_power(node=server, static_power_mw=310_000)
    apply_factors(lab=lab)
    end_hour = now // US_PER_HOUR
    start_hour = end_hour - DAYS * 24
    runs: list[str] = []
    for index in range(4):
        key = f"gpu:GPU-{_uuid(f'gpu{index}')}"
        pieces = _pieces(dice, start_hour, end_hour + 1, PROJECTS[index % 3][0])
        runs += [piece.run for piece in pieces]
        _register(lab, server, pieces, now, owner)
        _push_gpu(dice, server, key, pieces, start_hour, now)
    pieces = _pieces(dice, start_hour, end_hour + 1, "speech", idle=0.6)
    runs += [piece.run for piece in pieces]
    _register(lab, desk, pieces, now, owner)
    _push_cpu(dice, desk, pieces, start_hour, now)
    _repeat(lab, owner, now)
    run_until_idle(worker="seed")
    return Seeded(lab, owner, (server, desk), tuple(runs))


def _repeat(lab: Lab, owner: User, now: int) -> None:
    """Let some runs do what others did: sure, possible, nearly, confirmed."""
    finished = list(
        Run.objects.filter(lab=lab, state=RunState.FINISHED, project__isnull=False).order_by(
            "started_us"
        )[:10]
    )
    likenesses: tuple[dict[str, Any], ...] = (
        {},
        {"data": {"weak": hex64("stat")}},
        {"code": {"hash": hex64("comments"), "normal": hex64("normal")}},
        {},
        {},
    )
    for number, (likeness, pair) in enumerate(
        zip(likenesses, zip(finished[::2], finished[1::2], strict=True), strict=True)
    ):
        work = {"entry": hex64(f"entry {number}"), "start": {"verified": hex64(f"start {number}")}}
        for run, more in zip(pair, ({}, likeness), strict=True):
            put_fingerprint(
                run=run,
                payload=parsed(**work, **more, hardware={"gpus": f"{number + 1} × {GPU_NAME}"}),
            )
            best = 0.87 + run.started_us % 89 / 10_000
            curve = [
                Point(step, run.started_us + step * MINUTE, best - 0.6 / (1 + step / 4))
                for step in range(40)
            ]
            add_points(
                lab=lab, uuid=run.uuid, points={"val/dice": curve}, bound_node=None, now=None
            )
    run_until_idle(worker="seed")
    chosen = list(
        DuplicateFinding.objects.filter(lab=lab).order_by("-pk").values_list("pk", flat=True)[:2]
    )
    decide(
        lab=lab,
        finding_ids=chosen,
        state=FindingState.CONFIRMED,
        reason="",
        by=owner,
        is_manager=True,
        now=now,
    )


def add_member(seeded: Seeded, *, username: str, role: Role) -> User:
    """Add a person to the seeded lab."""
    user = User.objects.create_user(username=username)
    Membership.objects.create(lab=seeded.lab, user=user, role=role)
    return user


def _uuid(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.seeded.labcarbon.invalid")


def _pieces(
    dice: random.Random, from_hour: int, to_hour: int, favourite: str, idle: float = 0.25
) -> list[Piece]:
    pieces: list[Piece] = []
    hour = from_hour
    while hour < to_hour:
        length = dice.randint(4, 40)
        if dice.random() > idle:
            project = favourite if dice.random() < 0.7 else dice.choice(PROJECTS)[0]
            run = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            pieces.append(
                Piece(run, project, hour, min(hour + length, to_hour), dice.randint(180, 390))
            )
        hour += length
    return pieces


def _register(lab: Lab, node: Node, pieces: list[Piece], now: int, owner: User) -> None:
    for number, piece in enumerate(pieces):
        script = SCRIPTS[piece.project]
        facts = RunFacts(
            name=f"{script.removesuffix('.py')}-{number + 1}",
            started_us=piece.from_hour * US_PER_HOUR,
            project=None if number % 9 == 8 else piece.project,
            command=["python", script],
            params={"lr": 0.0003, "batch": 64, "seed": number},
            os_user=("ada", "ben", "chen")[number % 3],
            host=node.hostname,
        )
        identity = uuid.UUID(piece.run)
        put_run(lab=lab, uuid=identity, facts=facts, by=owner, bound_node=node.uuid)
        if piece.to_hour * US_PER_HOUR < now:
            change_run(
                lab=lab,
                uuid=identity,
                state=RunState.FAILED if number % 7 == 6 else RunState.FINISHED,
                ended_us=piece.to_hour * US_PER_HOUR,
                exit_code=1 if number % 7 == 6 else 0,
                reported_energy_mj=None,
                bound_node=node.uuid,
            )


def _cuts(start_hour: int, now: int) -> list[tuple[int, int, int]]:
    """Return (start, end, flags): whole hours, then minutes; with one night nobody measured."""
    live = now // US_PER_HOUR - LIVE_HOURS
    missing = range(live - 100, live - 91)
    hours = [h for h in range(start_hour, live) if h not in missing]
    cuts = [(h * US_PER_HOUR, (h + 1) * US_PER_HOUR, FLAG_MERGED) for h in hours]
    first = live * US_PER_HOUR
    return cuts + [
        (first + m * MINUTE, first + (m + 1) * MINUTE, 0) for m in range((now - first) // MINUTE)
    ]


def _windows(
    dice: random.Random,
    key: str,
    pieces: list[Piece],
    start_hour: int,
    now: int,
    *,
    idle_w: int,
    measurement: str,
    scale: float,
) -> list[W]:
    windows: list[W] = []
    counter, last_end, epoch = 90_000_000_000, 0, 1
    for sequence, (start_us, end_us, flags) in enumerate(_cuts(start_hour, now)):
        if last_end and start_us != last_end:
            epoch, counter = epoch + 1, 0
        hour = start_us // US_PER_HOUR
        piece = next((piece for piece in pieces if piece.from_hour <= hour < piece.to_hour), None)
        watts = (piece.watts * scale if piece else idle_w) * dice.uniform(0.94, 1.06)
        energy = int(watts * (end_us - start_us) / 1000)
        shares: tuple[tuple[str, int], ...] = (("idle", energy),)
        if piece:
            idle = energy // 25
            shares = ((f"run:{piece.run}", energy - idle), ("idle", idle))
        windows.append(
            W(
                key,
                energy,
                start_us,
                end_us,
                sequence,
                shares,
                counter,
                measurement,
                f"{BOOT}/{epoch}",
                flags,
            )
        )
        counter, last_end = counter + energy, end_us
    return windows


def _push_all(node: Node, windows: list[W], facts: dict[str, object]) -> None:
    for first in range(0, len(windows), 400):
        part = windows[first : first + 400]
        answers = push(node, part, settle=False, device_facts=facts)
        assert answers == [["accepted"]] * len(part), answers[:3]


def _push_gpu(
    dice: random.Random, node: Node, key: str, pieces: list[Piece], start_hour: int, now: int
) -> None:
    windows = _windows(
        dice, key, pieces, start_hour, now, idle_w=58, measurement="nvml_counter", scale=1.0
    )
    _push_all(node, windows, {key: {"name": GPU_NAME, "driver": "580.159.04"}})


def _push_cpu(
    dice: random.Random, node: Node, pieces: list[Piece], start_hour: int, now: int
) -> None:
    key = f"cpu:{node.uuid}/0"
    windows = _windows(
        dice, key, pieces, start_hour, now, idle_w=11, measurement="rapl", scale=0.25
    )
    _push_all(node, windows, {key: {"name": "AMD Ryzen 9 7950X"}})
