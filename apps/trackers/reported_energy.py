"""Energy that a tracker measured for a run, reported over the REST API.

It is stored like that of the other trackers: one device for each run and component, and a collector
of the node takes precedence minute by minute (apps/energy/source_precedence.py).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import msgspec
from django.db import transaction

from apps.accounts.models import Lab
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.units import US_PER_S
from apps.energy.source_precedence import COMPONENT
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import MAX_ENERGY_MJ, WindowIn
from apps.runs.bulk_parsing import moment_us
from apps.runs.models import Run
from apps.runs.services.runs import can_report

MAX_INTERVALS = 1000
_FUTURE_US = 300 * US_PER_S
# Of all components of one kind in a node. The largest nodes draw a fiftieth of it.
_MAX_POWER_W = 1_000_000
_IMPLAUSIBLE = ["rejected", "mean power above 1 MW"]
_EPOCH = "reported"
_NAMES = {"gpu": "GPU", "cpu": "CPU", "ram": "Memory"}
_HINT = (
    '{"intervals": [{"component": "gpu", "start": "2026-11-02T08:00:00Z", '
    '"end": "2026-11-02T08:01:00Z", "energy_mj": 18000000}]}'
)


class ReportedInterval(msgspec.Struct, forbid_unknown_fields=True):
    """Energy of one component of the node, without PUE."""

    component: Literal["gpu", "cpu", "ram"]
    start: str
    end: str
    energy_mj: Annotated[int, msgspec.Meta(ge=0, le=MAX_ENERGY_MJ)]


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    intervals: Annotated[
        list[ReportedInterval], msgspec.Meta(min_length=1, max_length=MAX_INTERVALS)
    ]


_DECODER = msgspec.json.Decoder(_Body)


def parse_intervals(body: bytes) -> list[ReportedInterval]:
    """Return the intervals of a request. Raises InvalidInput."""
    try:
        return _DECODER.decode(body).intervals
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        raise InvalidInput(f"{text}.", field=where.strip("`") or "intervals", hint=_HINT) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("The body must be JSON.", code="parse_error", hint=_HINT) from error


@transaction.atomic
def report_energy(
    *,
    lab: Lab,
    uuid: UUID,
    intervals: Sequence[ReportedInterval],
    bound_node: UUID | None,
    now: int,
) -> list[list[Any]]:
    """Store the intervals of a run; return the result of each, in order. Idempotent.

    Raises NotFound for an unknown run (or one that a node's token may not write), Conflict for a
    run without a node, InvalidInput for an interval in the future.
    """
    run = (
        Run.objects.select_for_update(of=("self",))
        .select_related("node")
        .filter(lab=lab, uuid=uuid)
        .first()
    )
    if run is None or (bound_node is not None and not can_report(run, bound_node)):
        raise NotFound("No such run in this lab.", hint="Register the run with PUT first.")
    if run.node is None:
        raise Conflict(
            "This run belongs to no node, so its energy has no grid zone and no PUE.",
            field="node",
            hint="Register the run with 'node', the UUID of a node of the lab.",
        )
    results: list[list[Any]] = [[] for _ in intervals]
    for component in sorted({interval.component for interval in intervals}):
        device = _device(run, component)
        windows = {
            i: _window(run, device, interval, i, now)
            for i, interval in enumerate(intervals)
            if interval.component == component
        }
        for i in [i for i, window in windows.items() if _is_implausible(window)]:
            del windows[i]
            results[i] = list(_IMPLAUSIBLE)
        if not windows:
            continue
        answers = accept_declared(
            node=run.node,
            devices=[device],
            windows=list(windows.values()),
            batch_uuid=uuid4(),
            origin=f"API, energy of run {run.uuid}",
            now=now,
        )
        for i, answer in zip(windows, answers, strict=True):
            results[i] = answer
    return results


def _is_implausible(window: WindowIn) -> bool:
    duration_us = window.end_us - window.start_us
    return duration_us > 0 and window.energy_mj * 1000 > _MAX_POWER_W * duration_us


def _device(run: Run, component: str) -> Device:
    assert run.node is not None
    device, _ = Device.objects.get_or_create(
        lab=run.lab,
        key=f"declared:{run.node.uuid}/run-{run.uuid}-{component}",
        defaults={
            "kind": DeviceKind.DECLARED,
            "node": run.node,
            "name": f"{_NAMES[component]} (reported)",
            "facts": {COMPONENT: component},
        },
    )
    return device


def _window(
    run: Run, device: Device, interval: ReportedInterval, number: int, now: int
) -> WindowIn:
    field = f"intervals[{number}]"
    start_us = moment_us(interval.start, f"{field}.start")
    end_us = moment_us(interval.end, f"{field}.end")
    if end_us > now + _FUTURE_US:
        raise InvalidInput(
            f"{interval.end} is in the future.",
            field=f"{field}.end",
            hint="Check the clock of the machine.",
        )
    return WindowIn(
        device=device.key,
        epoch=_EPOCH,
        sequence=start_us,
        start_us=start_us,
        end_us=end_us,
        mono_start_us=0,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=interval.energy_mj,
        measurement="imported",
        flags=0,
        shares=[(f"run:{run.uuid}", interval.energy_mj)],
        split=True,  # a tracker may measure the whole node
    )
