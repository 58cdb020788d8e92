"""The period of a page: whole UTC hours, selected as days in the lab's zone.

Pure: the current time is an argument.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import FigureQuery, iso_hour
from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR

PRESETS = {"24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days", "year": "This year"}
DEFAULT = "30d"
YOUNG_US = 72 * US_PER_HOUR


def default_preset(lab_created_us: int, now: int) -> str:
    """Return the default preset. A lab in its first three days gets hourly bars."""
    return "24h" if now - lab_created_us < YOUNG_US else DEFAULT


@dataclass(frozen=True)
class Bucket:
    """A bar of a chart: ``[from_hour, to_hour)`` with its labels in the lab's zone."""

    from_hour: int
    to_hour: int
    label: str
    full_label: str


@dataclass(frozen=True)
class Period:
    """``[from_hour, to_hour)`` in whole UTC hours, displayed in the lab's ``zone``.

    ``preset`` is '' for a fixed period.
    """

    from_hour: int
    to_hour: int
    zone: ZoneInfo
    preset: str = ""

    @property
    def hours(self) -> int:
        return self.to_hour - self.from_hour

    @property
    def days(self) -> int:
        return max(1, round(self.hours / 24))

    @property
    def query(self) -> str:
        """Return the query string of this period."""
        if self.preset:
            return urlencode({"period": self.preset})
        return urlencode({"from": iso_hour(self.from_hour), "to": iso_hour(self.to_hour)})

    @property
    def first_day(self) -> date:
        return local(self.from_hour, self.zone).date()

    @property
    def last_day(self) -> date:
        return local(self.to_hour - 1, self.zone).date()

    @property
    def label(self) -> str:
        """Return the days as text: '1 Oct – 20 Nov 2026'."""
        first, last = self.first_day, self.last_day
        if first == last:
            return day_text(first, year=True)
        return f"{day_text(first, year=first.year != last.year)} – {day_text(last, year=True)}"

    @property
    def before(self) -> "Period":
        """Return the previous period of the same length."""
        return Period(self.from_hour - self.hours, self.from_hour, self.zone)

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
            _bucket(start, end, self.grain, self.zone) for start, end in itertools.pairwise(edges)
        ]


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


def _bucket(start: int, end: int, grain: str, zone: ZoneInfo) -> Bucket:
    moment = local(start, zone)
    if grain == "hour":
        return Bucket(start, end, f"{moment:%H:%M}", f"{day_text(moment.date())} {moment:%H:%M}")
    text = day_text(moment.date())
    full = text if grain == "day" else f"{text} – {day_text(local(end - 1, zone).date())}"
    return Bucket(start, end, text, f"{moment:%a} {full}" if grain == "day" else full)


def preset_period(name: str, *, zone: ZoneInfo, now: int) -> Period:
    """Return a preset. It ends with the hour that contains ``now`` (µs)."""
    end = now // US_PER_HOUR + 1
    today = local(end - 1, zone).date()
    starts = {
        "24h": end - 24,
        "7d": midnight_hour(today - timedelta(days=6), zone),
        "30d": midnight_hour(today - timedelta(days=29), zone),
        "year": midnight_hour(date(today.year, 1, 1), zone),
    }
    return Period(min(starts[name], end - 1), end, zone, name)


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
    if not 0 <= hour < 3_000_000:
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
    period = Period(_edge(start, "from", zone), _edge(end, "to", zone), zone)
    if period.hours <= 0:
        raise InvalidInput(
            "The period is empty.",
            field="to",
            hint="Choose 'to' after 'from'. The period ends before 'to'.",
        )
    if period.hours > 100 * 366 * 24:
        raise InvalidInput(
            "The period is longer than 100 years.", field="to", hint="Choose a shorter period."
        )
    return period


def from_days(first: str, last: str) -> str:
    """Return ``from=…&to=…`` for a form's first and last day (both included)."""
    try:
        after = date.fromisoformat(last) + timedelta(days=1)
        return urlencode({"from": date.fromisoformat(first).isoformat(), "to": after.isoformat()})
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            "A day is missing or invalid.", field="first_day", hint="Choose a first and a last day."
        ) from error


def lab_query(lab: Lab, period: Period, metric: str = "energy_mj") -> FigureQuery:
    """Return the query of the whole lab over a period."""
    return FigureQuery(
        metric=metric,
        from_hour=period.from_hour,
        to_hour=period.to_hour,
        basis=lab.basis,
        profile=lab.profile,
    )
