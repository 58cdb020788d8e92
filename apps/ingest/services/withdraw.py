"""Withdraw windows that a person declared."""

from django.db import transaction

from apps.core.errors import Conflict
from apps.core.intervals import hours_touched
from apps.core.sql import lock_rows
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.models import EnergyWindow, SealedHour
from apps.ingest.services.store import delete_window, mark_dirty


@transaction.atomic
def withdraw_declared(*, device: Device) -> int:
    """Delete the windows of a device of declared use; return their energy in mJ.

    Raises Conflict if they are archived.
    """
    assert device.kind == DeviceKind.DECLARED, "a measured window is never deleted"
    lock_rows("fleet_device", [device.pk])  # excludes settling and sealing
    if SealedHour.objects.filter(device=device).exists():
        raise Conflict(
            "The energy of this activity is archived, so it cannot be withdrawn.",
            hint="Correct the figures by a restatement.",
        )
    windows = list(EnergyWindow.objects.filter(device=device))
    for window in windows:
        delete_window(window)
    mark_dirty(
        device.node,
        {
            (device.pk, hour)
            for window in windows
            for hour in hours_touched(window.start_us, window.end_us)
        },
    )
    return sum(window.energy_mj for window in windows)
