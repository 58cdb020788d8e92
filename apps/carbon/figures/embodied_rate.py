"""Rate at which embodied carbon is charged at an hour, and the event that determines it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.assets.amortisation import Charge, embodied_total_ug
from apps.assets.choices import OPENING, STARTING, Amortisation, EventKind
from apps.assets.lifecycle import Event, is_weightless


@dataclass(frozen=True)
class Rate:
    """``balance_ug`` is spread evenly over ``[from_hour, to_hour)`` since event ``event_id``."""

    event_id: int
    balance_ug: int
    from_hour: int
    to_hour: int

    def over(self, from_hour: int, to_hour: int) -> int:
        """Return the part of the balance in ``[from_hour, to_hour)``."""
        length = self.to_hour - self.from_hour
        low, high = (min(max(hour - self.from_hour, 0), length) for hour in (from_hour, to_hour))
        return self.balance_ug * high // length - self.balance_ug * low // length


def rate_at(events: Sequence[Event], charges: Iterable[Charge], hour: int) -> Rate | None:
    """Return the rate in ``hour`` from active events and charges. None outside the service life.

    The balance is the embodied carbon less the charges before the event. By use (SCI), the amount
    for unused time before a repair stays outside it.
    """
    spreads = _Spreads(events, list(charges))
    for event in events:
        if event.hour > hour or event.kind == EventKind.DISPOSE:
            break
        if not is_weightless(event):
            spreads.apply(event)
    rate = spreads.rate
    return None if rate is None or hour >= rate.to_hour else rate


class _Spreads:
    """The rate after each event of a history."""

    def __init__(self, events: Sequence[Event], charges: Sequence[Charge]) -> None:
        self.rate: Rate | None = None
        self._events, self._charges = events, charges
        self._life_hours, self._linear = 0, True

    def apply(self, event: Event) -> None:
        was_linear = self._linear
        changes_life = event.kind in (EventKind.LIFE_CHANGE, EventKind.REPURPOSE)
        end_hour = (event.life_end_hour or 0) if changes_life else 0
        if event.kind in OPENING or (changes_life and event.amortisation):
            self._linear = event.amortisation != Amortisation.SCI
        if event.kind in OPENING:
            self._life_hours = event.life_hours or 0
        elif self.rate is None:
            if end_hour:
                self._life_hours = max(1, end_hour - event.hour)
            if event.kind in STARTING:
                self._spread(event, event.hour + max(1, self._life_hours))
        elif end_hour > event.hour:
            self._spread(event, end_hour)
        elif self.rate.to_hour > event.hour and (self._linear or was_linear):
            self._spread(event, self.rate.to_hour)  # linear: each event restarts the spread
        elif self.rate.to_hour > event.hour and event.kind == EventKind.REPAIR:
            left_ug = self.rate.over(event.hour, self.rate.to_hour) + (event.total_ug or 0)
            self.rate = Rate(event.id, left_ug, event.hour, self.rate.to_hour)

    def _spread(self, event: Event, end_hour: int) -> None:
        before = [
            each
            for each in self._events
            if each.hour <= event.hour and each.kind != EventKind.DISPOSE
        ]
        charged_ug = sum(charge.within(0, event.hour) for charge in self._charges)
        balance_ug = embodied_total_ug(before) - charged_ug
        self.rate = Rate(event.id, balance_ug, event.hour, end_hour)
