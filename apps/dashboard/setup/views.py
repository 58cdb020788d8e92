"""Setup, one-time sign-in, login codes for terminals, and the two health checks."""

import logging
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts import selectors as accounts
from apps.accounts.choices import CodePurpose, SignInMethod
from apps.accounts.services.labs import issue_code
from apps.accounts.services.sign_ins import record_failed_sign_in, start_session
from apps.carbon.figures.energy import zones
from apps.core.clock import now_us
from apps.core.database.health import current_problem, unavailability_of
from apps.core.database_problems import DatabaseUnavailable, Problem
from apps.core.migration_history import explain_refusal, read_histories
from apps.dashboard.decorators import Visitor, page, public
from apps.dashboard.setup.forms import SetupForm, SignInForm
from apps.dashboard.setup.services import zone_label


@never_cache
@public("GET", "POST")
def setup(request: HttpRequest) -> HttpResponseBase:
    """Create the lab, its first person and its site. A GET does not spend the code."""
    if accounts.is_set_up():
        return render(
            request,
            "dashboard/setup/setup_done.html",
            status=200 if request.method != "POST" else 409,
        )
    zone_names = zones()
    form = SetupForm(request, has_zones=bool(zone_names))
    if form.is_bound and form.submit():
        start_session(
            request=request, user=form.result.user, method=SignInMethod.SETUP, now=now_us()
        )
        return HttpResponseRedirect(reverse("overview"))
    context = {"form": form, "zones": [zone_label(code, name) for code, name in zone_names]}
    return render(request, "dashboard/setup/setup.html", context, status=form.status)


@never_cache
@public("GET", "POST")
def signin(request: HttpRequest) -> HttpResponseBase:
    """Exchange a one-time link for a session. A GET does not spend the link; the button does."""
    form = SignInForm(request)
    if form.is_bound and form.submit():
        start_session(request=request, user=form.user, method=SignInMethod.LINK, now=now_us())
        if form.lab_id is not None:
            request.session[accounts.LAB_KEY] = form.lab_id
        return HttpResponseRedirect(form.next_url)
    if form.is_bound and "code" in form.errors:
        record_failed_sign_in(user=None, method=SignInMethod.LINK, now=now_us())
    return render(request, "dashboard/setup/signin.html", {"form": form}, status=form.status)


@never_cache
@page("GET", "POST")
def login_code(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Create a one-time code that signs a terminal in."""
    code = ""
    if request.method == "POST":
        code = issue_code(
            purpose=CodePurpose.LOGIN, now=visitor.now, lab=visitor.lab, user=visitor.user
        )
    command = f"labcarbon-collect login {settings.SITE_URL}"
    return render(request, "dashboard/setup/login_code.html", {"code": code, "command": command})


@public()
def livez(request: HttpRequest) -> HttpResponse:
    """Return 200 while the process runs."""
    return JsonResponse({"status": "ok"})


log = logging.getLogger(__name__)


def _not_ready(reason: DatabaseUnavailable) -> JsonResponse:
    body = {
        "status": "down",
        "problem": reason.problem,
        "message": reason.message,
        "hint": reason.hint,
    }
    return JsonResponse(
        body, status=reason.status, headers={"Retry-After": str(reason.retry_after_s)}
    )


@public()
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the database is reachable, intact and fully migrated, else 503 with
    instructions.
    """
    try:
        if reason := current_problem():
            log.warning("not ready: %s", reason.explain())
            return _not_ready(reason)
        applied = frozenset(MigrationRecorder(connection).applied_migrations())
        if not applied:
            return _not_ready(DatabaseUnavailable(Problem.TABLES_MISSING))
        pending = migration_problem(applied)
    except Error as error:
        reason = unavailability_of(error)
        if reason is None:
            raise
        return _not_ready(reason)
    if pending:
        return JsonResponse({"status": "down", **pending}, status=503)
    return JsonResponse({"status": "ok", "database": connection.vendor})


@lru_cache(maxsize=1)
def migration_problem(applied: frozenset[tuple[str, str]]) -> dict[str, Any]:
    """Return which migrations are pending, and what to do. Empty if all are applied.

    ``applied``: the recorded migrations. Building the graph takes ten times as long as reading
    them.
    """
    executor = MigrationExecutor(connection)
    if explain_refusal(read_histories(connection, executor.loader)):
        message = (
            "This version cannot migrate the database: `manage.py migrate` prints the reason and "
            "the steps to take."
        )
        return {"message": message}
    waiting = [
        f"{step[0].app_label}.{step[0].name}"
        for step in executor.migration_plan(executor.loader.graph.leaf_nodes())
    ]
    message = "Migrations are pending: run `manage.py migrate`."
    return {"message": message, "waiting": waiting} if waiting else {}
