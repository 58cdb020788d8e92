"""What forms of dated facts say: since when."""

from collections.abc import Mapping
from datetime import date, datetime, time

from apps.core.days import midnight_hour
from apps.core.errors import InvalidInput
from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import Visitor


def always(data: Mapping[str, str]) -> bool:
    """Return whether a fact was always so, rather than from a date on; the two are never guessed from one another."""
    when = data.get("when", "")
    if when not in {"always", "from"}:
        raise InvalidInput(
            "Say since when: from a date on, or always.", field="when", hint="Choose one of the two above the date."
        )
    return when == "always"


def from_us(data: Mapping[str, str], visitor: Visitor) -> int:
    """Return the begin (µs) of the whole UTC hour that a day, and a time if there is one, name in the lab's zone.

    Midnight in a zone off the hour is the next whole UTC hour, as for days everywhere; any other time the hour it is in.
    """
    try:
        day = date.fromisoformat(data.get("from_day", ""))
        clock = time.fromisoformat(data.get("from_time", "") or "00:00")
        if clock == time():
            hour = midnight_hour(day, visitor.zone)
        else:
            hour = int(datetime.combine(day, clock.replace(tzinfo=None), visitor.zone).timestamp()) // 3600
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            "The day is missing or no day.", field="from_day", hint="Choose the first day it holds, and a time as 14:00."
        ) from error
    return hour * US_PER_HOUR
