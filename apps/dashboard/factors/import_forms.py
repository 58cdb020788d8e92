"""Forms of the import of own factors."""

from django import forms

from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.parsing import MAX_BYTES, MAX_ROWS
from apps.carbon.own_factors.services import confirm_factors, upload_factors
from apps.carbon.own_factors.withdrawal import MAX_REASON, withdraw_factors
from apps.core.errors import TooLarge
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField


class FactorsImportForm(PageForm):
    """Upload a file of own factors. ``created`` is the new file."""

    roles = MANAGERS
    created: OwnFactorFile
    file = forms.FileField(
        label="File",
        allow_empty_file=True,
        help_text=f"CSV in UTF-8, at most {MAX_ROWS:,} rows and {MAX_BYTES >> 20} MiB.",
        widget=forms.FileInput({"accept": ".csv,text/csv,text/plain"}),
        error_messages={"required": "Choose a file."},
    )

    def save(self) -> str:
        file = self.cleaned_data["file"]
        if (file.size or 0) > MAX_BYTES:
            raise TooLarge(
                f"The file is larger than {MAX_BYTES >> 20} MiB.", field="file", hint="Split it."
            )
        self.created = upload_factors(
            lab=self.visitor.lab,
            file_name=file.name or "",
            content=file.read(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return ""


class WithdrawFactorsForm(PageForm):
    """Withdraw the factors of an imported file. ``file`` is that file."""

    roles = MANAGERS
    action = "withdraw"
    file: OwnFactorFile
    reason = TextField(
        max_length=MAX_REASON,
        help_text="Why these factors must not be used.",
        error_messages={"required": "Enter a reason."},
    )

    def save(self) -> str:
        is_done = withdraw_factors(
            file=self.file,
            reason=self.cleaned_data["reason"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        if is_done:
            return "Factors withdrawn. Figures are updated within a minute."
        return "These factors were withdrawn before. Nothing has changed."


class ConfirmFactorsForm(PageForm):
    """Import the factors of a previewed file. ``file`` is that file."""

    roles = MANAGERS
    action = "import"
    file: OwnFactorFile

    def save(self) -> str:
        is_done = confirm_factors(file=self.file, by=self.visitor.user, now=self.visitor.now)
        return "Factors imported. Figures are updated within a minute." if is_done else ""
