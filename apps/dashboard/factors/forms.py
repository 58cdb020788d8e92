"""The form that changes the lab's basis, and its field."""

from typing import Any

from django import forms

from apps.accounts.choices import Basis
from apps.carbon.basis import choose_basis
from apps.dashboard.decorators import ADMINS
from apps.dashboard.forms import PageForm


class BasisField(forms.ChoiceField):
    """A basis of emission factors."""

    def __init__(self, **options: Any) -> None:
        defaults = {
            "label": "Basis",
            "choices": [
                (
                    Basis.LIFECYCLE.value,
                    "Lifecycle: with construction of plants and upstream fuels",
                ),
                (Basis.DIRECT.value, "Direct: generation only, as official Scope 2 factors"),
            ],
            "widget": forms.RadioSelect,
            "error_messages": {
                "required": "Choose a basis.",
                "invalid_choice": "“%(value)s” is not a basis. Choose from the list.",
            },
        }
        super().__init__(**{**defaults, **options})


class BasisForm(PageForm):
    """The basis of the lab's emission factors."""

    roles = ADMINS
    basis = BasisField()

    def save(self) -> str:
        visitor = self.visitor
        changed = choose_basis(
            lab=visitor.lab, basis=self.cleaned_data["basis"], by=visitor.user, now=visitor.now
        )
        if not changed:
            return "The basis is unchanged."
        return f"The lab now uses {visitor.lab.get_basis_display().lower()} factors."
