"""The change of the lab's energy against an earlier period, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, figure
from apps.core.units import US_PER_HOUR
from apps.dashboard.coverage import DeviceTime, device_times, time_shares
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import percent
from apps.dashboard.periods import Period, lab_query, local

COMPARABLE_IF_UNKNOWN_BELOW = 20  # a twentieth of the device time


@dataclass(frozen=True)
class Change:
    """'12 % less energy than in October 2026'. Without ``quantity``, ``reason`` says why.
    ``direction``: 'up', 'down' or 'same'.
    """

    quantity: Quantity | None
    text: str
    reason: str = ""
    direction: str = ""

    @property
    def sign(self) -> str:
        """Return the mark of the direction."""
        return {"up": "▲", "down": "▼"}.get(self.direction, "")


def change_of_energy(
    lab: Lab,
    period: Period,
    earlier: Period | None,
    whole: Figure,
    times: Sequence[DeviceTime],
    now: int,
) -> Change | None:
    """Return the change against ``earlier``; None if nothing is compared or nothing was used."""
    if earlier is None or not whole.energy_mj:
        return None
    name = _name(earlier, period)
    first_us = min((time.first_us for time in times), default=None)
    if first_us is None or first_us > earlier.from_hour * US_PER_HOUR:
        return Change(None, "", f"nothing was measured {_without_reading(earlier, first_us)}")
    if not _is_comparable(times):
        return Change(None, "", "over 5 % of the device time of this period is unknown")
    if not _is_comparable(device_times(lab, earlier.from_hour, earlier.to_hour, now)):
        return Change(None, "", f"over 5 % of the device time of {name} is unknown")
    query = lab_query(lab, earlier)
    before = figure(lab, query)
    if not before.energy_mj:
        return Change(None, "", f"no energy was used in {name}")
    difference = whole.energy_mj - before.energy_mj
    shown = quantity(query, before)
    return Change(
        Quantity(
            query,
            shown.value,
            percent(abs(difference), before.energy_mj),
            "%",
            f"{shown.exact} in {name}",
        ),
        f"{'less' if difference < 0 else 'more'} energy than in {name}",
        direction="down" if difference < 0 else "up" if difference else "same",
    )


def _name(earlier: Period, period: Period) -> str:
    """Return the earlier period as text: its days, with the hour in which it ends, or its
    length.
    """
    if earlier.is_in_days:
        return earlier.label
    if period.unit:
        return f"{earlier.label} until {local(earlier.to_hour, earlier.zone):%H:%M}"
    return f"the {_length(earlier.hours)} before"


def _length(hours: int) -> str:
    """Return hours as text, from two days on with the days: '29 days and 18 hours'."""
    days, rest = divmod(hours, 24) if hours >= 48 else (0, hours)
    parts = [(days, "day"), (rest, "hour")]
    return " and ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in parts if n)


def _without_reading(earlier: Period, first_us: int | None) -> str:
    """Return the days of ``earlier`` before the first reading."""
    first, last = earlier.first_day, earlier.last_day
    if first_us is not None:
        moment = local(first_us // US_PER_HOUR, earlier.zone)
        last = min(last, moment.date() - timedelta(days=1))
        if last < first:
            return f"before {moment:%H:%M} on {_full_day(moment.date())}"
    if first == last:
        return f"on {_full_day(first)}"
    beginning = _full_day(first)
    if (first.year, first.month) == (last.year, last.month):
        beginning = str(first.day)
    elif first.year == last.year:
        beginning = f"{first.day} {first:%B}"
    return f"between {beginning} and {_full_day(last)}"


def _full_day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _is_comparable(times: Sequence[DeviceTime]) -> bool:
    """Return whether the unknown share is small enough to compare energies."""
    sums = time_shares(times)
    return sums.unknown_us * COMPARABLE_IF_UNKNOWN_BELOW <= sums.expected_us
