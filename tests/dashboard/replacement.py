"""A card with a meter, used for some hours of each of the last days, for tests of
replace-or-keep.
"""

from dataclasses import dataclass

from apps.assets.jobs import use_all_job
from apps.assets.models import Asset
from apps.catalog.matching import match_key
from apps.catalog.models import HardwareModel
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from tests.assets.support import bought
from tests.builders import SmallLab, W, push

GPU = "gpu:GPU-0000-0001"
OLD, NEW = "NVIDIA GeForce GTX 1080 Ti", "NVIDIA GeForce RTX 4090"


def model(name: str) -> HardwareModel:
    """Return a shipped model."""
    return HardwareModel.objects.get(match_key=match_key(name), lab=None)


@dataclass
class Worked:
    """What was measured: hours, the first one."""

    asset: Asset
    from_hour: int


def worked(
    lab: SmallLab,
    *,
    days: int = 10,
    used: int = 12,
    idle: int = 12,
    watts: int = 200,
    idle_watts: int = 20,
    gpu: str = GPU,
    name: str = "Card 1",
    kg: int | None = 74,
    old: str = OLD,
) -> Worked:
    """Push whole hours, ``used`` and ``idle`` ones of each of the last days, and register the
    card with its meter.
    """
    end = now_us() // US_PER_HOUR
    first = end - days * 24
    windows = []
    for day in range(days):
        for hour in range(used + idle):
            busy = hour < used
            mj = (watts if busy else idle_watts) * 3_600_000
            start = (first + day * 24 + hour) * US_PER_HOUR
            share = (("proc:ada/train", mj),) if busy else (("idle", mj),)
            windows.append(
                W(gpu, mj, start, start + US_PER_HOUR, day * 24 + hour, share, None, "nvml_power")
            )
    for i in range(0, len(windows), 900):
        push(lab.node, windows[i : i + 900])
    device = Device.objects.get(lab=lab.lab, key=gpu)
    asset = bought(
        lab,
        at_us=first * US_PER_HOUR,
        device=device,
        name=name,
        kg=kg,
        model=model(old),
        now=now_us(),
    )
    use_all_job(str(lab.lab.pk))
    run_until_idle(worker="test")
    return Worked(asset, first)
