"""Runs and idle hours of a GPU with measured utilization and memory."""

from typing import Any
from uuid import uuid4

from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.planner.support import GPU
from tests.preflight.support import stored

A100 = "NVIDIA A100-SXM4-80GB"
START = (T0 // US_PER_HOUR + 3) * US_PER_HOUR


def measured_run(
    small: SmallLab, *, minute: int = 0, use_pm: int = 250, mib: int = 4096, shared: bool = False,
    gpus: int = 1, card: str = A100, name: str = "small", **facts: Any,
) -> Run:  # fmt: skip
    """Store a run of an hour at 80 W on each of its GPUs."""
    start = START + minute * MINUTE
    run = stored(small, minutes=(start - T0) // MINUTE, ended_us=start + US_PER_HOUR, name=name,
                 **facts)  # fmt: skip
    keys = [GPU, "gpu:GPU-0000-8888"][:gpus]
    other = f"run:{uuid4()}"
    mj = 80_000 * 3600
    windows = [
        W(
            key, mj, start_us=start, end_us=start + US_PER_HOUR, seq=minute,
            shares=((f"run:{run.uuid}", mj - 1000), (other, 1000)) if shared
            else ((f"run:{run.uuid}", mj),),
            epoch=f"0b6f0c1e-1111-4222-8333-444455556666/{place}", util_mean_pm=use_pm,
            util_max_pm=use_pm, mem_mean_mib=mib, mem_max_mib=mib,
        )
        for place, key in enumerate(keys)
    ]  # fmt: skip
    push(small.node, windows)
    Device.objects.filter(lab=small.lab, key__in=keys).update(name=card)
    return run


def idle_hours(small: SmallLab, *powers_mw: int) -> None:
    """Store hours without a job on the GPU, a day after the runs."""
    push(small.node, [
        W(GPU, power * 3600, start_us=START + (24 + hour) * US_PER_HOUR,
          end_us=START + (25 + hour) * US_PER_HOUR, seq=9000 + hour,
          shares=(("idle", power * 3600),), util_mean_pm=0, util_max_pm=0)
        for hour, power in enumerate(powers_mw)
    ])  # fmt: skip
