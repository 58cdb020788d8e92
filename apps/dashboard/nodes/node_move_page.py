"""The sites of a node over time, and the effect of moving it."""

from dataclasses import dataclass

from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.nodes.change_preview import Effect
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Placement, Site
from apps.fleet.selectors import stays_of


@dataclass(frozen=True)
class StayRow:
    """A node at a site, ``when`` past, now or future. ``from_us`` None: from the beginning;
    ``to_us`` None: open.

    ``undoable``: it is the latest move, which can be withdrawn.
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
    """Return the past, current and planned sites of a node, newest first. One query."""
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
    """The sites of a node over time, and the effect of the previewed move."""

    node: Node
    stays: list[StayRow]
    declared: bool
    effect: Effect | None


def move_page(*, node: Node, effect: Effect | None, now: int) -> MovePage:
    """Return the page on which a node is moved. One query."""
    stays = stay_rows(node, now)
    declared = any(stay.site.kind == SiteKind.DECLARED for stay in stays)
    return MovePage(node, stays, declared, effect)
