"""The entries of a life in words: what each said, what it did to the book, who recorded it, and whether it holds."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab, Project, User
from apps.assets.amortisation import Charge
from apps.assets.choices import OPENING, Amortisation, ChargeKind, EventKind
from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent
from apps.assets.selectors import Book, assets_of, books_of, through
from apps.assets.services.charges import as_charge
from apps.core.units import UG_PER_G
from apps.dashboard.assets.timeline import Life, charged_parties_of, charged_party_key
from apps.dashboard.embodied_format import METRIC, Amount, amount, hour_to_us, years
from apps.dashboard.formatting import Unit, unit_for


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
        return hour_to_us(self.entry.hour) or 0

    @property
    def life_end_us(self) -> int | None:
        return hour_to_us(self.entry.life_end_hour)

    @property
    def by(self) -> User | None:
        return self.entry.recorded_by


def entry_rows(entries: Sequence[LifecycleEvent], charges: Iterable[Charge], life: Life, known: bool) -> list[EntryRow]:
    """Return the entries, newest first; reversals stand with what they reverse."""
    reversal_of = {entry.reverses_id: entry for entry in entries if entry.reverses_id is not None}
    immediate: dict[tuple[int, str], int] = {}
    for charge in charges:
        if charge.kind in (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE):
            key = (charge.from_hour, charge.kind)
            immediate[key] = immediate.get(key, 0) + charge.amount_ug
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
                did=_did(entry, immediate if holds else {}, holds),
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
            parts = [f"from {who}"] if who else []
            return ", ".join([*parts, f"for {owner or 'the lab'}", f"to serve {years(entry.life_hours or 0)} years"])
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


def _did(entry: LifecycleEvent, immediate: dict[tuple[int, str], int], holds: bool) -> list[Did]:
    effects = []
    if entry.kind in (*OPENING, EventKind.REPAIR):
        total = amount(entry.total_ug, low=entry.low_ug or entry.total_ug or 0, high=entry.high_ug or entry.total_ug or 0)
        if entry.total_ug is not None or entry.kind in OPENING:
            effects.append(Did("brought", total))
    if entry.amortisation:
        effects.append(Did(f"charged {Amortisation(entry.amortisation).label.split(':')[0].lower().replace('sci', 'SCI')}"))
    if entry.kind == EventKind.DISPOSE and holds:
        effects.append(Did("wrote off", amount(immediate.get((entry.hour, ChargeKind.WRITTEN_OFF), 0))))
        effects += _end_of_life(entry, immediate.get((entry.hour, ChargeKind.END_OF_LIFE)))
    return effects


def _end_of_life(entry: LifecycleEvent, booked: int | None) -> list[Did]:
    if entry.total_ug is None:
        return []
    actual = Did("end of life as it was", amount(entry.total_ug))
    if booked is not None:
        return [actual, Did("booked against the estimate", amount(booked))]
    return [actual, Did("not booked: what it brought may hold it already")]


MONTH_HOURS = 730  # a twelfth of 8 760


@dataclass(frozen=True)
class _Snapshot:
    """Assets at a moment: their books, and µg by bearer, borne up to now and to be borne in the month that comes."""

    books: dict[int, Book]
    charged: dict[str, int]
    coming: dict[str, int]
    projects: frozenset[Project]

    def sum(self, part: str) -> int:
        return sum(getattr(book, part) or 0 for book in self.books.values())


@dataclass(frozen=True)
class Line:
    """A number as it is and as it would be."""

    name: str
    before: Amount
    after: Amount


@dataclass(frozen=True)
class ChargedLine:
    """What a bearer bore so far and bears in the coming month, as it is and as it would be."""

    name: str
    charged: Line
    coming: Line


@dataclass(frozen=True)
class LifeEffect:
    """What would change. No ``lines`` and no ``bearers``: no figure does. ``ends``: planned end before and after, µs."""

    lines: list[Line]
    charged_parties: list[ChargedLine]
    ends: tuple[int | None, int | None] | None
    written_off: Amount | None
    unit: str


def _snapshot(lab: Lab, ids: Iterable[int], hour: int) -> _Snapshot:
    concerned = assets_of(lab).filter(Q(pk__in=list(ids)) | Q(parent_id__in=list(ids)))
    charged: dict[str, int] = defaultdict(int)
    coming: dict[str, int] = defaultdict(int)
    projects = set()
    for row in EmbodiedCharge.objects.filter(asset__in=concerned).select_related("project"):
        if row.kind == ChargeKind.WRITTEN_OFF:
            continue
        key, charge = charged_party_key(row.project, row.kind), as_charge(row)
        charged[key] += charge.within(0, hour)
        coming[key] += charge.within(hour, hour + MONTH_HOURS)
        if row.project:
            projects.add(row.project)
    return _Snapshot(books_of(concerned, hour), charged, coming, frozenset(projects))


def effect_of(*, lab: Lab, assets: Iterable[Asset], change: Callable[[], object], now: int) -> LifeEffect:
    """Return what ``change`` would do to ``assets`` and their parts; its errors are raised, nothing is kept."""
    ids, hour = {asset.pk for asset in assets}, through(now)
    ids |= set(assets_of(lab).filter(parent_id__in=ids).values_list("pk", flat=True))  # a part that goes is looked at, too
    with transaction.atomic():
        before = _snapshot(lab, ids, hour)
        change()
        after = _snapshot(lab, ids, hour)
        transaction.set_rollback(True)
    unit = unit_for(METRIC, [before.sum("total_ug"), after.sum("total_ug")])
    names = {"total_ug": "Embodied carbon", "charged_ug": "Charged so far", "balance_ug": "Still on the books"}
    names["written_off_ug"] = "Written off"
    lines = [
        _line(name, before.sum(part), after.sum(part), unit)
        for part, name in names.items()
        if before.sum(part) != after.sum(part)
    ]
    off = after.sum("written_off_ug") - before.sum("written_off_ug")
    one = next(iter(ids)) if len(ids) == 1 else 0
    ends = (_end(before.books.get(one)), _end(after.books.get(one)))
    return LifeEffect(
        lines=lines,
        charged_parties=_charged_lines(before, after),
        ends=ends if ends[0] != ends[1] else None,
        written_off=amount(off) if off > 0 else None,
        unit=unit.name,
    )


def _end(book: Book | None) -> int | None:
    return hour_to_us(book.life_end_hour) if book else None


def _line(name: str, before: int, after: int, unit: Unit) -> Line:
    return Line(name, amount(before, unit), amount(after, unit))


def _charged_lines(before: _Snapshot, after: _Snapshot) -> list[ChargedLine]:
    sums = {key: before.charged.get(key, 0) + after.charged.get(key, 0) for key in {*before.charged, *after.charged}}
    sums |= {key: sums.get(key, 0) for key in {*before.coming, *after.coming}}
    unit = unit_for(METRIC, sums.values())
    month = unit_for(METRIC, [max(abs(value) for value in (*before.coming.values(), *after.coming.values(), UG_PER_G))])
    rows = []
    for party in charged_parties_of(sums, before.projects | after.projects):
        charged = (before.charged.get(party.key, 0), after.charged.get(party.key, 0))
        coming = (before.coming.get(party.key, 0), after.coming.get(party.key, 0))
        if charged[0] != charged[1] or coming[0] != coming[1]:
            rows.append(ChargedLine(party.name, _line("", *charged, unit), _line("", *coming, month)))
    return rows
