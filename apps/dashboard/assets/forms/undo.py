"""Forms of the undo of imports and of the removal of assets."""

from apps.assets.models import Asset, RegisterImport
from apps.assets.services.undo import redo_import, remove_asset, restore_asset, undo_import
from apps.core.errors import InvalidInput, NotFound
from apps.core.text import parse_record_number
from apps.dashboard.assets.forms.fields import ItemsField
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField


class UndoForm(PageForm):
    """Undo an import. ``leave_out``: assets that stay as they are."""

    roles = MANAGERS
    action = "undo"
    row: RegisterImport
    leave_out = ItemsField(required=False)

    def clean_leave_out(self) -> list[int]:
        numbers = [parse_record_number(text) for text in self.cleaned_data["leave_out"]]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            raise InvalidInput("No such asset.", field="leave_out", hint="Reload the page.")
        return known

    def save(self) -> str:
        plan = undo_import(
            row=self.row,
            leave_out=self.cleaned_data["leave_out"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"Import undone: {_assets(len(plan.steps))}."


class RedoForm(UndoForm):
    """Undo the last undo of an import."""

    action = "redo"

    def save(self) -> str:
        plan = redo_import(
            row=self.row,
            leave_out=self.cleaned_data["leave_out"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"Import restored: {_assets(len(plan.steps))}."


class RemoveForm(PageForm):
    """Remove an asset that was registered by mistake."""

    roles = MANAGERS
    action = "remove"
    asset: Asset

    def save(self) -> str:
        remove_asset(asset=self.asset, by=self.visitor.user, now=self.visitor.now)
        return f"{self.asset.name} removed."


class RestoreForm(PageForm):
    """Restore a removed asset."""

    roles = MANAGERS
    action = "restore"
    asset = TextField()

    def save(self) -> str:
        number = parse_record_number(self.cleaned_data["asset"])
        row = Asset.with_removed.filter(lab=self.visitor.lab, pk=number or 0).first()
        if row is None:
            raise NotFound("No such asset in your lab.")
        restore_asset(asset=row, by=self.visitor.user, now=self.visitor.now)
        return f"{row.name} restored."


def _assets(number: int) -> str:
    return f"{number} asset{'' if number == 1 else 's'}"
