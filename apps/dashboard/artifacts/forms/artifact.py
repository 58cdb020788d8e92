"""Forms of the page of one artifact: pin, state and description."""

from typing import Any

from django import forms

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import Kind
from apps.artifacts.models import Artifact
from apps.artifacts.services import curation
from apps.core.errors import NotFound
from apps.core.text import parse_record_number
from apps.dashboard.forms import PageForm, ProjectField, TextField


class TagsField(TextField):
    """Tags as lines of ``name=value``; cleaned to a dict."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        return str(super().to_python(value) or "")

    def clean(self, value: Any) -> Any:
        return parse_tags(str(super().clean(value)))


def parse_tags(text: str) -> dict[str, str]:
    """Return tags from lines of ``name=value``. Raises ValidationError with all invalid lines."""
    tags: dict[str, str] = {}
    errors = []
    for line in (line.strip() for line in text.splitlines() if line.strip()):
        name, equals, value = (part.strip() for part in line.partition("="))
        if name and equals:
            tags[name] = value
        else:
            errors.append(
                f"{line[:40]!r} is not a tag. Enter one tag per line, for example task=cats."
            )
    if errors:
        raise forms.ValidationError(errors, code="invalid")
    return tags


class ArtifactForm(PageForm):
    """A form of an artifact's page. ``query``: query string of the page after saving."""

    artifact: Artifact
    query = ""

    def service_arguments(self) -> dict[str, Any]:
        """Return the arguments that all services of this page take."""
        return {"artifact": self.artifact, "by": self.visitor.user, "now": self.visitor.now}


class PinForm(ArtifactForm):
    action = "pin"
    reason = TextField(
        max_length=300,
        help_text="Cleanup plans exclude a pinned artifact. The reason is visible to the lab.",
        error_messages={"required": "Enter a short reason, for example “paper under review”."},
    )

    def save(self) -> str:
        curation.pin(reason=self.cleaned_data["reason"], **self.service_arguments())
        return "Pinned. Cleanup plans exclude this artifact."


class UnpinForm(ArtifactForm):
    action = "unpin"

    def save(self) -> str:
        curation.unpin(is_manager=self.visitor.can_manage, **self.service_arguments())
        return "Pin removed."


class MarkCandidateForm(ArtifactForm):
    action = "mark_candidate"

    def save(self) -> str:
        curation.mark_candidate(**self.service_arguments())
        return "Marked as a candidate, the best of its run."


class UnmarkCandidateForm(ArtifactForm):
    action = "unmark_candidate"

    def save(self) -> str:
        curation.unmark_candidate(**self.service_arguments())
        return "Candidate mark removed."


class PromoteForm(ArtifactForm):
    action = "promote"

    def save(self) -> str:
        curation.promote(**self.service_arguments())
        return "Promoted. Cleanup plans exclude this artifact and its ancestors."


class DemoteForm(ArtifactForm):
    action = "demote"

    def save(self) -> str:
        curation.demote(**self.service_arguments())
        return "Promotion removed."


class ArchiveForm(ArtifactForm):
    action = "archive"

    def save(self) -> str:
        curation.archive(**self.service_arguments())
        return (
            "Archived. Cleanup plans exclude it unless a retention period is set for archived "
            "artifacts."
        )


class UnarchiveForm(ArtifactForm):
    action = "unarchive"

    def save(self) -> str:
        curation.unarchive(**self.service_arguments())
        return "Unarchived."


class DescribeForm(ArtifactForm):
    action = "describe"
    kind = forms.ChoiceField(
        choices=Kind.choices,
        error_messages={"invalid_choice": "Unknown kind. Choose one of the list."},
    )
    project = ProjectField(required=False, empty_label="None")
    licence = TextField(
        required=False, max_length=100, widget=forms.TextInput({"placeholder": "apache-2.0"})
    )
    note = TextField(required=False, max_length=1000, widget=forms.Textarea({"rows": 3}))
    tags = TagsField(
        required=False,
        help_text="One tag per line, for example task=cats.",
        widget=forms.Textarea({"rows": 3, "placeholder": "task=cats"}),
    )

    def save(self) -> str:
        entry = curation.describe(
            description=curation.Description(**self.cleaned_data), **self.service_arguments()
        )
        if entry is None:
            return "No changes."
        self.query = f"?done={entry.pk}"
        return "Description saved."


def description_values(artifact: Artifact) -> dict[str, Any]:
    """Return the current description of an artifact as initial values of DescribeForm."""
    return {
        "kind": artifact.kind,
        "project": artifact.project,
        "licence": artifact.licence,
        "note": artifact.note,
        "tags": "\n".join(f"{name}={value}" for name, value in sorted(artifact.tags.items())),
    }


class RestoreForm(ArtifactForm):
    """Undo of a description. ``entry``: number of its audit entry."""

    action = "restore"
    entry = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        number = parse_record_number(self.cleaned_data["entry"])
        entry = (
            AuditEntry.objects.filter(lab=self.visitor.lab, pk=number).first()
            if number is not None
            else None
        )
        if entry is None:
            raise NotFound("There is no such entry in the audit log.", hint="Load the page again.")
        curation.restore_description(entry=entry, **self.service_arguments())
        return "Previous description restored."


ARTIFACT_FORMS = (
    PinForm, UnpinForm, MarkCandidateForm, UnmarkCandidateForm, PromoteForm, DemoteForm,
    ArchiveForm, UnarchiveForm, DescribeForm, RestoreForm,
)  # fmt: skip
