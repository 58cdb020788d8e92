"""The change of the lab's use against an earlier period, or why there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from apps.accounts.models import Lab
from apps.carbon.coverage import DeviceTime, device_times, time_shares
from apps.carbon.figures.energy import Figure, figure
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import percent
from apps.dashboard.frame.period_steps import COMPARISONS, compared_period
from apps.dashboard.periods import Period, lab_query, local

COMPARABLE_IF_UNKNOWN_BELOW = 20  # a twentieth of the device time


@dataclass(frozen=True)
class Comparison:
    """An earlier period with its use by the lab. ``reason``: why nothing can be compared with it,
    '' if it can.
    """

    earlier: Period
    name: str
    before: Figure
    reason: str = ""


@dataclass(frozen=True)
class ChangeOf:
    """The change of one measure in percent. ``direction``: 'up', 'down' or 'same'."""

    quantity: Quantity
    direction: str

    @property
    def sign(self) -> str:
        """Return the mark of the direction."""
        return {"up": "▲", "down": "▼"}.get(self.direction, "")


@dataclass(frozen=True)
class Change:
    """'12 % less energy than in October 2026', with the change of the emissions of electricity
    (None: unknown in one of the periods). Without ``energy``, ``reason`` says why.
    """

    text: str
    energy: ChangeOf | None = None
    emission: ChangeOf | None = None
    reason: str = ""


def comparison_with(
    lab: Lab,
    period: Period,
    earlier: Period,
    whole: Figure,
    times: Sequence[DeviceTime],
    now: int,
) -> Comparison:
    """Return the comparison of ``period`` with ``earlier``. At most two queries."""
    name = _name(earlier, period)

    def impossible(reason: str, before: Figure | None = None) -> Comparison:
        return Comparison(earlier, name, before or Figure(), reason)

    if not whole.energy_mj:
        measured = "no energy was used" if whole.entries else "nothing was measured"
        return impossible(f"{measured} in this period")
    first_us = min((time.first_us for time in times), default=None)
    if first_us is None or first_us > earlier.from_hour * US_PER_HOUR:
        return impossible(f"nothing was measured {_without_reading(earlier, first_us)}")
    if not _is_comparable(times):
        return impossible("over 5 % of the device time of this period is unknown")
    if not _is_comparable(device_times(lab, earlier.from_hour, earlier.to_hour, now)):
        return impossible(f"over 5 % of the device time of {name} is unknown")
    before = figure(lab, lab_query(lab, earlier))
    if not before.energy_mj:
        return impossible(f"no energy was used in {name}", before)
    return Comparison(earlier, name, before)


def comparisons_of(
    lab: Lab, period: Period, whole: Figure, times: Sequence[DeviceTime], now: int
) -> dict[str, Comparison]:
    """Return the comparison with each earlier period, by keys of COMPARISONS. At most four
    queries. Of a period that ends in the future, its part until now is compared.
    """
    period = period.measured_part(now)
    return {
        name: comparison_with(lab, period, earlier, whole, times, now)
        for name in COMPARISONS
        if (earlier := compared_period(period, name))
    }


def not_comparable(comparisons: Mapping[str, Comparison]) -> dict[str, str]:
    """Return the comparisons that are not possible, with the reason."""
    return {
        name: comparison.reason for name, comparison in comparisons.items() if comparison.reason
    }


def change_of(lab: Lab, comparison: Comparison | None, whole: Figure) -> Change | None:
    """Return the change of the lab; None if nothing is compared or nothing was used."""
    if comparison is None or not whole.energy_mj:
        return None
    if comparison.reason:
        return Change("", reason=comparison.reason)
    before = comparison.before
    energy = _change_of(lab, comparison, "energy_mj", whole)
    unpriced = whole.without_factor_mj or before.without_factor_mj
    return Change(
        f"{'less' if energy.direction == 'down' else 'more'} energy than in {comparison.name}",
        energy,
        None
        if unpriced or before.emission_ug <= 0
        else _change_of(lab, comparison, "emission_ug", whole),
    )


def _change_of(lab: Lab, comparison: Comparison, metric: str, whole: Figure) -> ChangeOf:
    """Return the change of one metric. The earlier amount is its figure."""
    before = comparison.before.value(metric)
    difference = whole.value(metric) - before
    query = lab_query(lab, comparison.earlier, metric)
    shown = quantity(query, comparison.before)
    return ChangeOf(
        Quantity(
            query,
            before,
            percent(abs(difference), before),
            "%",
            f"{shown.exact} in {comparison.name}",
        ),
        "down" if difference < 0 else "up" if difference else "same",
    )


def _name(earlier: Period, period: Period) -> str:
    """Return the earlier period as text: its days, with the hour in which it ends, or its
    length.
    """
    if earlier.is_in_days:
        return earlier.label
    if period.unit:
        return f"{earlier.label_of_days} until {local(earlier.to_hour, earlier.zone):%H:%M}"
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
