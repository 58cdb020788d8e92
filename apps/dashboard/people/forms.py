"""Forms of the people pages: invitations, roles, the choice of a lab."""

from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.choices import MAY_GRANT, Role
from apps.accounts.models import Lab, Membership, User
from apps.accounts.services.invitations import (
    accept_invitation,
    check_role,
    checked_email,
    invite,
)
from apps.accounts.services.members import change_role
from apps.core.errors import NotFound
from apps.dashboard.decorators import ADMINS, ALL_ROLES, MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.setup.forms import PasswordField, PublicForm, UsernameField
from apps.dashboard.setup.services import accept_as_new_person


class InvitationForm(PageForm):
    """Invite a person; ``link`` is the one-time link."""

    roles = MANAGERS
    role = TextField(label="Role", widget=forms.Select)
    email = TextField(
        label="E-mail (optional)",
        required=False,
        max_length=254,
        widget=forms.EmailInput({"autocomplete": "off"}),
        help_text=(
            "With institutional sign-in, the person who verifies this address joins without "
            "the link."
        ),
    )
    note = TextField(
        label="Note (optional)",
        required=False,
        max_length=200,
        widget=forms.TextInput({"placeholder": "New PhD student"}),
    )
    link = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        roles = MAY_GRANT[self.visitor.role]
        self.fields["role"].widget.choices = [(role, Role(role).label) for role in roles]

    def clean(self) -> dict[str, Any]:
        self.check_fields({"role": check_role, "email": checked_email})
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        values = self.cleaned_data
        _, code = invite(
            lab=self.visitor.lab,
            role=values["role"],
            by=self.visitor.user,
            now=self.visitor.now,
            email=values["email"],
            note=values["note"],
        )
        self.link = f"{settings.SITE_URL}{reverse('invitation')}?code={code}"
        return ""


class RoleForm(PageForm):
    """Change the role of ``person``."""

    roles = ADMINS
    role = TextField(
        label="Role",
        widget=forms.Select(choices=Role.choices),
        required=False,  # the service refuses an empty role
    )
    person: User

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        label = f"Role of {self.person.get_username()}"
        self.fields["role"].widget.attrs.update(
            {"aria-label": label, "id": f"role-{self.person.pk}"}
        )

    def save(self) -> str:
        changed = change_role(
            lab=self.visitor.lab,
            person=self.person,
            role=self.cleaned_data["role"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"{self.person.get_username()} now has the role {Role(changed.role).label}."


class LabSwitchForm(PageForm):
    """Choose another of one's labs."""

    roles = ALL_ROLES
    lab = forms.Field(required=False)
    target: Lab

    def save(self) -> str:
        slug = self.cleaned_data["lab"]
        target = next((lab for lab in self.visitor.labs if lab.slug == slug), None)
        if target is None:
            raise NotFound(
                "You are not a member of this lab.",
                hint="Choose a lab from the menu at the top of the page.",
            )
        self.target = target
        return ""


class JoinForm(PublicForm):
    """Join a lab by an invitation, with a new account unless the person is signed in."""

    code = forms.Field(required=False, widget=forms.HiddenInput)
    username = UsernameField()
    password = PasswordField(
        label="Password", error_messages={"required": "Enter a password of 8 characters or more."}
    )
    membership: Membership

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self.user = request.user if request.user.is_authenticated else None
        if self.user is not None:
            del self.fields["username"], self.fields["password"]

    def save(self) -> str:
        code = self.cleaned_data["code"] or ""
        if self.user is not None:
            self.membership = accept_invitation(code=code, user=self.user, now=self.now)
        else:
            values = self.cleaned_data
            self.membership = accept_as_new_person(
                code=code, username=values["username"], password=values["password"], now=self.now
            )
        return f"You joined {self.membership.lab.name} as {Role(self.membership.role).label}."
