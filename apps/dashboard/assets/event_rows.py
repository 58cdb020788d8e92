"""Lifecycle events of an asset: details, effect on the books, author, and whether they are
reversed; effect of a change.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab, Project, User
from apps.assets.amortisation import Charge
from apps.assets.choices import OPENING, Amortisation, ChargeKind, EndOfLife, EventKind
from apps.assets.lifecycle import is_active, last_of_chain
from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent
from apps.assets.selectors import Book, assets_of, books_of, through
from apps.assets.services.charges import as_charge
from apps.assets.treatment import treatment_of
from apps.core.units import UG_PER_G
from apps.dashboard.assets.timeline import Life, charged_parties_of, charged_party_key
from apps.dashboard.embodied_format import METRIC, Amount, amount, hour_to_us, years
from apps.dashboard.formatting import Unit, unit_for


@dataclass(frozen=True)
class Effect:
    """One effect of an event: a label, and an amount if it has one."""

    label: str
    amount: Amount | None = None


@dataclass(frozen=True)
class EntryRow:
    """A lifecycle event. ``active``: it is not reversed. ``toggle``: the event whose reversal
    reverses or restores this one (0: the purchase, which is corrected instead).
    """

    entry: LifecycleEvent
    name: str
    details: str
    effects: list[Effect]
    book: Amount | None
    active: bool
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


def entry_rows(
    entries: Sequence[LifecycleEvent], charges: Iterable[Charge], life: Life, known: bool
) -> list[EntryRow]:
    """Return the events, newest first. A reversal is shown with the event that it reverses."""
    by_id = {entry.pk: entry for entry in entries}
    reversed_by = {
        entry.reverses_id: entry.pk for entry in entries if entry.reverses_id is not None
    }
    immediate: dict[tuple[int, str], int] = {}
    for charge in charges:
        if charge.kind in (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE):
            key = (charge.from_hour, charge.kind)
            immediate[key] = immediate.get(key, 0) + charge.amount_ug
    rows = []
    for entry in entries:
        if entry.reverses_id is not None:
            continue
        last = by_id[last_of_chain(entry.pk, reversed_by)]
        active = is_active(entry.pk, reversed_by)
        rows.append(
            EntryRow(
                entry=entry,
                name=EventKind(entry.kind).label,
                details=_details(entry),
                effects=_effects(entry, immediate if active else {}, active),
                book=amount(life.value_at(entry.hour + 1)) if active and known else None,
                active=active,
                toggle=0 if entry.kind in OPENING else last.pk,
                undone_by=None if active else last,
            )
        )
    return rows[::-1]


def _details(entry: LifecycleEvent) -> str:
    """Return the details of an event besides kind and time."""
    owner = entry.project.name if entry.project else ""
    who = entry.counterpart
    match entry.kind:
        case EventKind.PURCHASE | EventKind.SECOND_HAND | EventKind.LEASE:
            parts = [f"from {who}"] if who else []
            return ", ".join(
                [
                    *parts,
                    f"for {owner or 'the lab'}",
                    f"planned life {years(entry.life_hours or 0)} years",
                ]
            )
        case EventKind.TRANSFER:
            return f"to {owner or 'the lab'}"
        case EventKind.LEND:
            return f"to {owner or who}" + (f" ({who})" if owner and who else "")
        case EventKind.MOVE | EventKind.DEPLOY:
            places = [
                entry.parent.name if entry.parent else "",
                entry.site.name if entry.site else "",
            ]
            named = ", ".join(place for place in places if place)
            return (
                f"to {named}" if named else "to no location" if entry.kind == EventKind.MOVE else ""
            )
        case EventKind.REPAIR:
            return f"by {who}" if who else ""
        case EventKind.DISPOSE:
            kind = EndOfLife(entry.end_of_life).label.lower() if entry.end_of_life else ""
            mass = "" if entry.mass_g is None else f"{entry.mass_g / 1000:g} kg"
            how = ", ".join(part for part in (kind, mass) if part)
            return " ".join(
                part for part in (f"({how})" if how else "", who and f"to {who}") if part
            )
    return ""


def _effects(
    entry: LifecycleEvent, immediate: dict[tuple[int, str], int], active: bool
) -> list[Effect]:
    effects = []
    if entry.kind in (*OPENING, EventKind.REPAIR):
        total = amount(
            entry.total_ug,
            low=entry.low_ug or entry.total_ug or 0,
            high=entry.high_ug or entry.total_ug or 0,
        )
        if entry.total_ug is not None or entry.kind in OPENING:
            effects.append(Effect("embodied carbon", total))
    if entry.amortisation:
        effects.append(
            Effect(
                "amortisation "
                f"{Amortisation(entry.amortisation).label.lower().replace('sci', 'SCI')}"
            )
        )
    if entry.kind == EventKind.DISPOSE and active:
        effects.append(
            Effect("written off", amount(immediate.get((entry.hour, ChargeKind.WRITTEN_OFF), 0)))
        )
        effects += _end_of_life(entry, immediate.get((entry.hour, ChargeKind.END_OF_LIFE)))
    return effects


def _end_of_life(entry: LifecycleEvent, booked: int | None) -> list[Effect]:
    if entry.total_ug is None:
        has_figure = not entry.end_of_life or treatment_of(entry.end_of_life) is not None
        return [] if has_figure else [Effect("no figure for the end of life")]
    treatment = treatment_of(entry.end_of_life)
    is_default = treatment is not None and entry.source == treatment.source
    label = "end of life by the default factor" if is_default else "actual end of life"
    actual = Effect(label, amount(entry.total_ug))
    if booked is not None:
        return [actual, Effect("difference to the estimate", amount(booked))]
    return [actual, Effect("not charged, since the embodied carbon may include it")]


MONTH_HOURS = 730  # a twelfth of 8 760


@dataclass(frozen=True)
class _Snapshot:
    """Assets at one time: their books, and µg by party: charged to date, and due in the next
    month.
    """

    books: dict[int, Book]
    charged: dict[str, int]
    coming: dict[str, int]
    projects: frozenset[Project]

    def sum(self, part: str) -> int:
        return sum(getattr(book, part) or 0 for book in self.books.values())


@dataclass(frozen=True)
class Line:
    """A number before and after a change."""

    name: str
    before: Amount
    after: Amount


@dataclass(frozen=True)
class ChargedLine:
    """Charges to one party to date and in the next month, before and after a change."""

    name: str
    charged: Line
    coming: Line


@dataclass(frozen=True)
class LifeEffect:
    """Effect of a change, empty if no figure changes. ``ends``: planned end before and after,
    µs.
    """

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


def effect_of(
    *, lab: Lab, assets: Iterable[Asset], change: Callable[[], object], now: int
) -> LifeEffect:
    """Return the effect of ``change`` on ``assets`` and their parts. Raises its errors. Nothing
    is saved.
    """
    ids, hour = {asset.pk for asset in assets}, through(now)
    ids |= set(
        assets_of(lab).filter(parent_id__in=ids).values_list("pk", flat=True)
    )  # includes a removed part
    with transaction.atomic():
        before = _snapshot(lab, ids, hour)
        change()
        after = _snapshot(lab, ids, hour)
        transaction.set_rollback(True)
    unit = unit_for(METRIC, [before.sum("total_ug"), after.sum("total_ug")])
    names = {"total_ug": "Embodied carbon", "charged_ug": "Charged", "balance_ug": "Remaining"}
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
    sums = {
        key: before.charged.get(key, 0) + after.charged.get(key, 0)
        for key in {*before.charged, *after.charged}
    }
    sums |= {key: sums.get(key, 0) for key in {*before.coming, *after.coming}}
    unit = unit_for(METRIC, sums.values())
    month = unit_for(
        METRIC,
        [max(abs(value) for value in (*before.coming.values(), *after.coming.values(), UG_PER_G))],
    )
    rows = []
    for party in charged_parties_of(sums, before.projects | after.projects):
        charged = (before.charged.get(party.key, 0), after.charged.get(party.key, 0))
        coming = (before.coming.get(party.key, 0), after.coming.get(party.key, 0))
        if charged[0] != charged[1] or coming[0] != coming[1]:
            rows.append(
                ChargedLine(party.name, _line("", *charged, unit), _line("", *coming, month))
            )
    return rows
