"""The entries of a life in words: what each said, what it did to the book, who recorded it, and whether it holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.accounts.models import User
from apps.assets.amortisation import Charge
from apps.assets.choices import OPENING, Amortisation, ChargeKind, EventKind
from apps.assets.models import LifecycleEvent
from apps.dashboard.assets.timeline import Life
from apps.dashboard.embodied_format import Amount, amount, us, years


@dataclass(frozen=True)
class Did:
    """One thing that an entry did: words before an amount (None: words alone)."""

    words: str
    amount: Amount | None = None


@dataclass(frozen=True)
class EntryRow:
    """An entry. ``holds`` False: it is reversed. ``toggle``: the entry whose reversal takes this one back, or gives it back
    (0: how it was bought is corrected instead)."""

    entry: LifecycleEvent
    name: str
    words: str
    did: list[Did]
    book: Amount | None
    holds: bool
    toggle: int
    undone_by: LifecycleEvent | None

    @property
    def hour_us(self) -> int:
        return us(self.entry.hour) or 0

    @property
    def life_end_us(self) -> int | None:
        return us(self.entry.life_end_hour)

    @property
    def by(self) -> User | None:
        return self.entry.recorded_by


def entry_rows(entries: Sequence[LifecycleEvent], charges: Iterable[Charge], life: Life, known: bool) -> list[EntryRow]:
    """Return the entries, newest first; reversals stand with what they reverse."""
    reversal_of = {entry.reverses_id: entry for entry in entries if entry.reverses_id is not None}
    at_once: dict[tuple[int, str], int] = {}
    for charge in charges:
        if charge.kind in (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE):
            key = (charge.from_hour, charge.kind)
            at_once[key] = at_once.get(key, 0) + charge.amount_ug
    rows = []
    for entry in entries:
        if entry.reverses_id is not None:
            continue
        last, times = entry, 0
        while last.pk in reversal_of:
            last, times = reversal_of[last.pk], times + 1
        holds = times % 2 == 0
        rows.append(
            EntryRow(
                entry=entry,
                name=EventKind(entry.kind).label,
                words=_words(entry),
                did=_did(entry, at_once if holds else {}, holds),
                book=amount(life.value_at(entry.hour + 1)) if holds and known else None,
                holds=holds,
                toggle=0 if entry.kind in OPENING else last.pk,
                undone_by=None if holds else last,
            )
        )
    return rows[::-1]


def _words(entry: LifecycleEvent) -> str:
    """Return what an entry says beside its kind and time."""
    owner = entry.project.name if entry.project else ""
    who = entry.counterpart
    match entry.kind:
        case EventKind.PURCHASE | EventKind.SECOND_HAND:
            told = [f"from {who}"] if who else []
            return ", ".join([*told, f"for {owner or 'the lab'}", f"to serve {years(entry.life_hours or 0)} years"])
        case EventKind.TRANSFER:
            return f"to {owner or 'the lab'}"
        case EventKind.LEND:
            return f"to {owner or who}" + (f" ({who})" if owner and who else "")
        case EventKind.MOVE | EventKind.DEPLOY:
            places = [entry.parent.name if entry.parent else "", entry.site.name if entry.site else ""]
            named = ", ".join(place for place in places if place)
            return f"to {named}" if named else "to no place that was said" if entry.kind == EventKind.MOVE else ""
        case EventKind.REPAIR:
            return f"by {who}" if who else ""
        case EventKind.DISPOSE:
            return f"to {who}" if who else ""
    return ""


def _did(entry: LifecycleEvent, at_once: dict[tuple[int, str], int], holds: bool) -> list[Did]:
    found = []
    if entry.kind in (*OPENING, EventKind.REPAIR):
        told = amount(entry.total_ug, low=entry.low_ug or entry.total_ug or 0, high=entry.high_ug or entry.total_ug or 0)
        if entry.total_ug is not None or entry.kind in OPENING:
            found.append(Did("brought", told))
    if entry.amortisation:
        found.append(Did(f"charged {Amortisation(entry.amortisation).label.split(':')[0].lower().replace('sci', 'SCI')}"))
    if entry.kind == EventKind.DISPOSE and holds:
        found.append(Did("wrote off", amount(at_once.get((entry.hour, ChargeKind.WRITTEN_OFF), 0))))
        found += _end_of_life(entry, at_once.get((entry.hour, ChargeKind.END_OF_LIFE)))
    return found


def _end_of_life(entry: LifecycleEvent, booked: int | None) -> list[Did]:
    if entry.total_ug is None:
        return []
    told = Did("end of life as it was", amount(entry.total_ug))
    if booked is not None:
        return [told, Did("booked against the estimate", amount(booked))]
    return [told, Did("not booked: what it brought may hold it already")]
