"""Jobs of ingest: moves of devices, sealing of old hours."""

from apps.core.clock import now_us
from apps.core.jobs import DAY_US, job, periodic_job
from apps.ingest.choices import MoveState
from apps.ingest.models import DeviceMove
from apps.ingest.services.moves import (
    ACCEPT_JOB,
    PLACE_JOB,
    SILENCE_JOB,
    WITHDRAW_JOB,
    accept_absent,
    accept_after_silence,
    withdraw_move,
)
from apps.ingest.services.reexamine import place_pending
from apps.ingest.services.seal import cutoff_hour, seal_windows

SEAL_JOB = "ingest.seal"
SEAL_SLICE_S = 2.0  # other jobs run between slices


def _move(key: str) -> DeviceMove:
    return DeviceMove.objects.select_related("device__lab", "to_node__lab").get(pk=int(key))


@job(ACCEPT_JOB)
def accept_job(key: str) -> None:
    """Accept pending move ``key`` (move:node): that node uploads without the device."""
    move_key, _, node_key = key.partition(":")
    move = _move(move_key)
    accept_absent(lab=move.device.lab, move_id=move.pk, absent_node_id=int(node_key), now=now_us())


@job(WITHDRAW_JOB)
def withdraw_job(key: str) -> None:
    """Withdraw accepted move ``key``: its former node uploads the device again."""
    move = _move(key)
    withdraw_move(lab=move.device.lab, move_id=move.pk, now=now_us())


@job(SILENCE_JOB)
def silence_job(key: str) -> None:
    """Accept pending move ``key`` if its former node was silent for 7 days."""
    move = _move(key)
    accept_after_silence(lab=move.device.lab, move_id=move.pk, now=now_us())


@job(PLACE_JOB)
def place_job(key: str) -> None:
    """Place the pending windows of accepted move ``key``."""
    move = _move(key)
    if move.state == MoveState.ACCEPTED:
        place_pending(node=move.to_node, device_id=move.device_id)


@periodic_job(SEAL_JOB)
def seal_job() -> int:
    """Seal old hours for a short time. The next slice follows at once while some remain, else a
    day later.
    """
    now = now_us()
    progress = seal_windows(before_hour=cutoff_hour(now), budget_s=SEAL_SLICE_S)
    return now + DAY_US if progress.is_complete else now
