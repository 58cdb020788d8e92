"""One hour of a device: windows, counter readings, shares and properties of the meter."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.energy import normal
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import NotFound
from apps.core.text import is_unstorable
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.dashboard.formatting import grouped
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.archive_files import ArchiveProblem
from apps.ingest.choices import (
    FLAG_BRIDGED,
    FLAG_CLOCK,
    FLAG_DECIDED,
    FLAG_MERGED,
    FLAG_RECOVERED,
    EnergyQuality,
    Measurement,
    PlacementQuality,
    ShareQuality,
)
from apps.ingest.selectors import shares_of, windows_of_hour
from apps.runs.models import Run

METERS = {
    Measurement.NVML_COUNTER: "NVML total energy counter",
    Measurement.NVML_POWER: "NVML power readings, integrated",
    Measurement.RAPL: "RAPL energy counter",
    Measurement.RAPL_MODEL: "RAPL, partly modelled",
    Measurement.CPU_MODEL: "CPU power model",
    Measurement.HOST_STATIC: "static power of the node overhead",
    Measurement.NODE_METER: "meter of the whole node",
    Measurement.IMPORTED: "readings imported from another tool",
    Measurement.DECLARED: "declared by a person",
}
FLAGS = {
    FLAG_BRIDGED: "bridged a missed poll",
    FLAG_RECOVERED: "recovered from the counter after a pause",
    FLAG_MERGED: "merged from shorter windows",
    FLAG_CLOCK: "placed by the monotonic clock, because the wall clock disagreed",
    FLAG_DECIDED: "accepted from quarantine by a manager",
}


@dataclass(frozen=True)
class Share:
    """A part of a window and its consumer. ``href``: the page of the run."""

    consumer: str
    energy: str
    href: str


@dataclass(frozen=True)
class WindowRow:
    """A window as shown."""

    start_us: int
    end_us: int
    counter: str
    energy: str
    shares: list[Share]
    quality: str
    flags: str
    sequence: int


@dataclass(frozen=True)
class Reading:
    """Common properties of windows of the hour: measurement, epoch, batch and node."""

    meter: str
    measurement: str
    epoch: str
    hostname: str
    node: str
    batch: str
    received_us: int
    skew: str
    origin: str
    windows: int


@dataclass(frozen=True)
class HourView:
    """An hour of a device. ``archive_problem``: why its archived windows cannot be shown."""

    device: str
    name: str
    kind: str
    hostname: str
    node: str
    facts: list[tuple[str, str]]
    hour: str
    hour_us: int
    windows: list[WindowRow]
    total: str
    spanning: bool
    readings: list[Reading]
    overhead: str
    archive_problem: str


def _consumer_label(key: str, runs: dict[str, str]) -> tuple[str, str]:
    kind, _, rest = key.partition(":")
    if kind == "run":
        return (
            (f"run {runs[rest]}", reverse("run", args=[rest]))
            if rest in runs
            else (f"run {rest[:8]}", "")
        )
    return key, ""


def _flags(flags: int) -> str:
    return ", ".join(text for bit, text in FLAGS.items() if flags & bit)


def _quality(window: dict[str, Any]) -> str:
    qualities = [
        EnergyQuality(window["energy_quality"]).name.lower(),
        ShareQuality(window["share_quality"]).name.lower(),
    ]
    if window["placement_quality"] == PlacementQuality.IMPUTED:
        qualities.append("estimated time")
    return ", ".join(qualities)


def _counter(window: dict[str, Any]) -> str:
    before, after = window["counter_start"], window["counter_end"]
    return (
        f"{grouped(before)} → {grouped(after)}"
        if before is not None and after is not None
        else "no counter"
    )


def _reading_key(window: dict[str, Any]) -> tuple[Any, ...]:
    return (
        window["measurement"],
        window["epoch"],
        window["hostname"],
        normal(window["node"], "node"),
        normal(window["batch"], "node"),
        window["received_us"],
        window["skew_us"],
        window["origin"],
    )


def _readings(windows: list[dict[str, Any]]) -> list[Reading]:
    groups = Counter(_reading_key(window) for window in windows)
    return [
        Reading(
            meter=METERS[Measurement(measurement)],
            measurement=Measurement(measurement).label,
            epoch=epoch,
            hostname=hostname,
            node=node,
            batch=batch,
            received_us=received_us,
            skew="unknown" if skew_us is None else f"{skew_us / US_PER_S:.1f} s",
            origin=origin,
            windows=count,
        )
        for (
            measurement,
            epoch,
            hostname,
            node,
            batch,
            received_us,
            skew_us,
            origin,
        ), count in groups.items()
    ]


def _overhead(device: Device) -> str:
    if device.kind != DeviceKind.HOST:
        return ""
    power = device.node.static_power_mw
    power_text = (
        f"{power / 1000:g} W" if power is not None else "a static power that is no longer set"
    )
    time_text = "the time in which any device of the node was measured"
    return f"{power_text} × {time_text}, minus the energy of its CPU and DRAM meters, at least 0."


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _run_names(lab: Lab, consumers: Iterable[str]) -> dict[str, str]:
    """Return {UUID: name} of the runs among ``consumers``. Keys of unknown runs are left out."""
    candidates = [_uuid(key.partition(":")[2]) for key in consumers if key.startswith("run:")]
    uuids = {uuid for uuid in candidates if uuid is not None}
    rows = Run.objects.filter(lab=lab, uuid__in=uuids).values_list("uuid", "name") if uuids else ()
    return {str(uuid): name for uuid, name in rows}


def hour_view(lab: Lab, device_key: str, hour: int, visibility: Visibility) -> HourView:
    """Return the windows behind an hour of a device. Four queries."""
    devices = Device.objects.filter(lab=lab, key=device_key).select_related("node")
    device = None if is_unstorable(device_key) else devices.first()
    if device is None:
        raise NotFound(
            "No such device in this lab.",
            hint=f"See {reverse('nodes')} for the devices of the lab.",
        )
    try:
        windows, archive_problem = windows_of_hour(device, hour), ""
    except ArchiveProblem as problem:
        windows, archive_problem = [], f"{problem.message} {problem.hint}"
    shares = shares_of(windows)
    runs = _run_names(lab, (consumer for parts in shares.values() for consumer, _ in parts))
    start_us = hour * US_PER_HOUR
    listed = [
        WindowRow(
            start_us=window["start_us"],
            end_us=window["end_us"],
            counter=_counter(window),
            energy=grouped(window["energy_mj"]),
            shares=[
                Share(consumer, grouped(part_mj), href)
                for key, part_mj in shares[window["epoch_id"], window["sequence"]]
                for consumer, href in [_consumer_label(visibility.consumer(key), runs)]
            ],
            quality=_quality(window),
            flags=_flags(window["flags"]),
            sequence=window["sequence"],
        )
        for window in windows
    ]
    return HourView(
        device=device.key,
        name=device.name or device.key,
        kind=device.get_kind_display(),
        hostname=device.node.hostname,
        node=str(device.node.uuid),
        facts=[(str(name), str(value)) for name, value in sorted(device.facts.items())],
        hour=iso_hour(hour),
        hour_us=start_us,
        windows=listed,
        total=grouped(sum(window["energy_mj"] for window in windows)),
        spanning=any(
            w["start_us"] < start_us or w["end_us"] > start_us + US_PER_HOUR for w in windows
        ),
        readings=_readings(windows),
        overhead=_overhead(device),
        archive_problem=archive_problem,
    )
