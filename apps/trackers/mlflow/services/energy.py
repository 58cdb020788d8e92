"""GPU watts that MLflow told become windows of energy, written through ingest: the same ledger, factors, explanations.

What a collector measured on the same machine comes first, minute by minute (apps/energy/source_precedence.py).
"""

from uuid import NAMESPACE_URL, uuid5

from apps.energy.source_precedence import COMPONENT
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.fleet.selectors import TRACKER, measured_nodes
from apps.ingest.calc import FUTURE_US, WindowIn
from apps.ingest.models import EnergyWindow
from apps.ingest.services import accept_declared
from apps.trackers.mlflow.power import Piece, Sample, Standing, gpu_of, placed, sample_of
from apps.trackers.models import MlflowRun, MlflowSeries

EPOCH = "mlflow"
CARD = "mlflow_gpu"  # in a device's facts: which card of its machine it stands for


def counts_watts(told: MlflowRun) -> bool:
    """Return whether a run's watts count: not where it is a part of one whose watts MLflow tells as well."""
    above, steps = told.parent, 0
    while above and steps < 16:
        parent = MlflowRun.objects.filter(source_id=told.source_id, mlflow_id=above).first()
        if parent is None:
            break
        if _tells_watts(parent):
            return False
        above, steps = parent.parent, steps + 1
    whole = told.run.parent_id if told.run else None
    return whole is None or not any(map(_tells_watts, MlflowRun.objects.filter(run_id=whole).exclude(pk=told.pk)))


def _tells_watts(told: MlflowRun) -> bool:
    return any(gpu_of(name) for name in told.series.values_list("name", flat=True))


def place_watts(
    told: MlflowRun, series: MlflowSeries, values: list[tuple[int, int, float | str]], *, over: bool, now: int
) -> str:
    """Write the windows that follow from one more part of a GPU's watts; return why some were not, '' if all were.

    ``series`` (saved by the caller) remembers how far it got, in the same transaction. ``over``: no more will come.
    """
    samples, problem = [], ""
    for _, at_us, value in values:
        sample = None if isinstance(value, str) else sample_of(at_us, value)
        if sample is None:
            problem = f"{series.name} tells {str(value)[:20]} W, which no card draws: left out."
        elif at_us > now + FUTURE_US:
            problem = f"{series.name} lies more than a day ahead: the clock of its machine is wrong."
        else:
            samples.append(sample)
    return _write(told, series, samples, over=over, now=now) or problem


def _write(told: MlflowRun, series: MlflowSeries, samples: list[Sample], *, over: bool, now: int) -> str:
    standing = Standing(series.until_us, series.held_us, series.carry_nj)
    pieces, standing = placed(standing, samples, over=over)
    if not pieces or told.run is None:
        return ""
    device = series.device = series.device or _device(told, series)
    series.until_us, series.held_us, series.carry_nj = standing.until_us, standing.held_us, standing.carry_nj
    free = _free(device, pieces)
    answers = accept_declared(
        node=device.node,
        device=device,
        windows=[_window(told, device, piece) for piece in free],
        batch_uuid=uuid5(NAMESPACE_URL, f"labcarbon:mlflow:{series.pk}:{pieces[0].start_us}"),
        origin=f"MLflow, run {told.mlflow_id}, {series.name}"[:200],
        now=max(now, pieces[-1].end_us),
    )
    aside = [answer for answer in answers if answer[0] not in {"accepted", "duplicate"}]
    if aside:
        return f"{len(aside)} minutes of {series.name} were set aside: {' '.join(aside[0][1:])}."
    if twice := len(pieces) - len(free):
        return f"{twice} minutes of {series.name} were told by another run on {device.node.hostname} already: counted once."
    return ""


def _free(device: Device, pieces: list[Piece]) -> list[Piece]:
    """Return the windows that no other run told of the same card of the same machine. Of machines that nobody named it is
    not known whether they are the same."""
    if TRACKER in device.node.facts:
        return pieces
    others = EnergyWindow.objects.filter(
        device__node=device.node, device__kind=DeviceKind.DECLARED, device__facts__mlflow_gpu=device.facts[CARD],
        start_us__lt=pieces[-1].end_us, end_us__gt=pieces[0].start_us,
    ).exclude(device=device)  # fmt: skip
    taken = list(others.values_list("start_us", "end_us"))
    return [piece for piece in pieces if not any(start < piece.end_us and end > piece.start_us for start, end in taken)]


def _device(told: MlflowRun, series: MlflowSeries) -> Device:
    """Return what stands for a GPU as one run saw it, on the run's own machine where that is known."""
    run, number = told.run, gpu_of(series.name)
    assert run is not None
    device, _ = Device.objects.select_related("node").get_or_create(
        lab=told.source.lab,
        key=f"declared:mlflow/{run.uuid}/{number}"[:255],
        defaults={
            "kind": DeviceKind.DECLARED,
            "node": run.node or _node_told(told) or told.source.node,
            "name": f"GPU {number}, told by MLflow"[:200],
            "facts": {COMPONENT: "gpu", CARD: str(number)},
        },
    )
    return device


def _node_told(told: MlflowRun) -> Node | None:
    """Return the machine of the lab that the run's process named, or None."""
    return measured_nodes(told.source.lab).filter(uuid=told.node_uuid).first() if told.node_uuid else None


def _window(told: MlflowRun, device: Device, piece: Piece) -> WindowIn:
    run = told.run
    assert run is not None
    return WindowIn(
        device=device.key,
        epoch=EPOCH,
        sequence=piece.start_us // 1000,
        start_us=piece.start_us,
        end_us=piece.end_us,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=piece.energy_mj,
        measurement="imported",
        flags=0,
        shares=[(f"run:{run.uuid}", piece.energy_mj)],
        split=True,  # MLflow reads all cards of the machine, whoever else uses them
    )
