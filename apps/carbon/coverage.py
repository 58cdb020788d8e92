"""Coverage: measured, estimated and unknown device time, by device and hour."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.rollups.reader import METERED, cover_source, covered_by_stretch
from apps.core.sql import as_int, fetch_rows
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.ingest.sealed_selectors import first_window_us_sql, last_window_us_sql

_STILL_ON_ITS_WAY_US = 120_000_000


@dataclass(frozen=True)
class DeviceTime:
    """Device time of a period, µs: measured (counter, sampled), estimated (modelled, declared),
    expected.

    ``first_us`` and ``last_us`` bound all that was ever measured of the device. ``retired_us``:
    when its node was retired; nothing is expected from then on.
    """

    device_id: int
    node_id: int
    first_us: int
    last_us: int
    measured_us: int
    estimated_us: int
    expected_us: int
    retired_us: int | None = None


@dataclass(frozen=True)
class TimeShares:
    """Sums of device time, µs. Unknown: expected time without data."""

    measured_us: int
    estimated_us: int
    unknown_us: int

    @property
    def expected_us(self) -> int:
        return self.measured_us + self.estimated_us + self.unknown_us


def _expected(
    first_us: int, last_us: int, retired_us: int | None, from_us: int, to_us: int, now: int
) -> int:
    """Return the µs of ``[from_us, to_us)`` in which data of a device is expected: from its first
    window on, until its node is retired.

    What was measured a moment ago is still on its way: two minutes are not called unknown.
    """
    if retired_us is not None:
        to_us = min(to_us, retired_us)
    until = to_us if to_us < now or now - last_us > _STILL_ON_ITS_WAY_US else last_us
    return max(0, min(until, to_us) - max(from_us, first_us))


def device_times(lab: Lab, from_hour: int, to_hour: int, now: int) -> list[DeviceTime]:
    """Return the device time of every metered device that ever sent a window. One query."""
    before, source, params = cover_source(lab, from_hour, to_hour)
    rows = fetch_rows(
        f"{before} SELECT d.id, d.node_id, n.retired_us, t.measured_us, t.estimated_us, "
        f"{first_window_us_sql('d.id')} AS first_us, {last_window_us_sql('d.id')} AS last_us "
        "FROM fleet_device d JOIN fleet_node n ON n.id = d.node_id "
        "LEFT JOIN (SELECT device_id, SUM(measured_us) AS measured_us, "
        f"SUM(estimated_us) AS estimated_us FROM ({source}) q GROUP BY device_id"
        f") t ON t.device_id = d.id WHERE d.lab_id = %s AND {METERED} ORDER BY d.id",
        [*params, lab.pk],
    )
    from_us, to_us = from_hour * US_PER_HOUR, min(to_hour * US_PER_HOUR, now)
    times = []
    for row in rows:
        if row["first_us"] is None:
            continue
        measured, estimated = as_int(row["measured_us"]), as_int(row["estimated_us"])
        expected = max(
            measured + estimated,
            _expected(row["first_us"], row["last_us"], row["retired_us"], from_us, to_us, now),
        )
        times.append(
            DeviceTime(
                row["id"],
                row["node_id"],
                row["first_us"],
                row["last_us"],
                measured,
                estimated,
                expected,
                row["retired_us"],
            )
        )
    return times


def time_shares(times: Iterable[DeviceTime]) -> TimeShares:
    """Return the sums of device time."""
    listed = list(times)
    measured, estimated = (
        sum(time.measured_us for time in listed),
        sum(time.estimated_us for time in listed),
    )
    return TimeShares(
        measured, estimated, sum(time.expected_us for time in listed) - measured - estimated
    )


def covered_by_hour(lab: Lab, from_hour: int, to_hour: int) -> dict[int, int]:
    """Return {hour: µs of device time with data}, over the metered devices of the lab."""
    rows = fetch_rows(
        "SELECT h.hour, SUM(h.covered_us) AS covered_us FROM energy_devicehour h "
        "JOIN fleet_device d ON d.id = h.device_id WHERE h.lab_id = %s AND h.hour >= %s AND "
        f"h.hour < %s AND {METERED} "
        "GROUP BY h.hour",
        [lab.pk, from_hour, to_hour],
    )
    return {row["hour"]: as_int(row["covered_us"]) for row in rows}


def covered_by_day(lab: Lab, from_hour: int, to_hour: int) -> dict[int, int]:
    """Return {first hour: µs} for whole days of the lab, and {hour: µs} for the remaining hours."""
    rows = covered_by_stretch(lab, from_hour, to_hour)
    return {row["from_hour"]: as_int(row["covered_us"]) for row in rows}


def expected_between(times: Iterable[DeviceTime], from_hour: int, to_hour: int, now: int) -> int:
    """Return the device time expected in ``[from_hour, to_hour)``, µs."""
    from_us, to_us = from_hour * US_PER_HOUR, min(to_hour * US_PER_HOUR, now)
    return sum(
        _expected(time.first_us, time.last_us, time.retired_us, from_us, to_us, now)
        for time in times
    )


@dataclass(frozen=True)
class DeviceStay:
    """A device in a node over ``[from_hour, to_hour)``. ``other_id``: second node of hours in
    which the device was moved. ``energy_mj``: energy of the device in these hours.
    """

    node_id: int
    other_id: int | None
    from_hour: int
    to_hour: int
    energy_mj: int


def device_stays(device: Device) -> list[DeviceStay]:
    """Return the nodes in which a device was measured, oldest first. Their energies sum to that
    of the device. One query.
    """
    rows = fetch_rows(
        "SELECT low, high, MIN(hour) AS from_hour, MAX(hour) + 1 AS to_hour, SUM(energy_mj) AS "
        "energy_mj FROM ("
        "SELECT low, high, hour, energy_mj, ROW_NUMBER() OVER (ORDER BY hour) "
        "- ROW_NUMBER() OVER (PARTITION BY low, high ORDER BY hour) AS island FROM ("
        "SELECT hour, MIN(node_id) AS low, MAX(node_id) AS high, SUM(energy_mj) AS energy_mj FROM "
        "energy_devicehour "
        "WHERE device_id = %s GROUP BY hour) h) i GROUP BY low, high, island ORDER BY from_hour",
        [device.pk],
    )
    return [
        DeviceStay(
            row["low"],
            row["high"] if row["high"] != row["low"] else None,
            row["from_hour"],
            row["to_hour"],
            as_int(row["energy_mj"]),
        )
        for row in rows
    ]


def last_hours_in(node: Node, device_ids: Iterable[int]) -> dict[int, int]:
    """Return {device id: the last hour in which it was measured in a node}. One query."""
    ids = sorted(device_ids)
    if not ids:
        return {}
    marks = ", ".join(["%s"] * len(ids))
    rows = fetch_rows(
        f"SELECT device_id, MAX(hour) AS hour FROM energy_devicehour WHERE device_id IN ({marks}) "
        "AND node_id = %s "
        "GROUP BY device_id",
        [*ids, node.pk],
    )
    return {row["device_id"]: row["hour"] for row in rows}
