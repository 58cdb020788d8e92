"""Form that saves the estimate of the page Planner."""

from django import forms
from django.http import QueryDict

from apps.core.errors import InvalidInput
from apps.dashboard.forms import PageForm, require_valid
from apps.dashboard.planner.planner_page import planner_form
from apps.planner.models import Estimate
from apps.planner.services import compute_estimate, store_estimate


class SaveForm(PageForm):
    """``query``: that of the page Planner. ``estimate``: the saved one."""

    query = forms.CharField(required=False, max_length=200_000, label="Plan")
    estimate: Estimate

    @property
    def first_error(self) -> str:
        """Return the first error."""
        return str(next(iter(self.errors.values()))[0])

    def save(self) -> str:
        """Store the estimate. Raises InvalidInput for a plan without a basis."""
        lab, now = self.visitor.lab, self.visitor.now
        made = planner_form(lab, QueryDict(self.cleaned_data["query"]))
        if not made.form.is_bound:
            raise InvalidInput("There is no plan to save.", hint="Fill in the planner first.")
        require_valid(made.form)
        computed = compute_estimate(lab=lab, job=made.job_input(), now=now)
        if computed.figures is None:
            raise InvalidInput(
                "There is no basis for an estimate, so that nothing is saved.",
                hint=" ".join(computed.missing),
            )
        self.estimate = store_estimate(
            lab=lab, computed=computed, person=self.visitor.user, now=now
        )
        return "Saved."
