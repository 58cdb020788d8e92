"""Form of the scopes page: who controls the electricity of a site."""

from typing import Any

from django import forms

from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import PageForm, SiteField
from apps.fleet.choices import Control
from apps.fleet.models import Site
from apps.fleet.services import set_control


class SiteControlForm(PageForm):
    """Record who controls the electricity of a site."""

    roles = MANAGERS

    site = SiteField(with_declared=True, widget=forms.HiddenInput)
    control = forms.ChoiceField(label="Electricity control", choices=Control.choices)

    def save(self) -> str:
        site: Site = self.cleaned_data["site"]
        set_control(
            site=site,
            control=self.cleaned_data["control"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"Electricity control of {site.name} recorded. Totals do not change."

    @classmethod
    def of_site(cls, visitor: Visitor, site: Site) -> "SiteControlForm":
        """Return the form of one row of the table of sites."""
        values: dict[str, Any] = {"site": site.pk, "control": site.control}
        form = cls(visitor, initial=values)
        form.auto_id = f"site-{site.pk}-%s"
        return form
