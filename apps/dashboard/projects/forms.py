"""Forms of the project pages."""

from typing import Any

from django import forms
from django.utils.text import slugify

from apps.accounts.models import Project
from apps.accounts.services.labs import check_slug, create_project
from apps.dashboard.forms import PageForm, TextField


class ProjectForm(PageForm):
    """Create a project."""

    name = TextField(
        label="Name",
        max_length=200,
        error_messages={"required": "Enter a name for the project, e.g. Cell Atlas."},
    )
    slug = TextField(
        label="Short name",
        required=False,
        max_length=60,
        help_text="Used with --project. Derived from the name if empty.",
        widget=forms.TextInput({"pattern": "[a-z0-9]+(-[a-z0-9]+)*"}),
    )
    project: Project

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        self.check_fields({"slug": check_slug})
        if values.get("name") and not values.get("slug") and "slug" not in self.errors:
            values["slug"] = slugify(values["name"])[:60].strip("-")
            if not values["slug"]:
                self.add_error(
                    "slug",
                    "The name contains no letters or digits. Enter a short name, e.g. cell-atlas.",
                )
        return values

    def save(self) -> str:
        values = self.cleaned_data
        self.project = create_project(
            lab=self.visitor.lab,
            slug=values["slug"],
            name=values["name"],
            now=self.visitor.now,
            by=self.visitor.user,
        )
        return (
            f"Project {self.project.name} created. Charge work to it with --project "
            f"{self.project.slug}."
        )
