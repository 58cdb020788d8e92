"""Where a node stood when, and what moving it would change."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.nodes.effects import Effect
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Placement, Site
from apps.fleet.selectors import sites_of, stays_of


@dataclass(frozen=True)
class StayRow:
    """A node at a site, ``when`` past, now or future. ``from_us`` None: from the beginning; ``to_us`` None: open.

    ``undoable``: it is the latest move, and may be withdrawn.
    """

    placement: Placement
    from_us: int | None
    to_us: int | None
    when: str
    undoable: bool

    @property
    def site(self) -> Site:
        return self.placement.site


def stay_rows(node: Node, now: int) -> list[StayRow]:
    """Return where a node stood, stands and will stand, newest first. One query."""
    stays = stays_of(node)
    hour = hour_of(now)
    rows = []
    for i, stay in enumerate(stays):
        past = stay.to_hour is not None and stay.to_hour <= hour
        rows.append(
            StayRow(
                stay.placement,
                stay.from_hour * US_PER_HOUR or None,
                None if stay.to_hour is None else stay.to_hour * US_PER_HOUR,
                "past" if past else "now" if stay.from_hour <= hour else "future",
                0 < i == len(stays) - 1,
            )
        )
    return rows[::-1]


@dataclass(frozen=True)
class MovePage:
    """A node's places, the form, and (once asked) what the answer would change."""

    node: Node
    stays: list[StayRow]
    sites: list[Site]
    declared: bool
    effect: Effect | None


def move_page(*, lab: Lab, node: Node, effect: Effect | None, now: int) -> MovePage:
    """Return the page on which a node is moved."""
    stays = stay_rows(node, now)
    declared = any(stay.site.kind == SiteKind.DECLARED for stay in stays)
    return MovePage(node, stays, list(sites_of(lab)), declared, effect)
