"""What forms choose from a list of the lab's: a site, a machine."""

from collections.abc import Mapping
from uuid import UUID

from apps.core.errors import InvalidInput
from apps.core.text import number_of
from apps.dashboard.decorators import Visitor
from apps.fleet.models import Node, Site
from apps.fleet.selectors import node_of, site_of


def chosen_site(data: Mapping[str, str], visitor: Visitor) -> Site:
    """Return the lab's site that a form names in ``site``. Raises InvalidInput where it names none."""
    number = number_of(data.get("site", ""))
    site = None if number is None else site_of(visitor.lab, number)
    if site is None:
        raise InvalidInput("There is no such site in your lab.", field="site", hint="Choose one of the list.")
    return site


def site_if_chosen(data: Mapping[str, str], visitor: Visitor) -> Site | None:
    """Return the lab's site that a form names in ``site``, None for nothing chosen."""
    return chosen_site(data, visitor) if data.get("site") else None


def node_if_chosen(data: Mapping[str, str], visitor: Visitor) -> Node | None:
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
