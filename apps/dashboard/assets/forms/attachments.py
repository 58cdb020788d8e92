"""Forms of the attachments of an asset."""

from django import forms

from apps.assets.attachment_files import EXTENSIONS, MAX_BYTES
from apps.assets.models import Asset
from apps.assets.services.attachments import attach, attachment_of, delete_attachment
from apps.core.errors import TooLarge
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm


class AttachForm(PageForm):
    """Attach a file to an asset."""

    roles = MANAGERS
    action = "attach"
    asset: Asset
    file = forms.FileField(
        label="File",
        help_text=f"PDF, PNG or JPEG, at most {MAX_BYTES // 1_000_000} MB.",
        allow_empty_file=True,
        widget=forms.FileInput(
            {"accept": ",".join(name for names in EXTENSIONS.values() for name in names)}
        ),
        error_messages={"required": "Choose a file."},
    )

    def save(self) -> str:
        file = self.cleaned_data["file"]
        if (file.size or 0) > MAX_BYTES:
            raise TooLarge(
                f"The file is larger than {MAX_BYTES // 1_000_000} MB.",
                field="file",
                hint="Attach a smaller file, such as a scan of lower resolution.",
            )
        row = attach(
            asset=self.asset,
            file_name=file.name or "",
            content=file.read(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"{row.name} is attached."


class DeleteAttachmentForm(PageForm):
    """Delete an attachment of an asset."""

    roles = MANAGERS
    action = "delete-attachment"
    asset: Asset
    attachment = forms.UUIDField(
        widget=forms.HiddenInput, error_messages={"invalid": "Reload the page and try again."}
    )

    def save(self) -> str:
        row = attachment_of(self.asset, self.cleaned_data["attachment"])
        delete_attachment(attachment=row, by=self.visitor.user, now=self.visitor.now)
        return f"{row.name} is deleted."


ATTACHMENT_FORMS = (AttachForm, DeleteAttachmentForm)
