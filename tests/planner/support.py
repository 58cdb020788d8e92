"""Finished runs with GPUs, energy and work, for estimates."""

from typing import Any

from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.preflight.support import stored

A100 = "NVIDIA A100-SXM4-40GB"
GPU = "gpu:GPU-0000-7777"


def finished(
    small: SmallLab,
    *,
    minute: int,
    gpu_mj: int = 0,
    cpu_mj: int = 0,
    minutes: int = 1,
    params: dict[str, Any] | None = None,
    card: str = A100,
    **facts: Any,
) -> Run:
    """Store a finished run with energy on a GPU and a CPU."""
    from apps.fleet.models import Device

    end = T0 + (minute + minutes) * MINUTE
    run = stored(small, minutes=minute, ended_us=end, params=params or {}, **facts)
    windows = [
        W(
            device,
            energy_mj,
            start_us=T0 + minute * MINUTE,
            end_us=end,
            seq=minute,
            shares=((f"run:{run.uuid}", energy_mj),),
            measurement="nvml_counter" if device == GPU else "rapl",
            epoch=f"0b6f0c1e-1111-4222-8333-444455556666/{1 if device == GPU else 2}",
        )
        for device, energy_mj in ((GPU, gpu_mj), (f"cpu:{small.node.uuid}/0", cpu_mj))
        if energy_mj
    ]
    if windows:
        push(small.node, windows)
    Device.objects.filter(lab=small.lab, key=GPU).update(name=card)
    return run
