"""Page objects and form of erasing a person, and the export of what is stored about one."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpResponseBase, JsonResponse

from apps.accounts.common_words import is_common
from apps.accounts.models import Membership, User
from apps.accounts.services.erasure import account_names, check_names, erase_person
from apps.accounts.services.erasure_preview import NamePreview, preview
from apps.accounts.services.person_export import stored_about
from apps.artifacts.models import Artifact
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import ADMINS, MANAGERS, Visitor
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.people.people_pages import os_users
from apps.runs.models import Run

EXPORT_HEAD = ("table", "row", "column", "value")


@dataclass(frozen=True)
class ErasurePage:
    """A person and their names. ``other_names``: OS users of their runs and files, not erased
    unless they are entered. ``previews``: the texts with each name, None before they are listed.
    """

    person: User
    names: list[str]
    common: list[str]
    other_names: list[str]
    previews: list[NamePreview] | None


class NamesForm(PageForm):
    """Further names of ``person``, to list the texts that contain a name."""

    roles = ADMINS
    action = "list"
    names = TextField(
        label="Further names",
        required=False,
        widget=forms.Textarea({"rows": 4, "autocomplete": "off"}),
        help_text="One per line: OS users and other names of this person.",
    )
    person: User

    def clean(self) -> dict[str, Any]:
        self.check_fields({"names": lambda text: check_names(text.splitlines())})
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        return ""


class ErasureForm(PageForm):
    """Erase ``person`` after their user name is typed. ``in_texts``: names that are also replaced
    in prose.
    """

    roles = ADMINS
    action = "erase"
    names = TextField(required=False, widget=forms.HiddenInput)
    in_texts = forms.MultipleChoiceField(
        label="Replace in texts too",
        required=False,
        error_messages={"invalid_choice": "“%(value)s” is not a listed name. List texts again."},
    )
    confirm = TextField(
        label="User name to confirm",
        max_length=150,
        widget=forms.TextInput({"autocomplete": "off"}),
        error_messages={"required": "Enter the user name of the person."},
    )
    person: User

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        names = [*account_names(self.person), *self.further_names()]
        self.fields["in_texts"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]

    def further_names(self) -> list[str]:
        """Return the further names that were listed."""
        text = str(self.data.get("names") or "") if self.is_bound else self.initial.get("names", "")
        return [name.strip() for name in text.splitlines() if name.strip()]

    def clean_confirm(self) -> str:
        text: str = self.cleaned_data["confirm"]
        if text != self.person.get_username():
            raise forms.ValidationError("This is not the user name of the person.")
        return text

    def save(self) -> str:
        visitor = self.visitor
        if self.person.pk == visitor.user.pk:
            raise Conflict("You cannot erase yourself.", hint="Ask another admin of the lab.")
        if Membership.objects.filter(user=self.person).exclude(lab=visitor.lab).exists():
            raise Conflict(
                "This person is also a member of another lab.",
                hint="Remove them from this lab. The operator of the server can erase them with "
                "manage.py erase_person.",
            )
        result = erase_person(
            person=self.person,
            names=self.further_names(),
            in_texts=self.cleaned_data["in_texts"],
            labs=[visitor.lab],
            by=visitor.user,
            now=visitor.now,
        )
        return f"The person is erased. Their energy and runs are those of {result.label}."


def erasure_page(visitor: Visitor, person: User, form: "ErasureForm | None" = None) -> ErasurePage:
    """Return the names of a person that are erased, and others that could be theirs.

    ``form``: with the names as entered, to list the texts that contain one.
    """
    names, rules = account_names(person), os_users(visitor.lab).get(person.pk, [])
    used = set(
        Run.objects.filter(lab=visitor.lab, user=person).values_list("os_user", flat=True)
    ) | set(
        Artifact.objects.filter(lab=visitor.lab, owner=person).values_list("os_user", flat=True)
    )
    usable = [name for name in names if not is_common(name)]
    return ErasurePage(
        person=person,
        names=usable,
        common=[name for name in names if is_common(name)],
        other_names=sorted(used - {"", *usable, *rules}),
        previews=None
        if form is None
        else preview(
            visitor.lab,
            dict.fromkeys([*usable, *form.further_names()]),
            form.data.getlist("in_texts") if form.is_bound else None,  # type: ignore[attr-defined]
        ),
    )


def suggested_names(visitor: Visitor, person: User) -> str:
    """Return the OS users that only rules of this person name, one per line."""
    by_person = os_users(visitor.lab)
    others = {name for pk, names in by_person.items() if pk != person.pk for name in names}
    own = by_person.get(person.pk, [])
    return "\n".join(name for name in own if name not in others and not is_common(name))


def export_response(visitor: Visitor, person: User, form: str) -> HttpResponseBase:
    """Return what the lab stores about a person, as JSON or CSV: for themselves, and for managers
    who may see them.
    """
    if form not in ("json", "csv"):
        raise InvalidInput("There is no such format.", field="format", hint="Use json or csv.")
    if person.pk != visitor.user.pk:
        visitor.require_role(MANAGERS)
        if not visibility_for(visitor.lab, visitor.user).of_person(person.pk):
            raise Forbidden(
                "The lab's policy hides the use of other persons.",
                hint="The person can export their data on their own page.",
            )
    rows = stored_about(visitor.lab, person, os_users(visitor.lab).get(person.pk, []))
    name = f"{visitor.lab.slug}-person-{person.pk}"
    if form == "csv":
        return csv_response(name, EXPORT_HEAD, rows)
    content: dict[str, Any] = {
        "lab": visitor.lab.slug,
        "person": person.get_username(),
        "at_us": visitor.now,
        "rows": [dict(zip(EXPORT_HEAD, row, strict=True)) for row in rows],
    }
    response = JsonResponse(content, json_dumps_params={"ensure_ascii": False, "indent": 1})
    response["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return response
