"""Content of the page Planner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.core.clock import now_us
from apps.dashboard.planner.estimate import EstimateCard, compute_or_refuse, estimate_card
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.job import job_input
from apps.dashboard.planner.layers import LayerRow, drawn_rows
from apps.dashboard.planner.places import DEFAULT_SORT, PlaceTable, place_table
from apps.dashboard.planner.result import Result, planner_result
from apps.planner.cards import market_sizes, node_cards


@dataclass(frozen=True)
class PlannerPage:
    """The page. ``result`` and ``estimate`` None: the form was not sent, or it has
    errors. ``places`` None: also if the work of the training is unknown.
    """

    form: PlannerForm
    result: Result | None
    estimate: EstimateCard | None
    places: PlaceTable | None

    @property
    def status(self) -> int:
        """Return the HTTP status: 400 for a form with errors."""
        return 400 if self.form.is_bound and self.form.errors else 200

    def require_result(self) -> Result:
        """Return the result of a valid form."""
        assert self.result is not None, "a valid form has a result"
        return self.result

    @property
    def query(self) -> str:
        """Return the query of this page."""
        return self.form.query

    @property
    def drawn(self) -> list[LayerRow]:
        """Return the layers of the chart."""
        return drawn_rows(self.result.layers) if self.result else []


def planner_page(lab: Lab, params: Mapping[str, Any]) -> PlannerPage:
    """Return the page of a form that is sent with GET. The number of queries is constant."""
    cards, market, now = node_cards(lab), market_sizes(), now_us()
    form = PlannerForm(params, cards, market)
    if not (form.is_bound and form.is_valid()):
        return PlannerPage(form, None, None, None)
    job = job_input(form, cards)
    computed, refusal = compute_or_refuse(lab, job, now)
    return PlannerPage(
        form,
        planner_result(form, cards, market),
        estimate_card(form, computed, refusal),
        place_table(lab, form, job, computed, params.get("sort") or DEFAULT_SORT, now),
    )
