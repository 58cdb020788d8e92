"""Writes of declared use: a run, and one window of the ledger."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from apps.accounts.models import Lab, Project
from apps.activity.declared_rows import DeclaredRow
from apps.activity.services.lookups import Lookups
from apps.carbon.models import DeclaredRange
from apps.core.errors import InvalidInput
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import MAX_DURATION_US, WindowIn
from apps.runs.choices import RunState
from apps.runs.models import Run
from apps.runs.services.bulk_import import PastUse, create_declared_runs
from apps.runs.services.runs import RunFacts, change_run, put_run

EPOCH = "declared"


def unusable(lookups: Lookups, row: DeclaredRow, now: int) -> InvalidInput | None:
    """Return why declared use cannot be stored, or None."""
    if row.project and lookups.project(row.project) is None:
        slugs = ", ".join(lookups.slugs())
        return InvalidInput(
            f"unknown project {row.project!r}.", field="project", hint=f"Use one of {slugs}."
        )
    if row.zone and (problem := lookups.zone_problem(row.zone)) is not None:
        return problem
    if row.end_us > now:
        return InvalidInput(
            "the period ends in the future.",
            field="to",
            hint="Declare use after it ended. Times without a zone are UTC.",
        )
    if row.start_us < 0 or row.end_us - row.start_us > MAX_DURATION_US:
        return InvalidInput(
            "the period begins before 1970 or is longer than 400 days.",
            field="from",
            hint="Divide a longer period into several rows.",
        )
    return None


@dataclass(frozen=True)
class NewUse:
    """Declared use that is not stored yet."""

    uuid: UUID
    row: DeclaredRow
    node: Node
    project: Project | None


def write_new_uses(
    *, lab: Lab, uses: Sequence[NewUse], origin: str, now: int
) -> tuple[dict[UUID, Device], dict[UUID, str]]:
    """Store each use as a finished run with one window, in the caller's transaction. Return the
    device of each run, and the result of each window that the ledger did not accept.
    """
    devices = {
        use.uuid: Device(
            lab=lab,
            key=device_key(use.node, use.uuid),
            kind=DeviceKind.DECLARED,
            node=use.node,
            name=use.row.name,
        )
        for use in uses
    }
    Device.objects.bulk_create(devices.values(), batch_size=500)
    past = [
        PastUse(use.uuid, use.row.name, use.node, use.project, use.row.start_us, use.row.end_us)
        for use in uses
    ]
    create_declared_runs(lab=lab, uses=past)
    by_node: dict[Node, list[NewUse]] = {}
    for use in uses:
        by_node.setdefault(use.node, []).append(use)
    refused: dict[UUID, str] = {}
    for node, part in by_node.items():
        results = accept_declared(
            node=node,
            devices=[devices[use.uuid] for use in part],
            windows=[_window(devices[use.uuid], use.uuid, use.row) for use in part],
            batch_uuid=uuid4(),
            origin=origin[:200],
            now=now,
        )
        for use, result in zip(part, results, strict=True):
            if result[0] != "accepted":
                refused[use.uuid] = result[0]
    _store_new_ranges(lab, uses)
    return devices, refused


def write_use(
    *, lab: Lab, row: DeclaredRow, node: Node, run_uuid: UUID, origin: str, now: int
) -> tuple[str, bool]:
    """Store declared use as a finished run with one window. Return the result of the window, and
    whether a stored range changed. A repetition changes nothing.
    """
    device, _ = Device.objects.get_or_create(
        lab=lab,
        key=device_key(node, run_uuid),
        defaults={"kind": DeviceKind.DECLARED, "node": node, "name": row.name},
    )
    facts = RunFacts(
        name=row.name, started_us=row.start_us, project=row.project or None, host=node.hostname
    )
    run, _ = put_run(lab=lab, uuid=run_uuid, facts=facts, by=None, bound_node=node.uuid)
    change_run(
        lab=lab,
        uuid=run_uuid,
        state=RunState.FINISHED,
        ended_us=row.end_us,
        exit_code=None,
        reported_energy_mj=None,
        bound_node=node.uuid,
    )
    [result] = accept_declared(
        node=node,
        devices=[device],
        windows=[_window(device, run_uuid, row)],
        batch_uuid=run_uuid,
        origin=origin[:200],
        now=now,
    )
    return result[0], _store_range(run, row)


def _window(device: Device, run_uuid: UUID, row: DeclaredRow) -> WindowIn:
    return WindowIn(
        device=device.key,
        epoch=EPOCH,
        sequence=0,
        start_us=row.start_us,
        end_us=row.end_us,
        mono_start_us=0,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=row.energy_mj,
        measurement="declared",
        flags=0,
        shares=[(f"run:{run_uuid}", row.energy_mj)],
    )


def device_key(node: Node, run_uuid: UUID) -> str:
    """Return the key of the device of declared use."""
    return f"declared:{node.uuid}/{hashlib.sha256(run_uuid.bytes).hexdigest()[:16]}"


def _range_values(row: DeclaredRow) -> dict[str, int | None]:
    energy, factor = row.energy_range, row.factor_range or (None, None)
    return {
        "energy_low_ppm": energy[0],
        "energy_high_ppm": energy[1],
        "factor_low_ppm": factor[0],
        "factor_high_ppm": factor[1],
    }


def _store_new_ranges(lab: Lab, uses: Sequence[NewUse]) -> None:
    uuids = [use.uuid for use in uses]
    ids = dict(Run.objects.filter(lab=lab, uuid__in=uuids).values_list("uuid", "pk"))
    DeclaredRange.objects.bulk_create(
        [DeclaredRange(run_id=ids[use.uuid], **_range_values(use.row)) for use in uses],
        batch_size=500,
    )


def _store_range(run: Run, row: DeclaredRow) -> bool:
    """Store the range of a row; return whether it changed."""
    values = _range_values(row)
    stored = DeclaredRange.objects.filter(run=run).values(*values).first()
    if stored == values:
        return False
    DeclaredRange.objects.update_or_create(run=run, defaults=values)
    return stored is not None
