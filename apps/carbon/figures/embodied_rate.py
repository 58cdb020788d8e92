"""Rate at which embodied carbon is charged at an hour, and the event that determines it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.assets.amortisation import Charge, embodied_total_ug
from apps.assets.choices import OPENING, WEIGHTLESS, Amortisation, EventKind
from apps.assets.lifecycle import Event


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

    The balance is the embodied carbon less the charges before the event.
    """
    anchor: Event | None = None
    life_hours = end_hour = 0
    linear = True
    for event in events:
        if event.hour > hour or event.kind == EventKind.DISPOSE:
            break
        if event.kind in WEIGHTLESS:
            continue
        if event.kind in OPENING:
            life_hours, linear = event.life_hours or 0, event.amortisation != Amortisation.SCI
        elif event.kind == EventKind.DEPLOY and anchor is None:
            anchor, end_hour = event, event.hour + max(1, life_hours)
        elif event.kind in (EventKind.LIFE_CHANGE, EventKind.REPURPOSE):
            linear = event.amortisation != Amortisation.SCI if event.amortisation else linear
            life_end_hour = event.life_end_hour or end_hour
            if anchor is None:
                life_hours = (
                    max(1, life_end_hour - event.hour) if event.life_end_hour else life_hours
                )
            elif life_end_hour > event.hour:
                anchor, end_hour = event, life_end_hour
            elif end_hour > event.hour and linear:
                anchor = event  # a past end changes no end, but restarts the spread of the balance
        elif (
            anchor is not None
            and end_hour > event.hour
            and (linear or event.kind == EventKind.REPAIR)
        ):
            anchor = event  # linear: each event restarts the spread of the balance
    if anchor is None or hour >= end_hour:
        return None
    embodied_ug = embodied_total_ug(
        [event for event in events if event.hour <= anchor.hour and event.kind != EventKind.DISPOSE]
    )
    charged_ug = sum(charge.within(0, anchor.hour) for charge in charges)
    return Rate(anchor.id, embodied_ug - charged_ug, anchor.hour, end_hour)
