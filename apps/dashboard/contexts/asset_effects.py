"""What an entry of a life would change: made, read, and taken back, before anything is kept."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab, Project
from apps.assets.choices import ChargeKind
from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.selectors import Book, assets_of, books_of, through
from apps.assets.services.charges import as_charge
from apps.core.units import UG_PER_G
from apps.dashboard.assets.timeline import bearer_key, bearers_of
from apps.dashboard.embodied_format import METRIC, Amount, amount, us
from apps.dashboard.formatting import Unit, unit_for

MONTH_HOURS = 730  # a twelfth of 8 760


@dataclass(frozen=True)
class _Seen:
    """Assets at a moment: their books, and µg by bearer, borne up to now and to be borne in the month that comes."""

    books: dict[int, Book]
    borne: dict[str, int]
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
class BearerLine:
    """What a bearer bore so far and bears in the coming month, as it is and as it would be."""

    name: str
    borne: Line
    coming: Line


@dataclass(frozen=True)
class LifeEffect:
    """What would change. No ``lines`` and no ``bearers``: no figure does. ``ends``: planned end before and after, µs."""

    lines: list[Line]
    bearers: list[BearerLine]
    ends: tuple[int | None, int | None] | None
    written_off: Amount | None
    unit: str


def _seen(lab: Lab, ids: Iterable[int], hour: int) -> _Seen:
    concerned = assets_of(lab).filter(Q(pk__in=list(ids)) | Q(parent_id__in=list(ids)))
    borne: dict[str, int] = defaultdict(int)
    coming: dict[str, int] = defaultdict(int)
    projects = set()
    for row in EmbodiedCharge.objects.filter(asset__in=concerned).select_related("project"):
        if row.kind == ChargeKind.WRITTEN_OFF:
            continue
        key, charge = bearer_key(row.project, row.kind), as_charge(row)
        borne[key] += charge.within(0, hour)
        coming[key] += charge.within(hour, hour + MONTH_HOURS)
        if row.project:
            projects.add(row.project)
    return _Seen(books_of(concerned, hour), borne, coming, frozenset(projects))


def effect_of(*, lab: Lab, assets: Iterable[Asset], change: Callable[[], object], now: int) -> LifeEffect:
    """Return what ``change`` would do to ``assets`` and their parts; its errors are raised, nothing is kept."""
    ids, hour = {asset.pk for asset in assets}, through(now)
    ids |= set(assets_of(lab).filter(parent_id__in=ids).values_list("pk", flat=True))  # a part that goes is looked at, too
    with transaction.atomic():
        before = _seen(lab, ids, hour)
        change()
        after = _seen(lab, ids, hour)
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
        bearers=_bearers(before, after),
        ends=ends if ends[0] != ends[1] else None,
        written_off=amount(off) if off > 0 else None,
        unit=unit.name,
    )


def _end(book: Book | None) -> int | None:
    return us(book.life_end_hour) if book else None


def _line(name: str, before: int, after: int, unit: Unit) -> Line:
    return Line(name, amount(before, unit), amount(after, unit))


def _bearers(before: _Seen, after: _Seen) -> list[BearerLine]:
    sums = {key: before.borne.get(key, 0) + after.borne.get(key, 0) for key in {*before.borne, *after.borne}}
    sums |= {key: sums.get(key, 0) for key in {*before.coming, *after.coming}}
    unit = unit_for(METRIC, sums.values())
    month = unit_for(METRIC, [max(abs(value) for value in (*before.coming.values(), *after.coming.values(), UG_PER_G))])
    found = []
    for bearer in bearers_of(sums, before.projects | after.projects):
        borne = (before.borne.get(bearer.key, 0), after.borne.get(bearer.key, 0))
        coming = (before.coming.get(bearer.key, 0), after.coming.get(bearer.key, 0))
        if borne[0] != borne[1] or coming[0] != coming[1]:
            found.append(BearerLine(bearer.name, _line("", *borne, unit), _line("", *coming, month)))
    return found
