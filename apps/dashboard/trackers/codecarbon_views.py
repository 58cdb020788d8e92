"""CodeCarbon: making a token for its unmodified client, and the lines to copy."""

from decimal import Decimal, InvalidOperation

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable
from apps.core.units import PPM
from apps.dashboard.decorators import WRITERS, Visitor, page
from apps.dashboard.form_fields import optional_node, required_site
from apps.dashboard.settings.forms import DAY_US, LIFETIMES
from apps.dashboard.trackers.codecarbon import codecarbon_page, snippets
from apps.fleet.models import Site
from apps.trackers.codecarbon.services.tokens import create_codecarbon_token


@never_cache
@page("GET", "POST")
def codecarbon(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the lab's CodeCarbon tokens; POST makes one and shows it this once."""
    error: LabCarbonError | None = None
    token_snippets = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            token_snippets = snippets(_made(request, visitor))
        except LabCarbonError as raised:
            error = raised
    context = {
        "page": codecarbon_page(visitor), "made": token_snippets, "error": error, "lives": LIFETIMES,
        "typed": {} if token_snippets else request.POST,
    }  # fmt: skip
    return render(request, "dashboard/trackers/codecarbon.html", context, status=error.status if error else 200)


def _made(request: HttpRequest, visitor: Visitor) -> str:
    days = request.POST.get("days", "")
    if days not in dict(LIFETIMES):
        raise InvalidInput(f"{days[:40]!r} is no choice of a life.", field="days", hint="Use 30, 90, 365 or nothing.")
    node = optional_node(request.POST, visitor)
    _, text = create_codecarbon_token(
        lab=visitor.lab,
        name=request.POST.get("name", ""),
        project=_project(request, visitor),
        node=node,
        site=None if node else _site(request, visitor),
        client_pue_ppm=_pue_ppm(request.POST.get("client_pue", "")),
        expires_us=visitor.now + int(days) * DAY_US if days else None,
        by=visitor.user,
        now=visitor.now,
    )
    return text


def _project(request: HttpRequest, visitor: Visitor) -> Project:
    slug = request.POST.get("project", "")
    project = None if is_unstorable(slug) else project_by_slug(visitor.lab, slug)
    if project is None:
        raise InvalidInput("Choose the project that its energy is charged to.", field="project", hint="One of the list.")
    return project


def _site(request: HttpRequest, visitor: Visitor) -> Site:
    if not request.POST.get("site"):
        raise InvalidInput(
            "Without a machine, say at which site it runs.",
            field="site",
            hint="Its grid zone and PUE make carbon of energy.",
        )
    return required_site(request.POST, visitor)


def _pue_ppm(text: str) -> int:
    try:
        value = Decimal(text.strip().replace(",", ".") or "1")
    except InvalidOperation as error:
        raise InvalidInput(f"{text[:40]!r} is no PUE.", field="client_pue", hint="Write for example 1.2.") from error
    if not value.is_finite() or not 1 <= value <= 10:
        raise InvalidInput("A PUE lies between 1 and 10.", field="client_pue", hint="1 where CodeCarbon was given none.")
    return int(value * PPM)
