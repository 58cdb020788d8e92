"""What forms choose from a list of the lab's: a site, a machine."""

from collections.abc import Mapping
from datetime import date, datetime, time
from uuid import UUID

from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour
from apps.core.text import parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import Visitor
from apps.fleet.models import Node, Site
from apps.fleet.selectors import node_of, site_of


def required_site(data: Mapping[str, str], visitor: Visitor) -> Site:
    """Return the lab's site that a form names in ``site``. Raises InvalidInput where it names none."""
    number = parse_record_number(data.get("site", ""))
    site = None if number is None else site_of(visitor.lab, number)
    if site is None:
        raise InvalidInput("There is no such site in your lab.", field="site", hint="Choose one of the list.")
    return site


def optional_site(data: Mapping[str, str], visitor: Visitor) -> Site | None:
    """Return the lab's site that a form names in ``site``, None for nothing chosen."""
    return required_site(data, visitor) if data.get("site") else None


def optional_node(data: Mapping[str, str], visitor: Visitor) -> Node | None:
    """Return the lab's machine that a form names in ``node``, None for nothing chosen."""
    text = data.get("node", "")
    if not text:
        return None
    try:
        node = node_of(visitor.lab, UUID(text))
    except ValueError:
        node = None
    if node is None:
        raise InvalidInput("There is no such machine in your lab.", field="node", hint="Choose one of the list, or none.")
    return node


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
