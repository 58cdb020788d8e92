"""GPU power of MLflow as energy windows, written through ingest.

Ledger, factors and explanations are the same as for collectors. Measurements of a collector on the
same node take precedence, minute by minute (apps/energy/source_precedence.py).
"""

from uuid import NAMESPACE_URL, uuid5

from apps.energy.source_precedence import COMPONENT
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.fleet.selectors import TRACKER, measured_nodes
from apps.ingest.models import EnergyWindow
from apps.ingest.placement import DECLARED_FUTURE_US
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import WindowIn
from apps.trackers.mlflow.models import MlflowRun, MlflowSeries
from apps.trackers.mlflow.power import (
    EnergyPiece,
    Progress,
    Sample,
    gpu_of,
    sample_of,
    split_into_minutes,
)

EPOCH = "mlflow"
CARD = "mlflow_gpu"  # in a device's facts: GPU number on the node


def accepts_power(tracked_run: MlflowRun) -> bool:
    """Return whether the power of a run counts. It does not if an ancestor has power values."""
    above, steps = tracked_run.parent, 0
    while above and steps < 16:
        parent = MlflowRun.objects.filter(source_id=tracked_run.source_id, mlflow_id=above).first()
        if parent is None:
            break
        if _has_power_series(parent):
            return False
        above, steps = parent.parent, steps + 1
    whole = tracked_run.run.parent_id if tracked_run.run else None
    return whole is None or not any(
        map(_has_power_series, MlflowRun.objects.filter(run_id=whole).exclude(pk=tracked_run.pk))
    )


def _has_power_series(tracked_run: MlflowRun) -> bool:
    return any(gpu_of(name) for name in tracked_run.series.values_list("name", flat=True))


def record_power(
    tracked_run: MlflowRun,
    series: MlflowSeries,
    values: list[tuple[int, int, float | str]],
    *,
    is_over: bool,
    now: int,
) -> str:
    """Write the windows of one more part of a GPU's power; return the reasons of rejected ones, or
    ''.

    ``series`` (saved by the caller) stores the position in the same transaction.
    ``is_over``: no more values follow.
    """
    samples, problem = [], ""
    for _, at_us, value in values:
        sample = None if isinstance(value, str) else sample_of(at_us, value)
        if sample is None:
            problem = f"{series.name} reports {str(value)[:20]} W, which no GPU can draw: ignored."
        elif at_us > now + DECLARED_FUTURE_US:
            problem = (
                f"{series.name} is more than a day in the future: the clock of the node is wrong."
            )
        else:
            samples.append(sample)
    return _write(tracked_run, series, samples, is_over=is_over, now=now) or problem


def _write(
    tracked_run: MlflowRun, series: MlflowSeries, samples: list[Sample], *, is_over: bool, now: int
) -> str:
    progress = Progress(series.until_us, series.last_sample_us, series.carry_nj)
    pieces, progress = split_into_minutes(progress, samples, is_over=is_over)
    if not pieces or tracked_run.run is None:
        return ""
    device = series.device = series.device or _device(tracked_run, series)
    series.until_us, series.last_sample_us, series.carry_nj = (
        progress.until_us,
        progress.last_sample_us,
        progress.carry_nj,
    )
    free = _free(device, pieces)
    answers = accept_declared(
        node=device.node,
        devices=[device],
        windows=[_window(tracked_run, device, piece) for piece in free],
        batch_uuid=uuid5(NAMESPACE_URL, f"labcarbon:mlflow:{series.pk}:{pieces[0].start_us}"),
        origin=f"MLflow, run {tracked_run.mlflow_id}, {series.name}"[:200],
        now=max(now, pieces[-1].end_us),
    )
    rejected = [answer for answer in answers if answer[0] not in {"accepted", "duplicate"}]
    if rejected:
        return (
            f"{len(rejected)} minutes of {series.name} were set aside: {' '.join(rejected[0][1:])}."
        )
    if duplicates := len(pieces) - len(free):
        host = device.node.hostname
        return (
            f"{duplicates} minutes of {series.name} were already reported by another run on "
            f"{host}: counted once."
        )
    return ""


def _free(device: Device, pieces: list[EnergyPiece]) -> list[EnergyPiece]:
    """Return the windows that no other run reported for the same GPU.

    Unknown nodes never count as the same node.
    """
    if TRACKER in device.node.facts:
        return pieces
    others = EnergyWindow.objects.filter(
        device__node=device.node,
        device__kind=DeviceKind.DECLARED,
        device__facts__mlflow_gpu=device.facts[CARD],
        start_us__lt=pieces[-1].end_us,
        end_us__gt=pieces[0].start_us,
    ).exclude(device=device)
    occupied = list(others.values_list("start_us", "end_us"))
    return [
        piece
        for piece in pieces
        if not any(start < piece.end_us and end > piece.start_us for start, end in occupied)
    ]


def _device(tracked_run: MlflowRun, series: MlflowSeries) -> Device:
    """Return the device of a GPU as one run saw it, on the node of the run if known."""
    run, number = tracked_run.run, gpu_of(series.name)
    assert run is not None
    device, _ = Device.objects.select_related("node").get_or_create(
        lab=tracked_run.source.lab,
        key=f"declared:mlflow/{run.uuid}/{number}"[:255],
        defaults={
            "kind": DeviceKind.DECLARED,
            "node": run.node or _reported_node(tracked_run) or tracked_run.source.node,
            "name": f"GPU {number} (MLflow)"[:200],
            "facts": {COMPONENT: "gpu", CARD: str(number)},
        },
    )
    return device


def _reported_node(tracked_run: MlflowRun) -> Node | None:
    """Return the node of the lab that the process of the run named, or None."""
    return (
        measured_nodes(tracked_run.source.lab).filter(uuid=tracked_run.node_uuid).first()
        if tracked_run.node_uuid
        else None
    )


def _window(tracked_run: MlflowRun, device: Device, piece: EnergyPiece) -> WindowIn:
    run = tracked_run.run
    assert run is not None
    return WindowIn(
        device=device.key,
        epoch=EPOCH,
        sequence=piece.start_us // 1000,
        start_us=piece.start_us,
        end_us=piece.end_us,
        mono_start_us=0,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=piece.energy_mj,
        measurement="imported",
        flags=0,
        shares=[(f"run:{run.uuid}", piece.energy_mj)],
        split=True,  # MLflow reads all cards of the node, with the use of others
    )
