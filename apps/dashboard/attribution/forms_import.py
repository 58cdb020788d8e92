"""Forms of the import of rules: CSV text or a file, previewed together, created all or none."""

from typing import Any

from django import forms

from apps.attribution.services.rules import make_rules
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import LabCarbonError
from apps.dashboard.attribution.forms import CREATE, uploaded_text
from apps.dashboard.attribution.rules_import_page import (
    COLUMNS,
    MAX_LENGTH,
    ImportPreview,
    read_rules,
)
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField

EXAMPLE = "account,project,person,from_day\nvision-lab,vision,ada,2026-11-01"


class RulesImportForm(PageForm):
    """Rules as CSV, previewed."""

    roles = MANAGERS
    preview: ImportPreview | None = None

    lines = TextField(
        label="CSV lines",
        required=False,
        strip=False,
        help_text=(
            f"The first line contains column names: {', '.join(COLUMNS)}. Enter projects by short "
            "name, and nodes, sites "
            "and people by name. An empty from_day means the current hour."
        ),
        widget=forms.Textarea({"rows": "10", "spellcheck": "false", "placeholder": EXAMPLE}),
    )
    file = forms.FileField(
        label="CSV file",
        required=False,
        allow_empty_file=True,
        widget=forms.FileInput({"accept": ".csv,text/csv,text/plain"}),
    )

    def clean_file(self) -> str:
        """Return the text of the file, '' for none."""
        file = self.cleaned_data["file"]
        return uploaded_text(file, 4 * MAX_LENGTH) if file else ""

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            text = self.cleaned_data["file"] or self.cleaned_data["lines"]
            visibility = visibility_for(self.visitor.lab, self.visitor.user)
            try:
                self.preview = read_rules(visitor=self.visitor, text=text, visibility=visibility)
            except LabCarbonError as error:
                self.add_service_error(error)
            self.text = text
        return self.cleaned_data


class CreateRulesForm(RulesImportForm):
    """Create all rules of a CSV text."""

    action = CREATE

    def submit(self) -> bool:
        """Save only if no line has an error. The errors of lines are shown in the preview."""
        if self.is_valid() and (self.preview is None or self.preview.error_count):
            return False
        return super().submit()

    def save(self) -> str:
        assert self.preview is not None
        make_rules(rules=self.preview.rules, by=self.visitor.user, now=self.visitor.now)
        return f"{len(self.preview.rules)} rules created. Figures are updated within seconds."
