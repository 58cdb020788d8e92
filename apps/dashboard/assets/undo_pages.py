"""Contents of the pages of finished imports and of their undo."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from apps.accounts.models import Lab
from apps.assets.choices import RUNNING, ChangeKind
from apps.assets.models import LifecycleEvent, RegisterChange, RegisterImport
from apps.assets.services.undo import UndoPlan, UndoStep, finished_imports
from apps.dashboard.assets.import_pages import embodied, labelled, percent_of
from apps.dashboard.figures import Projected
from apps.dashboard.formatting import unit_for

LISTED = 200
BATCH = 500


@dataclass(frozen=True)
class FinishedImport:
    """A registered import with the number of assets by what was done to them."""

    row: RegisterImport
    registered: int
    changed: int
    undone: int

    @property
    def total(self) -> int:
        return self.registered + self.changed

    @property
    def can_undo(self) -> bool:
        return self.undone < self.total

    @property
    def is_running(self) -> bool:
        return self.row.state in RUNNING


@dataclass(frozen=True)
class HistoryPage:
    """Finished imports, and assets that were removed."""

    imports: list[FinishedImport]
    removed: list[RegisterChange]
    more_removed: int


def history_page(lab: Lab) -> HistoryPage:
    """Return the page of finished imports."""
    counts = {
        row["register_import"]: row
        for row in RegisterChange.objects.filter(lab=lab, register_import__isnull=False)
        .values("register_import")
        .annotate(
            registered=Count("pk", filter=Q(kind=ChangeKind.REGISTERED)),
            changed=Count("pk", filter=Q(kind=ChangeKind.CHANGED)),
            undone=Count("pk", filter=Q(undone_us__isnull=False)),
        )
    }
    none = {"registered": 0, "changed": 0, "undone": 0}
    imports = [
        FinishedImport(
            row, *(counts.get(row.pk, none)[name] for name in ("registered", "changed", "undone"))
        )
        for row in finished_imports(lab)
    ]
    removed = (
        RegisterChange.objects.filter(lab=lab, kind=ChangeKind.REGISTERED, undone_us__isnull=False)
        .select_related("asset", "undone_by", "register_import")
        .order_by("-undone_us", "-pk")
    )
    return HistoryPage(imports, list(removed[:LISTED]), max(0, removed.count() - LISTED))


@dataclass(frozen=True)
class UndoLine:
    """One asset of an undo: what happens to it, and its embodied carbon in the register."""

    step: UndoStep
    value: Projected
    changes: list[dict[str, str]]


@dataclass(frozen=True)
class UndoPage:
    """What an undo does. ``unit``: that of the listed embodied carbon, '' if all is unknown."""

    row: RegisterImport
    is_redo: bool
    removals: list[UndoLine]
    changes: list[UndoLine]
    refused: list[UndoStep]
    total: Projected
    unit: str
    more: int
    more_refused: int
    leave_out: str
    removal_number: int
    change_number: int

    @property
    def refused_number(self) -> int:
        return len(self.refused) + self.more_refused

    @property
    def possible(self) -> int:
        return self.removal_number + self.change_number


@dataclass(frozen=True)
class RunningPage:
    """An undo that a job executes. ``percent`` None: unknown."""

    row: RegisterImport
    percent: int | None


def running_page(row: RegisterImport) -> RunningPage:
    """Return the page of an import whose job runs."""
    return RunningPage(row, percent_of(row))


def undo_page(row: RegisterImport, plan: UndoPlan) -> UndoPage:
    """Return the page that asks for confirmation of an undo."""
    possible = plan.possible
    removals = [step for step in possible if step.is_removal]
    changes = [step for step in possible if not step.is_removal]
    embodied_ug = _embodied_by_asset(removals)
    known = [embodied_ug[step.asset.pk] for step in removals]
    values = [value for value in known if value is not None]
    unit = unit_for("emission_ug", values, column=True)

    def lines(steps: Sequence[UndoStep]) -> list[UndoLine]:
        return [
            UndoLine(
                step,
                embodied(embodied_ug.get(step.asset.pk), unit),
                _changes(step, is_redo=plan.is_redo),
            )
            for step in steps[:LISTED]
        ]

    shown = min(len(removals), LISTED) + min(len(changes), LISTED)
    return UndoPage(
        row=row,
        is_redo=plan.is_redo,
        removals=lines(removals),
        changes=lines(changes),
        refused=plan.refused[:LISTED],
        more_refused=max(0, len(plan.refused) - LISTED),
        leave_out=",".join(str(step.asset.pk) for step in plan.refused),
        total=embodied(sum(values) if values else None, at_least=len(values) < len(known)),
        unit=unit.name if values else "",
        more=len(possible) - shown,
        removal_number=len(removals),
        change_number=len(changes),
    )


def _embodied_by_asset(steps: Sequence[UndoStep]) -> dict[int, int | None]:
    """Return the embodied carbon that registrations added, None if it is unknown."""
    totals: dict[int, int | None] = {step.asset.pk: None for step in steps}
    events = [pk for step in steps for pk in step.change.events]
    for start in range(0, len(events), BATCH):
        rows = LifecycleEvent.objects.filter(
            pk__in=events[start : start + BATCH], total_ug__isnull=False
        )
        for asset_id, total_ug in rows.values_list("asset_id", "total_ug"):
            totals[asset_id] = (totals[asset_id] or 0) + (total_ug or 0)
    return totals


def _changes(step: UndoStep, *, is_redo: bool) -> list[dict[str, str]]:
    """Return the values that change, from the present one to the one after the undo."""
    return labelled(
        [
            change if is_redo else {**change, "before": change["after"], "after": change["before"]}
            for change in step.change.differences
        ]
    )
