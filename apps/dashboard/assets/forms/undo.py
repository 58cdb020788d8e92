"""Forms of the undo of imports and of the removal of assets."""

from apps.assets.models import Asset, RegisterImport
from apps.assets.services.import_tasks import undo
from apps.assets.services.undo import remove_asset, restore_asset
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

    is_redo = False

    def clean_leave_out(self) -> list[int]:
        texts = ",".join(self.cleaned_data["leave_out"]).split(",")
        numbers = [parse_record_number(text) for text in texts if text]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            raise InvalidInput("No such asset.", field="leave_out", hint="Reload the page.")
        return known

    def save(self) -> str:
        number = undo(
            row=self.row,
            is_redo=self.is_redo,
            leave_out=self.cleaned_data["leave_out"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        if number is None:
            return ""
        assets = f"{number} asset{'' if number == 1 else 's'}"
        return f"Import restored: {assets}." if self.is_redo else f"Import undone: {assets}."


class RedoForm(UndoForm):
    """Undo the last undo of an import."""

    action = "redo"
    is_redo = True


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
