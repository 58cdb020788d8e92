"""Undo of an import, removal of single assets, and undo of both (ADR 39)."""

from apps.assets.services.undo.execution import (
    finished_imports,
    redo_import,
    remove_asset,
    restore_asset,
    undo_import,
)
from apps.assets.services.undo.plan import (
    UndoPlan,
    UndoRefused,
    UndoStep,
    plan_redo,
    plan_removal,
    plan_undo,
)

__all__ = [
    "UndoPlan",
    "UndoRefused",
    "UndoStep",
    "finished_imports",
    "plan_redo",
    "plan_removal",
    "plan_undo",
    "redo_import",
    "remove_asset",
    "restore_asset",
    "undo_import",
]
