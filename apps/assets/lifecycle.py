"""The entries of a life: which hold, whether they can have been, and where they leave the asset. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.assets.choices import OPENING, AssetState, EventKind
from apps.core.units import END_HOUR


@dataclass(frozen=True)
class Event:
    """A standing event as the calculation takes it. ``total_ug``: what it brings (None: nothing), or how much its end of
    life really was. ``project_id``: new owner or borrower, None the lab (or somebody outside). ``low_ug``, ``high_ug``,
    ``figure_id``: the range of what it brings, and the catalogue's figure behind it."""

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


def active_events(events: Sequence[tuple[Event, int | None]]) -> list[Event]:
    """Return the events that hold, in order of time (within an hour the opening first).

    ``events`` are (event, id of the one it reverses or None); a reversal may be reversed itself.
    """
    reversed_by = {target: event.id for event, target in events if target is not None}

    def holds(event_id: int) -> bool:
        undoing = reversed_by.get(event_id)
        return undoing is None or not holds(undoing)

    active = [event for event, target in events if target is None and holds(event.id)]
    return sorted(active, key=lambda event: (event.hour, event.kind not in OPENING, event.id))


def wrong(events: Sequence[Event]) -> str:
    """Return what is wrong with a history of standing events, '' if nothing is."""
    if not events or events[0].kind not in OPENING:
        return "A life begins with being bought: no entry may stand before it."
    lent = over = False
    for event in events[1:]:
        if over:
            return "Nothing happens to what was disposed of: reverse that entry first."
        match event.kind:
            case EventKind.PURCHASE | EventKind.SECOND_HAND:
                return "It was bought once: reverse the first entry to correct it."
            case EventKind.LEND if lent:
                return "It was lent at that time already: record first that it came back."
            case EventKind.RETURN if not lent:
                return "It was not lent at that time."
            case EventKind.LIFE_CHANGE | EventKind.REPURPOSE if (event.life_end_hour or END_HOUR) <= event.hour:
                return "A life ends after it was changed."
        lent = event.kind == EventKind.LEND or (lent and event.kind != EventKind.RETURN)
        over = event.kind == EventKind.DISPOSE
    return ""


def state_of(events: Sequence[Event]) -> AssetState:
    """Return where a life stands after its last event."""
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
