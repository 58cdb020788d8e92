"""Views of holds: list, place and lift."""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.selectors import project_by_slug
from apps.artifacts.holds import hold_by_pk
from apps.artifacts.selectors import artifact_by_digest
from apps.artifacts.services.holds import Holdable, lift_hold, place_hold
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.intervals import midnight_hour
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.artifacts.holds import hold_subject, holds_page
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.runs.selectors import run_of

SUBJECT_FIELDS = ("artifact", "project", "run")


@page("GET", "POST")
def holds(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List holds; POST places or lifts a hold."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            return HttpResponseRedirect(_handle_post(request, visitor))
        except LabCarbonError as exception:
            error = exception
    named = request.POST if request.method == "POST" else request.GET
    holds_shown = holds_page(
        lab=visitor.lab, on=_requested_subject(named, visitor), user=visitor.user, can_write=visitor.can_write,
        can_manage=visitor.can_manage, now=visitor.now,
    )  # fmt: skip
    context = {"page": holds_shown, "error": error, "typed": request.POST}
    return render(request, "dashboard/artifacts/holds.html", context, status=error.status if error else 200)


def _handle_post(request: HttpRequest, visitor: Visitor) -> str:
    """Perform the posted action; return the address of the next page."""
    data = request.POST
    if data.get("do") == "lift":
        hold = or_not_found(hold_by_pk(visitor.lab, parse_record_number(data.get("hold", ""))), "hold", reverse("holds"))
        lift_hold(hold=hold, by=visitor.user, is_manager=visitor.can_manage, now=visitor.now)
        messages.success(request, "The hold is lifted. Plans that it took lines out of stay as they are.")
        return reverse("holds")
    if data.get("do") != "place":
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    on = _requested_subject(data, visitor)
    if on is None:
        raise InvalidInput("What is to be held?", field="project", hint="Choose a project, or begin on an artifact's page.")
    until = _parse_until(data, visitor)
    place_hold(
        on=on,
        reason=data.get("reason", ""),
        until_hour=until,
        by=visitor.user,
        is_manager=visitor.can_manage,
        now=visitor.now,
    )
    messages.success(request, "It is held: no plan takes it until then.")
    return hold_subject(on).href


def _requested_subject(data: QueryDict, visitor: Visitor) -> Holdable | None:
    """Return the subject named in a form or address. Raises NotFound for a subject outside the
    visitor's lab.
    """
    values = [(name, str(data[name])) for name in SUBJECT_FIELDS if data.get(name)]
    if not values:
        return None
    name, value = values[0]
    lookups: dict[str, Callable[[], Holdable | None]] = {
        "artifact": lambda: artifact_by_digest(visitor.lab, value),
        "project": lambda: None if is_unstorable(value) else project_by_slug(visitor.lab, value),
        "run": lambda: _run_subject(value, visitor),
    }
    on: Holdable = or_not_found(lookups[name](), name, reverse("holds"))
    return on


def _run_subject(text: str, visitor: Visitor) -> Holdable | None:
    try:
        return run_of(visitor.lab, UUID(text))
    except ValueError:
        return None


def _parse_until(data: Mapping[str, str], visitor: Visitor) -> int | None:
    """Return the UTC hour at which the named day ends in the lab's time zone; None without a day."""
    text = data.get("until_day", "")
    if not text:
        return None
    try:
        return midnight_hour(date.fromisoformat(text) + timedelta(days=1), visitor.zone)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:40]!r} is no day.", field="until_day", hint="Choose the last day it is held.") from error
