"""Who may see a page and how a page says no: sign-in, the lab of a session, methods, anticipated errors."""

from collections.abc import Callable
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
MANAGERS = frozenset({Role.PI, Role.ADMIN})  # may enrol nodes, change sites and nodes, invite people, read the audit log
ADMINS = frozenset({Role.ADMIN})  # may change people, services' tokens and the lab's settings

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Visitor:
    """The person of a session in the lab at hand, the time of the request (µs), and all labs they may switch to."""

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
            raise Forbidden(f"Your role ({self.role}) {reason}.", hint="Ask an admin of your lab for another role.")


def visitor_of(request: HttpRequest) -> Visitor:
    """Return who asks; raise Forbidden for a person without a lab."""
    user = cast("User", request.user)
    current, *others = memberships_of(user, request.session.get(LAB_KEY))
    labs = sorted((membership.lab for membership in (current, *others)), key=lambda lab: (lab.name.casefold(), lab.pk))
    visitor = Visitor(user, current.lab, current.role, now_us(), tuple(labs))
    request.visitor = visitor  # type: ignore[attr-defined]  # read by contexts.shell
    return visitor


def render_error(request: HttpRequest, error: LabCarbonError) -> HttpResponse:
    """Return an anticipated error as a page in the same look."""
    titles = {403: "You may not do this", 404: "There is nothing here", 405: "This address works another way"}
    page = {"title": titles.get(error.status, "This cannot be shown as asked"), "error": error, "status": error.status}
    return render(request, "error_page.html", page, status=error.status)


class WrongMethod(LabCarbonError):
    status = 405
    code = "method_not_allowed"


def _method_not_allowed(request: HttpRequest, methods: tuple[str, ...]) -> HttpResponse:
    error = WrongMethod(f"This address does not answer {request.method}.", hint=f"It answers {' and '.join(methods)}.")
    response = render_error(request, error)
    response["Allow"] = ", ".join(methods)
    return response


def page(*methods: str) -> Callable[[View], View]:
    """Return a decorator for a page of the lab: signed in, one of ``methods`` (default GET), errors told in words."""
    allowed = methods or ("GET",)

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(
                    request.get_full_path() if request.method in {"GET", "HEAD"} else reverse("overview")
                )
            try:
                visitor = visitor_of(request)
                if request.method not in allowed and not (request.method == "HEAD" and "GET" in allowed):
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
            if request.method not in allowed and not (request.method == "HEAD" and "GET" in allowed):
                return _method_not_allowed(request, allowed)
            try:
                return view(request, *args, **kwargs)
            except LabCarbonError as error:
                return render_error(request, error)

        return wrapped

    return decorate


def or_not_found(record: Any, noun: str, listing: str) -> Any:
    """Return ``record``, or raise NotFound: one answer for what is not there and what belongs to another lab."""
    if record is None:
        raise NotFound(f"There is no such {noun} in your lab.", hint=f"See {listing} for those there are.")
    return record
