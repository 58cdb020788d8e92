"""Filters, order and columns of the list of runs, as they are in its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet
from django.http import QueryDict

from apps.accounts.models import Lab
from apps.carbon.figures.run_table_query import COST
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import Forbidden, InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import is_unstorable
from apps.core.units import US_PER_HOUR
from apps.dashboard.periods import LAST_HOUR, MOST_HOURS, Period, parse_period
from apps.dashboard.runs.table_columns import SHOWN_BY_DEFAULT, TABLE_COLUMNS
from apps.dashboard.runs.table_sorts import DEFAULT_SORT, GROUPS, SORTS, is_sort
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from apps.runs.selectors import active_in, runs_of

MOST_COLUMNS = 8
MOST_OPEN = 20
NO_VALUE = "~none"


def metric_columns(text: str) -> list[str]:
    """Return the names of a comma-separated list, each once. Raises InvalidInput for more than
    MOST_COLUMNS.
    """
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(
            f"At most {MOST_COLUMNS} columns, not {len(names)}.",
            field="columns",
            hint="Remove some.",
        )
    return names


FILTERS = (
    "project",
    "state",
    "text",
    "host",
    "intent",
    "sweep",
    "period",
    "from",
    "to",
    "params",
    "mine",
    "person",
    "columns",
    "clip",
)


@dataclass(frozen=True)
class Clip:
    """The whole UTC hours to which the energy of runs is limited. None: open."""

    from_hour: int | None
    to_hour: int | None

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of ``[start, end)``, empty where they do not overlap."""
        start = start if self.from_hour is None else max(start, self.from_hour)
        end = end if self.to_hour is None else min(end, self.to_hour)
        return start, max(start, end)


def runs_filtered(
    lab: Lab, params: Mapping[str, str], visibility: Visibility, now: int
) -> tuple[QuerySet[Run], dict[str, str]]:
    """Return the filtered runs and the filters. Days take precedence over a preset. Raises
    InvalidInput and Forbidden.
    """
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if is_unstorable("".join(filters.values())):
        raise InvalidInput("Invalid character in filter.", field="text", hint="Remove it.")
    for name, allowed in (("state", RunState.values), ("intent", Intent.values)):
        if filters[name] and filters[name] not in allowed:
            hint = f"Use one of {', '.join(allowed)}."
            raise InvalidInput(f"Invalid {name}: {filters[name][:40]!r}.", field=name, hint=hint)
    if filters["from"] or filters["to"]:
        filters["period"] = ""
    from_us, to_us = span_us(lab, filters, now)
    runs = runs_of(
        lab,
        project=filters["project"],
        state=filters["state"],
        text=filters["text"],
        host=filters["host"],
        intent=filters["intent"],
        sweep="" if filters["sweep"] == NO_VALUE else filters["sweep"],
        person=""
        if filters["person"] == NO_VALUE
        else member_name(lab, filters["person"], visibility),
        from_us=None if filters["clip"] else from_us,
        to_us=None if filters["clip"] else to_us,
        params=_parse_params(filters["params"]),
    )
    if filters["clip"]:
        if from_us is None and to_us is None:
            raise InvalidInput(
                "Energy can be limited to a period only if there is one.",
                field="clip",
                hint="Select a period.",
            )
        runs = active_in(runs, from_us, to_us)
    if filters["mine"]:
        runs = runs.filter(
            Q(user_id=visibility.person_id) | Q(charged_person_id=visibility.person_id)
        )
    if filters["sweep"] == NO_VALUE:
        runs = runs.filter(sweep="")
    if filters["person"] == NO_VALUE:
        runs = runs.filter(charged_person=None, user=None)
    return runs, filters


def member_name(lab: Lab, username: str, visibility: Visibility) -> str:
    """Return the account name of a member whose runs the visitor may list, '' for no filter."""
    if not username:
        return ""
    person = lab.memberships.filter(user__username=username).values_list("user_id", flat=True)
    if visibility.everybody and not person:
        raise InvalidInput(
            f"There is no person {username[:60]!r} in this lab.",
            field="person",
            hint="Use the account name of a member.",
        )
    if not person or not visibility.of_person(person[0]):
        raise Forbidden(
            "The runs of another person cannot be listed by name in this lab.",
            hint="Remove the filter by person, or select your own runs.",
        )
    return username


@dataclass(frozen=True)
class TableView:
    """How the list is shown: columns in order, sort order (name, '-' first: descending), group,
    and the keys of open groups.
    """

    show: tuple[str, ...] = SHOWN_BY_DEFAULT
    sort: str = DEFAULT_SORT
    group: str = ""
    open_groups: tuple[str, ...] = ()

    @property
    def sort_name(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def has_costs(self) -> bool:
        """Return whether costs are shown or define the order."""
        return COST in (*self.show, self.sort_name)

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")


def table_view(params: QueryDict) -> TableView:
    """Return the view of an address. Raises InvalidInput."""
    show, opened = params.getlist("show"), params.getlist("open")[:MOST_OPEN]
    sort, group = params.get("sort", "") or DEFAULT_SORT, params.get("group", "")
    if is_unstorable("".join((*show, *opened, sort, group))):
        raise InvalidInput("Invalid character in address.", field="sort", hint="Remove it.")
    if unknown := [name for name in show if name not in TABLE_COLUMNS]:
        raise InvalidInput(
            f"Unknown column: {unknown[0][:40]!r}.",
            field="show",
            hint=f"Use one of {', '.join(TABLE_COLUMNS)}.",
        )
    if group and group not in GROUPS:
        raise InvalidInput(
            f"Unknown group: {group[:40]!r}.",
            field="group",
            hint=f"Use one of {', '.join(GROUPS)}.",
        )
    if not is_sort(sort.removeprefix("-")):
        raise InvalidInput(
            f"Invalid sort order: {sort[:40]!r}.",
            field="sort",
            hint=f"Use one of {', '.join(SORTS)}, metric:<name>; - first: descending.",
        )
    columns = tuple(name for name in TABLE_COLUMNS if name in show) if show else SHOWN_BY_DEFAULT
    return TableView(columns, sort, group, tuple(opened))


def view_query(filters: Mapping[str, str], view: TableView) -> list[tuple[str, str]]:
    """Return the pairs of an address of the list, without defaults."""
    pairs = [(name, value) for name, value in filters.items() if value]
    if view.sort != DEFAULT_SORT:
        pairs.append(("sort", view.sort))
    if view.show != SHOWN_BY_DEFAULT:
        pairs += [("show", name) for name in view.show]
    if view.group:
        pairs.append(("group", view.group))
        pairs += [("open", key) for key in view.open_groups]
    return pairs


def clip_of(lab: Lab, filters: Mapping[str, str], now: int) -> Clip | None:
    """Return the period to which the filters limit the energy of runs, None for whole runs."""
    if not filters["clip"]:
        return None
    from_us, to_us = span_us(lab, filters, now)
    return Clip(_whole_hour(from_us), _whole_hour(to_us))


def span_us(lab: Lab, filters: Mapping[str, str], now: int) -> tuple[int | None, int | None]:
    """Return the moments ``[from, to)`` of ``from`` and ``to`` (days, both included, or times), or
    of the preset ``period``. None: open. Raises InvalidInput.
    """
    zone = ZoneInfo(lab.time_zone)
    if filters["period"] and not (filters["from"] or filters["to"]):
        period = parse_period({"period": filters["period"]}, zone=zone, now=now)
        return period.from_hour * US_PER_HOUR, period.to_hour * US_PER_HOUR
    from_us = _day_us(filters["from"], "from", zone)
    return from_us, _day_us(filters["to"], "to", zone, after=True)


def listed_period(lab: Lab, filters: Mapping[str, str], now: int) -> Period | None:
    """Return the period of the filters as other pages have it, None if they have none or one with
    an open end.
    """
    zone = ZoneInfo(lab.time_zone)
    if filters["period"] and not (filters["from"] or filters["to"]):
        return parse_period({"period": filters["period"]}, zone=zone, now=now)
    from_hour, to_hour = (_whole_hour(moment) for moment in span_us(lab, filters, now))
    if from_hour is None or to_hour is None or not 0 <= from_hour < to_hour < LAST_HOUR:
        return None
    return Period(from_hour, to_hour, zone) if to_hour - from_hour <= MOST_HOURS else None


def _whole_hour(moment_us: int | None) -> int | None:
    """Return the first whole UTC hour from a moment on, as for the days of all periods."""
    return None if moment_us is None else -(-moment_us // US_PER_HOUR)


def _day_us(text: str, name: str, zone: ZoneInfo, *, after: bool = False) -> int | None:
    """Return the start of a day in the lab's time zone; ``after``: of the next day. A time stamp
    is returned unchanged.
    """
    if not text:
        return None
    try:
        if "T" in text:
            return datetime_to_us(datetime.fromisoformat(text).astimezone(UTC))
        day = date.fromisoformat(text) + timedelta(days=1 if after else 0)
        return datetime_to_us(datetime(day.year, day.month, day.day, tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"Invalid day: {text[:40]!r}.", field=name, hint="Example: 2026-11-02."
        ) from error


def _parse_params(text: str) -> dict[str, str]:
    """Return ``lr=0.1, depth=3`` as a mapping."""
    params = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, value = part.partition("=")
        if part and not (equals and name.strip()):
            raise InvalidInput(
                f"Invalid parameter filter: {part[:40]!r}.",
                field="params",
                hint="Example: lr=0.1, depth=3.",
            )
        if part:
            params[name.strip()] = value.strip()
    if len(params) > MOST_COLUMNS:
        raise InvalidInput(
            f"At most {MOST_COLUMNS} parameters, not {len(params)}.",
            field="params",
            hint="Remove some.",
        )
    return params
