"""Saved views of the list of runs: those a visitor can open, and the default one."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import F, Q

from apps.core.errors import LabCarbonError
from apps.dashboard.decorators import Visitor
from apps.dashboard.runs.run_forms import check_query
from apps.runs.models import SavedView

ALL_RUNS = "sort=-started"  # an address with a query never opens the default view
SHIPPED = (
    ("All runs", ""),
    ("Mine", urlencode({"mine": "1"})),
    ("Running", urlencode({"state": "running"})),
    ("Failed", urlencode({"state": "failed"})),
)


@dataclass(frozen=True)
class ViewLink:
    """A view above the list. ``pk`` None: a shipped one."""

    name: str
    query: str
    is_current: bool
    pk: int | None = None
    is_lab: bool = False
    is_default: bool = False
    can_delete: bool = False


def _views(visitor: Visitor) -> list[SavedView]:
    views = SavedView.objects.filter(Q(owner=visitor.user) | Q(owner=None), lab=visitor.lab)
    return list(views.order_by(F("owner").asc(nulls_last=True), "name", "pk"))


def saved_views(visitor: Visitor, current: str) -> list[ViewLink]:
    """Return the views above the list. One query."""
    links = [ViewLink(name, query or ALL_RUNS, query == current) for name, query in SHIPPED]
    for view in _views(visitor):
        is_lab = view.owner_id is None
        can_delete = visitor.can_manage if is_lab else visitor.can_write
        links.append(
            ViewLink(
                view.name,
                view.query or ALL_RUNS,
                view.query == current,
                view.pk,
                is_lab,
                view.is_default,
                can_delete,
            )
        )
    return links


def default_query(visitor: Visitor) -> str:
    """Return the query of the default view: the person's, else the lab's; '' for none, or if it
    is no longer valid.
    """
    for view in _views(visitor):  # own views first
        if view.is_default and view.query:
            try:
                return check_query(visitor, view.query)
            except LabCarbonError:  # such as a project that no longer exists
                return ""
    return ""
