"""Content of the page Planner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.layers import LayerRow, drawn_rows
from apps.dashboard.planner.result import Result, planner_result
from apps.planner.cards import market_sizes, node_cards


@dataclass(frozen=True)
class PlannerPage:
    """The page. ``result`` None: the form was not sent, or it has errors."""

    form: PlannerForm
    result: Result | None

    @property
    def status(self) -> int:
        """Return the HTTP status: 400 for a form with errors."""
        return 400 if self.form.is_bound and self.form.errors else 200

    @property
    def query(self) -> str:
        """Return the query of this page."""
        return self.form.query

    @property
    def drawn(self) -> list[LayerRow]:
        """Return the layers of the chart."""
        return drawn_rows(self.result.layers) if self.result else []


def planner_page(lab: Lab, params: Mapping[str, Any]) -> PlannerPage:
    """Return the page of a form that is sent with GET. Four queries."""
    cards, market = node_cards(lab), market_sizes()
    form = PlannerForm(params, cards, market)
    result = planner_result(form, cards, market) if form.is_bound and form.is_valid() else None
    return PlannerPage(form, result)
