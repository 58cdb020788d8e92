"""Division of a device's energy between two readings: integer weights per consumer. Pure."""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, List, Mapping, Optional, Protocol, Tuple

from labcarbon_collect.energy.windows import IDLE, UNKNOWN
from labcarbon_collect.sources.base import ProcessUse

NANOJOULE_PER_MJ = 1_000_000  # milliwatt × microsecond = nanojoule


class ConsumerLookup(Protocol):
    """Consumers of the processes of this machine."""

    def snapshot(self) -> None:
        """Read all processes one time."""

    def consumer_of(self, pid: int) -> str:
        """Return the consumer key of a process: ``run:…``, ``job:…``, ``proc:<user>/<comm>``,
        ``unknown``.
        """

    def cpu_time_us_by_consumer(self) -> Mapping[str, int]:
        """Return the cumulative CPU time per consumer since the start, as of the last snapshot."""

    def jobs(self) -> Mapping[str, int]:
        """Return the uid of each job with a process on this node, by consumer key."""

    def job_of(self, pid: int) -> str:
        """Return the consumer key of the process's job, "" outside a job."""

    def register(self, run_uuid: str, pid: int, uid: int) -> None:
        """Count ``pid`` and its descendants as ``run:<run_uuid>``."""

    def end(self, run_uuid: str, children_cpu_us: int) -> None:
        """End a run. ``children_cpu_us`` is the CPU time of all its processes by wait4."""

    def release(self, run_uuid: str) -> None:
        """End a run whose processes continue."""

    def uids_of(self, consumer: str) -> FrozenSet[int]:
        """Return the uids of the consumer's processes."""


def idle_energy_mj(energy_mj: int, idle_mw: int, duration_us: int) -> int:
    """Return the part of ``energy_mj`` that the device would have drawn without processes, in
    mJ.
    """
    return min(energy_mj, idle_mw * duration_us // NANOJOULE_PER_MJ)


def device_weights(
    processes: Optional[Tuple[ProcessUse, ...]],
    consumer_of: Callable[[int], str],
    *,
    energy_mj: int,
    idle_mj: int,
) -> Dict[str, int]:
    """Return the weights on a GPU: idle power in equal parts, the rest by SM use if it is known of
    all processes.

    ``processes`` None: not visible, so ``unknown``. Empty: ``idle``.
    """
    if processes is None:
        return {UNKNOWN: 1}
    if not processes:
        return {IDLE: 1}
    consumers = [consumer_of(use.pid) for use in processes]
    used = _gpu_use(processes)
    used_sum = sum(used)
    # Over the common denominator len × Σ used: idle/len + dynamic × used/Σ used. Without energy,
    # only the use counts.
    idle_mj, dynamic_mj = (idle_mj, energy_mj - idle_mj) if energy_mj else (0, 1)
    weights: Dict[str, int] = {}
    for consumer, use in zip(consumers, used):
        weight = idle_mj * used_sum + dynamic_mj * use * len(used)
        weights[consumer] = weights.get(consumer, 0) + weight
    return weights


def _gpu_use(processes: Tuple[ProcessUse, ...]) -> List[int]:
    # Under MIG the driver reports no use. The slices of the process's instance replace it.
    uses = [use.slice_share_pm if use.sm_util_pm is None else use.sm_util_pm for use in processes]
    reported = [use for use in uses if use is not None]
    return (
        reported if len(reported) == len(processes) and sum(reported) > 0 else [1] * len(processes)
    )


def processor_weights(
    cpu_us: Mapping[str, int], busy_us: int, *, energy_mj: int, idle_mj: int
) -> Dict[str, int]:
    """Return the weights on a CPU package or its memory: the idle part is ``idle``, the rest is
    divided by CPU time.

    ``cpu_us``: time per consumer in the interval. ``busy_us``: work of all processors. Work beyond
    the visible processes (hidden processes, short ones, interrupts) is ``unknown``.
    """
    cpu_time = {consumer: used for consumer, used in cpu_us.items() if used > 0}
    hidden_us = busy_us - sum(cpu_time.values())
    if hidden_us > 0:
        cpu_time[UNKNOWN] = cpu_time.get(UNKNOWN, 0) + hidden_us
    dynamic_mj = energy_mj - idle_mj
    if not cpu_time or dynamic_mj <= 0:
        return {IDLE: 1}
    weights = {consumer: dynamic_mj * used for consumer, used in cpu_time.items()}
    weights[IDLE] = weights.get(IDLE, 0) + idle_mj * sum(cpu_time.values())
    return weights


def cpu_time_since(before: Mapping[str, int], after: Mapping[str, int]) -> Dict[str, int]:
    """Return the CPU time per consumer between two cumulative tables. A consumer whose time fell
    (removed processes) counts zero.
    """
    spent = {consumer: used - before.get(consumer, 0) for consumer, used in after.items()}
    return {consumer: used for consumer, used in spent.items() if used > 0}
