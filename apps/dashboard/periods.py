"""The period of a page: whole UTC hours, selected as days in the lab's zone.

Pure: the current time is an argument.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import FigureQuery, iso_hour
from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour, next_unit, unit_start
from apps.core.units import US_PER_HOUR

PRESETS = {
    "today": "Today",
    "24h": "24 h",
    "7d": "7 d",
    "30d": "30 d",
    "month": "Month",
    "quarter": "Quarter",
    "year": "Year",
}
# The presets that are the running unit of a calendar.
UNIT_OF_PRESET = {"today": "day", "month": "month", "quarter": "quarter", "year": "year"}
PRESET_OF_UNIT = {unit: preset for preset, unit in UNIT_OF_PRESET.items()}
DEFAULT = "month"
YOUNG_US = 72 * US_PER_HOUR
LAST_HOUR = 3_000_000  # in the year 2312
MOST_HOURS = 100 * 366 * 24


def default_preset(lab_created_us: int, now: int) -> str:
    """Return the default preset. A lab in its first three days gets hourly bars."""
    return "24h" if now - lab_created_us < YOUNG_US else DEFAULT


@dataclass(frozen=True)
class Bucket:
    """A bar of a chart: ``[from_hour, to_hour)`` with its labels in the lab's zone.

    ``is_running``: its hour, day or week is not over.
    """

    from_hour: int
    to_hour: int
    label: str
    full_label: str
    is_running: bool = False


@dataclass(frozen=True)
class Period:
    """``[from_hour, to_hour)`` in whole UTC hours, displayed in the lab's ``zone``.

    ``preset`` is '' for a fixed period. ``current_hour`` is the hour of the request, -1 if no bar
    can be running.
    """

    from_hour: int
    to_hour: int
    zone: ZoneInfo
    preset: str = ""
    current_hour: int = field(default=-1, compare=False)

    @property
    def hours(self) -> int:
        return self.to_hour - self.from_hour

    @property
    def days(self) -> int:
        return max(1, round(self.hours / 24))

    @property
    def query(self) -> str:
        """Return the query string of this period."""
        return urlencode({"period": self.preset}) if self.preset else self.fixed_query

    @property
    def fixed_query(self) -> str:
        """Return the query string of these hours, also for a preset, which ends now."""
        return urlencode({"from": iso_hour(self.from_hour), "to": iso_hour(self.to_hour)})

    @property
    def first_day(self) -> date:
        return local(self.from_hour, self.zone).date()

    @property
    def last_day(self) -> date:
        return local(self.to_hour - 1, self.zone).date()

    @property
    def is_in_days(self) -> bool:
        """Return whether the period starts at a midnight of the zone, and ends at one or now."""
        starts = self.from_hour == midnight_hour(self.first_day, self.zone)
        return starts and (bool(self.preset) or self._ends_at_midnight)

    @property
    def _ends_at_midnight(self) -> bool:
        return self.to_hour == midnight_hour(self.last_day + timedelta(days=1), self.zone)

    @property
    def day_count(self) -> int:
        """Return the number of days that the period touches."""
        return (self.last_day - self.first_day).days + 1

    @property
    def unit(self) -> str:
        """Return the calendar unit of the period (a key of PRESET_OF_UNIT), '' for others."""
        if self.preset:
            return UNIT_OF_PRESET.get(self.preset, "")
        if not self.is_in_days:
            return ""
        after = self.last_day + timedelta(days=1)
        return next(
            (
                unit
                for unit in PRESET_OF_UNIT
                if unit_start(unit, self.first_day) == self.first_day
                and next_unit(unit, self.first_day) == after
            ),
            "",
        )

    @property
    def is_whole_unit(self) -> bool:
        """Return whether the period is a calendar unit from its first to its last hour."""
        if not self.unit:
            return False
        after = next_unit(self.unit, self.first_day)
        return self.to_hour == midnight_hour(after, self.zone)

    @property
    def is_running(self) -> bool:
        """Return whether the period has begun, and its last hour, or more of it, is not over."""
        return self.from_hour <= self.current_hour < self.to_hour

    def measured_part(self, now: int) -> "Period":
        """Return the part until the hour that contains ``now`` (µs). A calendar unit keeps its
        unit; a period of the future is returned unchanged.
        """
        end_hour = now // US_PER_HOUR + 1
        if not self.from_hour < end_hour < self.to_hour:
            return self
        preset = PRESET_OF_UNIT.get(self.unit, "")
        return Period(self.from_hour, end_hour, self.zone, preset, end_hour - 1)

    @property
    def label(self) -> str:
        """Return the period as text: '1 Oct – 20 Nov 2026', 'October 2026', 'Q4 2026', '2026'; with
        times if it does not consist of days, and 'so far' if part of it is in the future.
        """
        if not self.preset and not self.is_in_days:
            return self._label_of_hours
        is_partly_future = self.is_running and self.current_hour < self.to_hour - 1
        return f"{self.label_of_days} so far" if is_partly_future else self.label_of_days

    @property
    def _label_of_hours(self) -> str:
        start, end = local(self.from_hour, self.zone), local(self.to_hour, self.zone)
        if self.first_day == self.last_day:
            return f"{day_text(start.date(), year=True)}, {start:%H:%M}–{end:%H:%M}"
        first = day_text(start.date(), year=start.year != end.year)
        return f"{first} {start:%H:%M} – {day_text(end.date(), year=True)} {end:%H:%M}"

    @property
    def label_of_days(self) -> str:
        """Return the days that the period touches as text."""
        first, last = self.first_day, self.last_day
        if self.is_whole_unit and self.unit != "day":
            quarter = f"Q{(first.month + 2) // 3} {first.year}"
            names = {"month": f"{first:%B} {first.year}", "quarter": quarter}
            return names.get(self.unit, str(first.year))
        if first == last:
            return day_text(first, year=True)
        return f"{day_text(first, year=first.year != last.year)} – {day_text(last, year=True)}"

    @property
    def grain(self) -> str:
        """Return the length of a bar: hour, day or week."""
        return "hour" if self.hours <= 72 else "day" if self.hours <= 60 * 24 + 1 else "week"

    @property
    def time_group(self) -> str:
        """Return the time group that fits into every bar: hour, or ``stretch`` (a day or an
        hour).
        """
        return "hour" if self.grain == "hour" else "stretch"

    def buckets(self) -> list[Bucket]:
        """Return the bars: hours, days in the lab's zone or weeks from Monday.

        The first and the last bar may be shorter.
        """
        edges = [self.from_hour]
        while edges[-1] < self.to_hour:
            edges.append(
                min(self.to_hour, max(edges[-1] + 1, _next_edge(edges[-1], self.grain, self.zone)))
            )
        return [
            _bucket(start, end, self.grain, self.zone, self.current_hour)
            for start, end in itertools.pairwise(edges)
        ]


def running_place(buckets: Sequence[Bucket]) -> int | None:
    """Return the place of the bar that is not over."""
    return next((i for i, bucket in enumerate(buckets) if bucket.is_running), None)


def local(hour: int, zone: ZoneInfo) -> datetime:
    """Return the start of a UTC hour in ``zone``."""
    return datetime.fromtimestamp(hour * 3600, tz=UTC).astimezone(zone)


def day_text(day: date, *, year: bool = False) -> str:
    """Return '1 Oct' or '1 Oct 2026'."""
    return f"{day.day} {day:%b}" + (f" {day.year}" if year else "")


def _next_edge(hour: int, grain: str, zone: ZoneInfo) -> int:
    if grain == "hour":
        return hour + 1
    day = local(hour, zone).date()
    following = day + timedelta(days=1 if grain == "day" else 7 - day.weekday())
    edge = midnight_hour(following, zone)
    return (
        edge
        if edge > hour
        else midnight_hour(following + timedelta(days=1 if grain == "day" else 7), zone)
    )


def _bucket(start: int, end: int, grain: str, zone: ZoneInfo, current_hour: int) -> Bucket:
    moment = local(start, zone)
    day = day_text(moment.date())
    if grain == "hour":
        text, full = f"{moment:%H:%M}", f"{day} {moment:%H:%M}"
    elif grain == "day":
        text, full = day, f"{moment:%a} {day}"
    else:
        text, full = day, f"{day} – {day_text(local(end - 1, zone).date())}"
    is_running = start <= current_hour < max(end, _next_edge(start, grain, zone))
    return Bucket(start, end, text, f"{full} so far" if is_running else full, is_running)


def preset_period(name: str, *, zone: ZoneInfo, now: int) -> Period:
    """Return a preset. It ends with the hour that contains ``now`` (µs)."""
    end = now // US_PER_HOUR + 1
    today = local(end - 1, zone).date()
    starts = {
        "24h": end - 24,
        "7d": midnight_hour(today - timedelta(days=6), zone),
        "30d": midnight_hour(today - timedelta(days=29), zone),
        **{
            preset: midnight_hour(unit_start(unit, today), zone)
            for preset, unit in UNIT_OF_PRESET.items()
        },
    }
    return Period(min(starts[name], end - 1), end, zone, name, end - 1)


def _edge(text: str, field: str, zone: ZoneInfo) -> int:
    """Return the UTC hour of a day (its start in the lab's zone) or of a time (default zone
    UTC).
    """
    hint = "Enter a day as 2026-11-01, or a time in UTC as 2026-11-01T00:00Z."
    try:
        if len(text) == 10:
            hour = midnight_hour(date.fromisoformat(text), zone)
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            hour = int(moment.timestamp()) // 3600
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:40]!r} is not a time.", field=field, hint=hint) from error
    if not 0 <= hour < LAST_HOUR:
        raise InvalidInput(
            f"{text!r} is out of range.", field=field, hint="Choose a year between 1970 and 2300."
        )
    return hour


def hour_of_text(text: str, field: str) -> int:
    """Return the UTC hour of a time."""
    return _edge(text, field, ZoneInfo("UTC"))


def parse_period(
    params: Mapping[str, str], *, zone: ZoneInfo, now: int, default: str = DEFAULT
) -> Period:
    """Return the period of ``from`` and ``to`` (half open) or ``period`` (a preset).

    Without these parameters, return the preset ``default``.
    """
    start, end, preset = params.get("from", ""), params.get("to", ""), params.get("period", "")
    if not start and not end:
        if preset and preset not in PRESETS:
            raise InvalidInput(
                f"{preset[:40]!r} is not a period.",
                field="period",
                hint=f"Use one of {', '.join(PRESETS)}.",
            )
        return preset_period(preset or default, zone=zone, now=now)
    if not start or not end:
        raise InvalidInput(
            "A period needs both from and to.",
            field="to" if start else "from",
            hint="Use ?from=…&to=….",
        )
    period = Period(
        _edge(start, "from", zone),
        _edge(end, "to", zone),
        zone,
        current_hour=now // US_PER_HOUR,
    )
    if period.hours <= 0:
        raise InvalidInput(
            "The period is empty.",
            field="to",
            hint="Choose 'to' after 'from'. The period ends before 'to'.",
        )
    if period.hours > MOST_HOURS:
        raise InvalidInput(
            "The period is longer than 100 years.", field="to", hint="Choose a shorter period."
        )
    return period


def from_days(first: str, last: str) -> str:
    """Return ``from=…&to=…`` for a form's first and last day (both included). Raises
    InvalidInput.
    """
    try:
        start, after = date.fromisoformat(first), date.fromisoformat(last) + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            "A day is missing or invalid.", field="first_day", hint="Choose a first and a last day."
        ) from error
    if after <= start:
        raise InvalidInput(
            "The last day is before the first.",
            field="last_day",
            hint=f"Choose {start.isoformat()} or a later day.",
        )
    return urlencode({"from": start.isoformat(), "to": after.isoformat()})


def lab_query(lab: Lab, period: Period, metric: str = "energy_mj") -> FigureQuery:
    """Return the query of the whole lab over a period."""
    return FigureQuery(
        metric=metric,
        from_hour=period.from_hour,
        to_hour=period.to_hour,
        basis=lab.basis,
        profile=lab.profile,
    )
