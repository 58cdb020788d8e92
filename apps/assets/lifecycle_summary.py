"""Summarise the lifecycle events of an asset. Pure.

The summary is stored with the asset, so that sums over many assets do not read events.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from apps.assets.amortisation import embodied_total_ug
from apps.assets.choices import OPENING, STARTING, EventKind
from apps.assets.lifecycle import Event


@dataclass(frozen=True)
class LifecycleSummary:
    """Embodied carbon of an asset's events, µg, and the hours of its service life.

    ``embodied_total_ug`` None: unknown. ``embodied_at_least``: the initial embodied carbon is
    unknown, later amounts are known. ``figure_id``: catalogue figure of the embodied carbon.
    ``bought_hour`` None: no events. ``in_use_hour``, ``life_end_hour`` None: not put into use.
    ``complete_until_hour``: hour after the last event. The summary holds from this hour on.
    """

    embodied_total_ug: int | None = None
    embodied_low_ug: int = 0
    embodied_high_ug: int = 0
    embodied_at_least: bool = False
    figure_id: int | None = None
    bought_hour: int | None = None
    in_use_hour: int | None = None
    life_end_hour: int | None = None
    disposed_hour: int | None = None
    complete_until_hour: int = 0


SUMMARY_FIELDS = tuple(field.name for field in fields(LifecycleSummary))


def summarise_lifecycle(events: Sequence[Event]) -> LifecycleSummary:
    """Return the summary of active events, which are in order."""
    if not events:
        return LifecycleSummary()
    opening = next((event for event in events if event.kind in OPENING), None)
    bringing = [
        event for event in events if event.kind in OPENING or event.kind == EventKind.REPAIR
    ]
    known_totals = [event.total_ug for event in bringing if event.total_ug is not None]
    actual = embodied_total_ug(events) - sum(known_totals)  # actual end of life less its estimate
    known = bool(known_totals) or actual != 0
    in_use = next((event.hour for event in events if event.kind in STARTING), None)
    return LifecycleSummary(
        embodied_total_ug=sum(known_totals) + actual if known else None,
        embodied_low_ug=sum(_first_known(event.low_ug, event.total_ug) for event in bringing)
        + actual,
        embodied_high_ug=sum(_first_known(event.high_ug, event.total_ug) for event in bringing)
        + actual,
        embodied_at_least=known and (opening is None or opening.total_ug is None),
        figure_id=opening.figure_id if opening else None,
        bought_hour=opening.hour if opening else None,
        in_use_hour=in_use,
        life_end_hour=None if in_use is None else _planned_end(events, in_use, opening),
        disposed_hour=next(
            (event.hour for event in events if event.kind == EventKind.DISPOSE), None
        ),
        complete_until_hour=events[-1].hour + 1,
    )


def _first_known(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)


def _planned_end(events: Sequence[Event], in_use_hour: int, opening: Event | None) -> int:
    """Return the planned end of the service life.

    An end that was set before the first use defines the length of the life from then on, not its
    end.
    """
    changes = (EventKind.LIFE_CHANGE, EventKind.REPURPOSE)
    planned_ends = [(event.hour, event.life_end_hour) for event in events if event.kind in changes]
    last = next(((hour, end) for hour, end in reversed(planned_ends) if end is not None), None)
    if last is None:
        return in_use_hour + max(1, opening.life_hours or 0 if opening else 0)
    hour, end = last
    return end if in_use_hour <= hour else in_use_hour + max(1, end - hour)
