"""Ways in: the set-up wizard, one-time sign-in, codes for terminals; and the two probes."""

from dataclasses import dataclass, field

from django.conf import settings
from django.contrib.auth import login
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from apps.accounts import selectors as accounts
from apps.accounts.choices import CodePurpose
from apps.accounts.services.labs import issue_code, spend_code
from apps.carbon.figures.energy import zones
from apps.core.clock import now_us
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.migration_history import explain_refusal, read_histories
from apps.dashboard.decorators import Visitor, page, public
from apps.dashboard.setup.services import SITE_KINDS, set_up, zone_label

BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass
class SetupForm:
    """What the wizard asks, as typed, and what was wrong with it."""

    code: str = ""
    lab: str = ""
    username: str = ""
    zone: str = ""
    site_kind: str = "workstation"
    time_zone: str = ""
    zones: list[str] = field(default_factory=list)
    kinds: list[tuple[str, str]] = field(default_factory=lambda: SITE_KINDS)
    error: LabCarbonError | None = None

    @property
    def wrong(self) -> str:
        return (self.error.field or "form") if self.error else ""


def _typed(request: HttpRequest) -> SetupForm:
    form = SetupForm()
    for name in ("code", "lab", "username", "zone", "site_kind", "time_zone"):
        setattr(form, name, request.POST.get(name, ""))
    return form


@never_cache
@public("GET", "POST")
def setup(request: HttpRequest) -> HttpResponseBase:
    """Ask for the lab, its first person and its place. Looking does not spend the code; finishing does."""
    if accounts.is_set_up():
        return render(request, "dashboard/setup/setup_done.html", status=200 if request.method != "POST" else 409)
    form = _typed(request) if request.method == "POST" else SetupForm(code=request.GET.get("code", ""))
    if request.method == "POST":
        try:
            if request.POST.get("no_zone"):
                form.zone = ""
            result = set_up(
                lab_name=form.lab,
                username=form.username,
                password=request.POST.get("password", ""),
                zone=form.zone,
                site_kind=form.site_kind,
                time_zone=form.time_zone,
                now=now_us(),
                code=form.code,
            )
            login(request, result.user, backend=BACKEND)
            return HttpResponseRedirect(reverse("overview"))
        except LabCarbonError as error:
            form.error = error
    form.zones = [zone_label(code, name) for code, name in zones()]
    return render(request, "dashboard/setup/setup.html", {"form": form}, status=form.error.status if form.error else 200)


def _next(request: HttpRequest) -> str:
    """Return where to go on to: an address of this site, else the Overview."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return target if safe else reverse("overview")


@never_cache
@public("GET", "POST")
def signin(request: HttpRequest) -> HttpResponseBase:
    """Trade a one-time link for a session. Looking does not spend it; the button does."""
    if request.method != "POST":
        return render(request, "dashboard/setup/signin.html", {"code": request.GET.get("code", ""), "next": _next(request)})
    spent = spend_code(purpose=CodePurpose.SIGN_IN, code=request.POST.get("code", ""), now=now_us())
    if spent.user is None or not spent.user.is_active:
        raise InvalidInput("This link belongs to nobody who may sign in.", field="code", hint="Ask an admin of your lab.")
    login(request, spent.user, backend=BACKEND)
    if spent.lab_id is not None:
        request.session[accounts.LAB_KEY] = spent.lab_id
    return HttpResponseRedirect(_next(request))


@never_cache
@page("GET", "POST")
def login_code(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Make a one-time code that signs a terminal in."""
    code = ""
    if request.method == "POST":
        code = issue_code(purpose=CodePurpose.LOGIN, now=visitor.now, lab=visitor.lab, user=visitor.user)
    command = f"labcarbon-collect login {settings.SITE_URL}"
    return render(request, "dashboard/setup/login_code.html", {"code": code, "command": command})


@public()
def livez(request: HttpRequest) -> HttpResponse:
    """Answer while the process lives."""
    return JsonResponse({"status": "ok"})


@public()
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database answers and no migration waits, else 503 with what to do."""
    try:
        executor = MigrationExecutor(connection)
        refused = explain_refusal(read_histories(connection, executor.loader))
        waiting = [
            f"{step[0].app_label}.{step[0].name}" for step in executor.migration_plan(executor.loader.graph.leaf_nodes())
        ]
    except DatabaseError as error:
        message = "The database does not answer."
        return JsonResponse({"status": "down", "message": message, "detail": type(error).__name__}, status=503)
    if refused:
        message = "This version cannot migrate the database: `manage.py migrate` prints why and what to do."
        return JsonResponse({"status": "down", "message": message}, status=503)
    if waiting:
        message = "Migrations wait: run `manage.py migrate`."
        return JsonResponse({"status": "down", "message": message, "waiting": waiting}, status=503)
    return JsonResponse({"status": "ok", "database": connection.vendor})
