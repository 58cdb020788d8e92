"""Lifecycle events: which are active, whether they are consistent, and the resulting state of
the asset. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.assets.choices import OPENING, WEIGHTLESS, AssetState, EventKind
from apps.core.units import END_HOUR


@dataclass(frozen=True)
class Event:
    """An active event as input of the calculation.

    ``total_ug``: its embodied carbon (None: none), at disposal the actual end-of-life emissions.
    ``project_id``: new owner or borrower. None is the lab, or a borrower outside the lab.
    ``low_ug``, ``high_ug``, ``figure_id``: range and source figure of the embodied carbon.
    """

    id: int
    hour: int
    kind: str
    total_ug: int | None = None
    end_of_life_ug: int | None = None
    includes_end_of_life: bool | None = None
    life_hours: int | None = None
    life_end_hour: int | None = None
    amortisation: str = ""
    project_id: int | None = None
    low_ug: int | None = None
    high_ug: int | None = None
    figure_id: int | None = None


def is_weightless(event: Event) -> bool:
    """Return whether an event changes no figure, such as a move or a repair without embodied
    carbon.
    """
    return event.kind in WEIGHTLESS or (event.kind == EventKind.REPAIR and not event.total_ug)


def last_of_chain(event_id: int, reversed_by: Mapping[int, int]) -> int:
    """Return what is reversed next to end or restore an event: the last reversal of its chain,
    else the event itself. ``reversed_by``: event → its reversal.
    """
    while event_id in reversed_by:
        event_id = reversed_by[event_id]
    return event_id


def is_active(event_id: int, reversed_by: Mapping[int, int]) -> bool:
    """Return whether an event counts: it is not reversed, or its reversal is reversed."""
    reversal = reversed_by.get(event_id)
    return reversal is None or not is_active(reversal, reversed_by)


def active_events(events: Sequence[tuple[Event, int | None]]) -> list[Event]:
    """Return the active events in order of time (within an hour the purchase first).

    ``events`` are (event, id of the event it reverses or None). A reversal can be reversed itself.
    """
    reversed_by = {target: event.id for event, target in events if target is not None}
    active = [
        event for event, target in events if target is None and is_active(event.id, reversed_by)
    ]
    return sorted(active, key=lambda event: (event.hour, event.kind not in OPENING, event.id))


def wrong(events: Sequence[Event]) -> str:
    """Return the error in a history of active events, '' if there is none."""
    if not events or events[0].kind not in OPENING:
        return (
            "This event is earlier than the purchase. Choose a later date, or correct the purchase."
        )
    lent = over = False
    for event in events[1:]:
        if over:
            return "The asset is disposed of. Reverse the disposal first."
        match event.kind:
            case EventKind.PURCHASE | EventKind.SECOND_HAND | EventKind.LEASE:
                return "The asset has a purchase already. Correct the existing purchase instead."
            case EventKind.LEND if lent:
                return "The asset is already lent at that time. Record its return first."
            case EventKind.RETURN if not lent:
                return "The asset is not lent at that time."
            case EventKind.LIFE_CHANGE | EventKind.REPURPOSE if (
                event.life_end_hour or END_HOUR
            ) <= event.hour:
                return "The planned end is not after the date of the change. Choose a later end."
        lent = event.kind == EventKind.LEND or (lent and event.kind != EventKind.RETURN)
        over = event.kind == EventKind.DISPOSE
    return ""


def state_of(events: Sequence[Event]) -> AssetState:
    """Return the state after the last event."""
    state = AssetState.STOCK
    for event in events:
        match event.kind:
            case EventKind.DEPLOY | EventKind.RETURN | EventKind.REPURPOSE:
                state = AssetState.USE
            case EventKind.LEND:
                state = AssetState.LENT
            case EventKind.RETIRE:
                state = AssetState.RETIRED
            case EventKind.DISPOSE:
                state = AssetState.DISPOSED
    return state
