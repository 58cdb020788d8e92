"""Forms of MLflow servers: add, change, test, poll, enable, disable and remove a server."""

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from apps.accounts.models import Project
from apps.core.jobs import enqueue
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.trackers.forms import PlaceForm
from apps.trackers.mlflow.choices import SignIn
from apps.trackers.mlflow.models import MlflowSource
from apps.trackers.mlflow.services.servers import (
    POLL,
    SourceIn,
    add_source,
    change_source,
    remove_source,
    switch_source,
    try_source,
)


class ServerForm(PlaceForm):
    """Base of the forms that describe a server."""

    roles = MANAGERS
    name = TextField(
        label="Name",
        max_length=100,
        widget=forms.TextInput({"placeholder": "MLflow of the lab"}),
        error_messages={"required": "Enter a name."},
    )
    address = TextField(
        label="Address",
        max_length=300,
        widget=forms.URLInput({"placeholder": "https://mlflow.example.org"}),
        help_text=(
            "The value of MLFLOW_TRACKING_URI. Hosts of an internal network must be in "
            "LABCARBON_TRACKER_HOSTS."
        ),
        error_messages={"required": "Enter the address."},
    )
    sign_in = forms.ChoiceField(label="Authentication", choices=SignIn.choices)
    user = TextField(
        label="User",
        required=False,
        max_length=200,
        widget=forms.TextInput({"autocomplete": "off"}),
        strip=False,
    )
    secret = forms.CharField(
        label="Password or token",
        required=False,
        max_length=2000,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text=(
            "Stored encrypted and never displayed. It needs permission to read experiments, and "
            "to edit runs if verdicts "
            "are written."
        ),
    )
    patterns = TextField(
        label="Experiments by project",
        required=False,
        widget=forms.Textarea({"rows": 4, "placeholder": "vision-* = demo"}),
        help_text=(
            "One line each: experiment = short name of the project. * matches any text. The "
            "first match applies."
        ),
    )
    writes_verdicts = forms.BooleanField(
        label=(
            "Write duplicate verdicts to MLflow, as the tags labcarbon.verdict and labcarbon.link"
        ),
        required=False,
    )
    reads_files = forms.BooleanField(
        label=(
            "Read models, checkpoints and data of ended runs from MLflow and register them as "
            "artifacts"
        ),
        required=False,
    )
    field_order = (
        "name",
        "address",
        "sign_in",
        "user",
        "secret",
        "patterns",
        "project",
        "node",
        "site",
        "writes_verdicts",
        "reads_files",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        project, node = self.fields["project"], self.fields["node"]
        project.label, project.empty_label = "Other experiments", "Do not import"  # type: ignore[attr-defined]
        node.help_text = (
            "For GPU energy of runs that do not name their node. A collector on the node takes "
            "precedence."
        )

    def clean_patterns(self) -> tuple[tuple[str, Project], ...]:
        """Return (pattern, project) of each line."""
        projects = {project.slug: project for project in self.visitor.lab.projects.all()}
        rows, errors = [], []
        for number, line in enumerate(self.cleaned_data["patterns"].splitlines(), 1):
            if not line.strip():
                continue
            pattern, equals, slug = (part.strip() for part in line.rpartition("="))
            if not equals or not pattern or not slug:
                errors.append(
                    f"Line {number} is not “experiment = project”. Example: vision-* = demo"
                )
            elif slug not in projects:
                errors.append(
                    f"Line {number}: no project {slug[:60]!r}. Use one of "
                    f"{', '.join(sorted(projects)[:20])}."
                )
            else:
                rows.append((pattern, projects[slug]))
        if errors:
            raise ValidationError(errors)
        return tuple(rows)

    def payload(self) -> SourceIn:
        data = self.cleaned_data
        return SourceIn(
            name=data["name"],
            address=data["address"],
            sign_in=SignIn(data["sign_in"]),
            user=data["user"],
            secret=data["secret"] or None,
            patterns=data["patterns"],
            project=data["project"],
            node=data["node"],
            site=None if data["node"] else data["site"],
            writes_verdicts=data["writes_verdicts"],
            reads_files=data["reads_files"],
        )


class AddServerForm(ServerForm):
    """A new server. ``source`` is the server after ``save``, ``is_reached`` whether it responds."""

    source: MlflowSource
    is_reached = False

    def save(self) -> str:
        visitor = self.visitor
        self.source = add_source(
            lab=visitor.lab, payload=self.payload(), by=visitor.user, now=visitor.now
        )
        self.is_reached, message = try_source(self.source)
        return message


class ServerActionForm(PageForm):
    """Base of the forms of one server. ``is_reached``: False if a test of the connection failed."""

    roles = MANAGERS
    source: MlflowSource
    is_reached = True


class ChangeServerForm(ServerForm):
    action = "save"
    source: MlflowSource
    is_reached = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["address"].disabled = True
        self.fields["address"].help_text = "To use another address, add another server."
        self.fields[
            "secret"
        ].help_text = "Stored encrypted and never displayed. Leave empty to keep the current one."

    def save(self) -> str:
        visitor, payload = self.visitor, self.payload()
        change_source(source=self.source, payload=payload, by=visitor.user, now=visitor.now)
        return (
            f"{payload.name.strip()} was saved. Runs that were already imported keep their project."
        )


class ConnectionTestForm(ServerActionForm):
    action = "test"

    def save(self) -> str:
        self.is_reached, message = try_source(self.source)
        return message


class PollServerForm(ServerActionForm):
    action = "read"

    def save(self) -> str:
        enqueue(kind=POLL, key=str(self.source.pk))
        return "The server is polled now. Reload this page to see the result."


class SwitchServerForm(ServerActionForm):
    """Base of the forms that enable or disable polling."""

    enabled: ClassVar[bool]
    message_text: ClassVar[str]

    def save(self) -> str:
        visitor = self.visitor
        switch_source(source=self.source, enabled=self.enabled, by=visitor.user, now=visitor.now)
        return self.message_text.format(name=self.source.name)


class EnableServerForm(SwitchServerForm):
    action, enabled, message_text = "on", True, "{name} was enabled."


class DisableServerForm(SwitchServerForm):
    action, enabled, message_text = "off", False, "{name} was disabled. Imported data stays."


class RemoveServerForm(ServerActionForm):
    action = "remove"

    def save(self) -> str:
        remove_source(source=self.source, by=self.visitor.user, now=self.visitor.now)
        return f"{self.source.name} was removed. Its runs and their energy stay."


SERVER_FORMS = (
    ChangeServerForm,
    ConnectionTestForm,
    PollServerForm,
    EnableServerForm,
    DisableServerForm,
    RemoveServerForm,
)
