"""Power and hours of an asset, as the ledger of its meter tells them."""

import pytest

from apps.assets.services import set_meter
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from apps.replacement.measured_use import Measured, measured, meter_of
from tests.assets.support import H0, bought
from tests.builders import T0, SmallLab, W, push

pytestmark = pytest.mark.django_db
HOUR = US_PER_HOUR
NOW = T0 + 365 * 24 * HOUR
A, B = "gpu:GPU-000A", "gpu:GPU-000B"


def hours(lab: SmallLab, gpu: str, watts: dict[int, tuple[str, int]]) -> None:
    """Push whole hours from T0 on: (who, W)."""
    windows = [
        W(
            gpu,
            power * 3_600_000,
            T0 + hour * HOUR,
            T0 + (hour + 1) * HOUR,
            hour,
            ((who, power * 3_600_000),),
            None,
            "nvml_power",
        )
        for hour, (who, power) in watts.items()
    ]
    push(lab.node, windows)


def test_used_and_idle_hours_are_told_apart_and_hold_all_energy(lab: SmallLab) -> None:
    hours(
        lab, A, {0: ("proc:ada/x", 100), 1: ("proc:ada/x", 300), 2: ("idle", 10), 5: ("idle", 30)}
    )
    asset = bought(lab, device=Device.objects.get(key=A), now=NOW)
    meter = meter_of(asset, H0)
    assert meter is not None
    told = measured(lab.lab, meter, H0 - 5, H0 + 8)
    assert told == Measured(H0, H0 + 8, 400 * 3_600_000, 2 * HOUR, 40 * 3_600_000, 2 * HOUR, 2)
    assert (told.used_mw, told.idle_mw, told.hours) == (200_000, 20_000, 8)
    assert measured(lab.lab, meter, H0 + 100, H0 + 200) is None


def test_an_hour_that_was_used_in_part_counts_as_used(lab: SmallLab) -> None:
    mj = 100 * 3_600_000
    push(
        lab.node,
        [
            W(
                A,
                mj,
                T0,
                T0 + HOUR,
                0,
                (("proc:ada/x", mj // 4), ("idle", mj - mj // 4)),
                None,
                "nvml_power",
            )
        ],
    )
    meter = meter_of(bought(lab, device=Device.objects.get(key=A), now=NOW), H0)
    assert meter is not None
    told = measured(lab.lab, meter, H0, H0 + 1)
    assert told is not None
    assert (told.used_mj, told.idle_us, told.idle_mw) == (mj, 0, None)


def test_a_machine_is_the_sum_of_its_devices_and_used_when_one_is(lab: SmallLab) -> None:
    hours(lab, A, {0: ("proc:ada/x", 100), 1: ("idle", 10)})
    hours(lab, B, {0: ("idle", 20), 1: ("idle", 20)})
    server = bought(lab, kind="server", name="ws-1", now=NOW)
    set_meter(asset=server, node=lab.node, from_us=T0, by=lab.owner, now=NOW)
    meter = meter_of(server, H0)
    assert meter is not None
    assert meter.place == lab.node
    told = measured(lab.lab, meter, H0, H0 + 2)
    assert told is not None
    assert (told.used_mw, told.idle_mw) == (120_000, 30_000)
    assert (told.used_us, told.idle_us) == (HOUR, HOUR), "hours of the machine, not of its devices"


def test_only_the_meter_of_today_counts_from_where_it_begins(lab: SmallLab) -> None:
    hours(lab, A, dict.fromkeys(range(4), ("proc:ada/x", 100)))
    hours(lab, B, dict.fromkeys(range(4), ("proc:ada/x", 300)))
    asset = bought(lab, device=Device.objects.get(key=A), now=NOW)
    set_meter(
        asset=asset, device=Device.objects.get(key=B), from_us=T0 + 2 * HOUR, by=lab.owner, now=NOW
    )
    meter = meter_of(asset, H0 + 3)
    assert meter is not None
    told = measured(lab.lab, meter, H0, H0 + 4)
    assert told is not None
    assert (told.from_hour, told.used_mw, told.used_us) == (H0 + 2, 300_000, 2 * HOUR)
    set_meter(asset=asset, from_us=T0 + 3 * HOUR, by=lab.owner, now=NOW)
    assert meter_of(asset, H0 + 3) is None, "it has no meter any more"
    assert meter_of(bought(lab, name="No. 2", now=NOW), H0) is None
