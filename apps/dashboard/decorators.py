"""Access to pages: sign-in, the lab of a session, HTTP methods, and pages for expected errors."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast
from zoneinfo import ZoneInfo

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.choices import Role
from apps.accounts.models import Lab, User
from apps.accounts.selectors import LAB_KEY, memberships_of
from apps.core.clock import now_us
from apps.core.errors import Forbidden, LabCarbonError, NotFound

ALL_ROLES = frozenset(Role)
WRITERS = frozenset({Role.MEMBER, Role.PI, Role.ADMIN})
MANAGERS = frozenset(
    {Role.PI, Role.ADMIN}
)  # enrol nodes, change sites and nodes, invite people, read the audit log
ADMINS = frozenset({Role.ADMIN})  # change people, service tokens and lab settings

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Visitor:
    """The person of a session, their current lab, the time of the request (µs), and all their
    labs.
    """

    user: User
    lab: Lab
    role: str
    now: int
    labs: tuple[Lab, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.lab.time_zone)

    @property
    def can_write(self) -> bool:
        return self.role in WRITERS

    @property
    def can_manage(self) -> bool:
        return self.role in MANAGERS

    @property
    def can_administer(self) -> bool:
        return self.role in ADMINS

    def require_role(self, roles: frozenset[Role]) -> None:
        """Raise Forbidden unless the person has one of ``roles``."""
        if self.role not in roles:
            reason = "is read-only" if self.role == Role.VIEWER else "does not permit this"
            raise Forbidden(
                f"Your role ({self.role}) {reason}.",
                hint="Ask an admin of your lab for another role.",
            )


def visitor_of(request: HttpRequest) -> Visitor:
    """Return the visitor of a request. Raises Forbidden for a person without a lab."""
    user = cast("User", request.user)
    current, *others = memberships_of(user, request.session.get(LAB_KEY))
    labs = sorted(
        (membership.lab for membership in (current, *others)),
        key=lambda lab: (lab.name.casefold(), lab.pk),
    )
    visitor = Visitor(user, current.lab, current.role, now_us(), tuple(labs))
    request.visitor = visitor  # type: ignore[attr-defined]  # read by context_processors.shell
    return visitor


def render_error(request: HttpRequest, error: LabCarbonError) -> HttpResponse:
    """Return a page for an expected error."""
    titles = {403: "Access denied", 404: "Page not found", 405: "Method not allowed"}
    page = {
        "title": titles.get(error.status, "Invalid request"),
        "error": error,
        "status": error.status,
    }
    return render(request, "error_page.html", page, status=error.status)


class WrongMethod(LabCarbonError):
    status = 405
    code = "method_not_allowed"


def _method_not_allowed(request: HttpRequest, methods: tuple[str, ...]) -> HttpResponse:
    error = WrongMethod(
        f"This address does not accept {request.method}.", hint=f"Use {' or '.join(methods)}."
    )
    response = render_error(request, error)
    response["Allow"] = ", ".join(methods)
    return response


def page(*methods: str) -> Callable[[View], View]:
    """Return a decorator for a page of the lab: signed in, one of ``methods`` (default GET),
    errors as pages.
    """
    allowed = methods or ("GET",)

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(
                    request.get_full_path()
                    if request.method in {"GET", "HEAD"}
                    else reverse("overview")
                )
            try:
                visitor = visitor_of(request)
                if request.method not in allowed and not (
                    request.method == "HEAD" and "GET" in allowed
                ):
                    return _method_not_allowed(request, allowed)
                return view(request, visitor, *args, **kwargs)
            except LabCarbonError as error:
                return render_error(request, error)

        return wrapped

    return decorate


def public(*methods: str) -> Callable[[View], View]:
    """Return a decorator for a page that needs no session."""
    allowed = methods or ("GET",)

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method not in allowed and not (
                request.method == "HEAD" and "GET" in allowed
            ):
                return _method_not_allowed(request, allowed)
            try:
                return view(request, *args, **kwargs)
            except LabCarbonError as error:
                return render_error(request, error)

        return wrapped

    return decorate


def framed(view: View) -> View:
    """Decorate a page that is not of a lab: a person with a lab sees it with the navigation."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            with suppress(Forbidden):  # without a lab
                visitor_of(request)
        return view(request, *args, **kwargs)

    return wrapped


def or_not_found(record: Any, noun: str, listing: str) -> Any:
    """Return ``record``, or raise NotFound. Missing records and those of other labs get the same
    error.
    """
    if record is None:
        raise NotFound(f"No such {noun} in your lab.", hint=f"All are listed at {listing}.")
    return record
