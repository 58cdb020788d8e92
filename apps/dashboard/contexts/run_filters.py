"""What a visitor asks of the list of runs: filters, sort and days, as the address writes them."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Sight
from apps.core.errors import InvalidInput
from apps.core.intervals import us_of
from apps.core.text import unstorable
from apps.dashboard.contexts.run_columns import MOST_COLUMNS
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from apps.runs.selectors import SORTS, runs_of

FILTERS = ("project", "state", "text", "host", "intent", "sweep", "from", "to", "params", "mine", "columns")


def runs_filtered(lab: Lab, params: Mapping[str, str], sight: Sight) -> tuple[QuerySet[Run], dict[str, str]]:
    """Return the runs that ``params`` ask for, in their order, and the filters as understood. Raises InvalidInput."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if unstorable("".join(filters.values())):
        raise InvalidInput("A filter holds a NUL.", field="text", hint="Leave it out.")
    for name, known in (("state", RunState.values), ("intent", Intent.values)):
        if filters[name] and filters[name] not in known:
            hint = f"Use one of {', '.join(known)}."
            raise InvalidInput(f"{filters[name][:40]!r} is not known as {name}.", field=name, hint=hint)
    sort = params.get("sort", "-started")
    column = sort.removeprefix("-")
    if column not in SORTS:
        known_sorts = ", ".join(SORTS)
        raise InvalidInput(
            f"{sort[:40]!r} is not a sort.", field="sort", hint=f"Use one of {known_sorts}, with - for descending."
        )
    zone = ZoneInfo(lab.time_zone)
    found = runs_of(
        lab,
        project=filters["project"],
        state=filters["state"],
        text=filters["text"],
        host=filters["host"],
        intent=filters["intent"],
        sweep=filters["sweep"],
        from_us=_day_us(filters["from"], "from", zone),
        to_us=_day_us(filters["to"], "to", zone, after=True),
        params=_asked_params(filters["params"]),
    )
    if filters["mine"]:
        found = found.filter(Q(user_id=sight.person_id) | Q(charged_person_id=sight.person_id))
    return found.order_by(("-" if sort.startswith("-") else "") + SORTS[column], "-id"), {**filters, "sort": sort}


def _day_us(text: str, name: str, zone: ZoneInfo, *, after: bool = False) -> int | None:
    """Return the begin of a day in the lab's zone; ``after``: of the day after it. A moment with an hour is itself."""
    if not text:
        return None
    try:
        if "T" in text:
            return us_of(datetime.fromisoformat(text).astimezone(UTC))
        day = date.fromisoformat(text) + timedelta(days=1 if after else 0)
        return us_of(datetime(day.year, day.month, day.day, tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:40]!r} is no day.", field=name, hint="Write it like 2026-11-02.") from error


def _asked_params(text: str) -> dict[str, str]:
    """Return ``lr=0.1, depth=3`` as a mapping."""
    asked = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, value = part.partition("=")
        if part and not (equals and name.strip()):
            raise InvalidInput(f"{part[:40]!r} is no parameter.", field="params", hint="Write them like lr=0.1, depth=3.")
        if part:
            asked[name.strip()] = value.strip()
    if len(asked) > MOST_COLUMNS:
        raise InvalidInput(f"{len(asked)} parameters are more than {MOST_COLUMNS}.", field="params", hint="Leave some out.")
    return asked
