"""Record utilization and memory per device-hour. The only writer of ``UtilizationHour``."""

from django.db import transaction

from apps.core.sql import bulk_insert
from apps.energy import ledger_entries, selectors
from apps.energy.models import DeviceHour, UtilizationHour
from apps.energy.utilization import bins_as_text, utilization_by_hour
from apps.fleet.models import Device, Node
from apps.ingest.sealed_selectors import sealed_device_hours

CHUNK = 24  # hours per transaction


def record_utilization(*, device: Device, from_hour: int, to_hour: int) -> None:
    """Replace the rows of a device in ``[from_hour, to_hour)`` by those of its windows."""
    UtilizationHour.objects.filter(device=device, hour__gte=from_hour, hour__lt=to_hour).delete()
    sums = utilization_by_hour(
        selectors.uses_of_windows(device.pk, from_hour, to_hour), from_hour, to_hour
    )
    if not sums:
        return
    keys = sorted(sums)
    columns = {
        "device_id": ("bigint", [device.pk] * len(keys)),
        "hour": ("bigint", [hour for hour, _, _ in keys]),
        "node_id": ("bigint", [node for _, node, _ in keys]),
        "consumer_id": ("bigint", [consumer for _, _, consumer in keys]),
    }
    for name in ("util_us", "util_pm_us", "idle_us", "mem_us", "mem_mib_us", "shared_us"):
        columns[name] = ("bigint", [getattr(sums[key], name) for key in keys])
    for name in ("mem_max_mib", "most_consumers"):
        columns[name] = ("integer", [getattr(sums[key], name) for key in keys])
    bulk_insert(
        UtilizationHour._meta.db_table,  # noqa: SLF001 - the documented API of models
        {
            **columns,
            "util_bins": ("text", [bins_as_text(sums[key].util_bins) for key in keys]),
            "mem_bins": ("text", [bins_as_text(sums[key].mem_bins) for key in keys]),
        },
    )


def record_utilization_of_node(*, node: Node) -> int:
    """Record the utilization of all hours of a node whose windows are stored, after an upgrade.
    Return the number of device-hours.
    """
    number = 0
    for device in Device.objects.filter(node=node).order_by("pk"):
        hours = set(DeviceHour.objects.filter(device=device).values_list("hour", flat=True))
        hours -= {hour for _, hour in sealed_device_hours([device.pk], hours)}
        for first, end in ledger_entries.runs_of_hours(hours):
            for start in range(first, end, CHUNK):
                with transaction.atomic():
                    Device.objects.select_for_update(no_key=True).get(pk=device.pk)
                    record_utilization(
                        device=device, from_hour=start, to_hour=min(end, start + CHUNK)
                    )
        number += len(hours)
    return number
