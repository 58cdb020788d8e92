"""Settings: tokens, the lab's own settings, the audit log."""

import json
from collections.abc import Iterator
from typing import Any
from zoneinfo import available_timezones

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts.choices import PersonView, TokenKind
from apps.accounts.models import AuditEntry
from apps.accounts.services.labs import change_lab
from apps.accounts.services.tokens import create_token, revoke_token
from apps.carbon.figures.scopes import PROFILE_NAMES
from apps.core.clock import utc
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import ADMINS, MANAGERS, Visitor, page
from apps.dashboard.people.pages import POLICY_WORDS
from apps.dashboard.settings.pages import audit_page, tokens_page

DAY_US = 86_400_000_000
LIFETIMES = (("", "Until I end it"), ("30", "30 days"), ("90", "90 days"), ("365", "A year"))


@never_cache
@page("GET", "POST")
def tokens(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List tokens; POST makes one and shows it this once."""
    text = ""
    error: LabCarbonError | None = None
    if request.method == "POST":
        try:
            text = _create_token(request, visitor)
        except LabCarbonError as wrong:
            error = wrong
    context = {
        "page": tokens_page(visitor), "text": text, "error": error, "lives": LIFETIMES,
        "typed": {} if text else request.POST, "chosen": [] if text else request.POST.getlist("scopes"),
    }  # fmt: skip
    return render(request, "dashboard/settings/tokens.html", context, status=error.status if error else 200)


def _create_token(request: HttpRequest, visitor: Visitor) -> str:
    kind = request.POST.get("kind", TokenKind.USER)
    if kind not in {TokenKind.USER, TokenKind.SERVICE}:
        raise InvalidInput(f"{kind[:40]!r} is no kind of token made here.", field="kind", hint="Use user or service.")
    days = request.POST.get("days", "")
    if days not in dict(LIFETIMES):
        raise InvalidInput(f"{days[:40]!r} is no choice of a life.", field="days", hint="Use 30, 90, 365 or nothing.")
    _, text = create_token(
        lab=visitor.lab,
        kind=TokenKind(kind),
        name=request.POST.get("name", ""),
        scopes=request.POST.getlist("scopes"),
        expires_us=visitor.now + int(days) * DAY_US if days else None,
        by=visitor.user,
        now=visitor.now,
    )
    return text


@page("POST")
def token_revoke(request: HttpRequest, visitor: Visitor, token: str) -> HttpResponseBase:
    """End a token."""
    ended = revoke_token(lab=visitor.lab, public_id=token, by=visitor.user, now=visitor.now)
    messages.success(request, f"The token {ended.name or ended.public_id} has ended.")
    return HttpResponseRedirect(reverse("tokens"))


@page("GET", "POST")
def lab(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the lab's settings; POST changes them."""
    error: LabCarbonError | None = None
    typed = {"lab": visitor.lab.name, "time_zone": visitor.lab.time_zone, "person_view": visitor.lab.person_view}
    typed["profile"] = visitor.lab.profile
    if request.method == "POST":
        visitor.require_role(ADMINS)
        typed = {name: request.POST.get(name, "") for name in typed} | {
            "profile": request.POST.get("profile", visitor.lab.profile)
        }
        try:
            changed = change_lab(
                lab=visitor.lab,
                by=visitor.user,
                name=typed["lab"],
                time_zone=typed["time_zone"],
                person_view=typed["person_view"],
                profile=typed["profile"],
                now=visitor.now,
            )
            messages.success(request, "The settings are changed." if changed else "Nothing was different.")
            return HttpResponseRedirect(reverse("lab-settings"))
        except LabCarbonError as wrong:
            error = wrong
    policies = [(policy, policy.label, POLICY_WORDS[policy]) for policy in PersonView]
    context = {
        "typed": typed,
        "error": error,
        "profile_names": PROFILE_NAMES.items(),
        "policies": policies,
        "zones": sorted(available_timezones()),
    }
    return render(request, "dashboard/settings/lab_settings.html", context, status=error.status if error else 200)


def _action(request: HttpRequest) -> str:
    action = request.GET.get("action", "")
    if is_unstorable(action) or len(action) > 64:
        raise InvalidInput("There is no such act in the log.", field="action", hint="Choose one of the list.")
    return action


def _number(text: str) -> int:
    if not text:
        return 0
    number = parse_record_number(text)
    if number is None:
        raise InvalidInput(f"{text[:40]!r} is no number of a row.", field="before", hint="Leave it out for the newest.")
    return number


@page()
def audit(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show who did what, newest first."""
    visitor.require_role(MANAGERS)
    before = _number(request.GET.get("before", ""))
    content = audit_page(lab=visitor.lab, action=_action(request), before=before)
    return render(request, "dashboard/settings/audit_log.html", {"page": content})


@page()
def audit_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the whole log with its chain, so that anybody can check it."""
    visitor.require_role(MANAGERS)
    log = AuditEntry.objects.filter(lab=visitor.lab).order_by("sequence")
    action = _action(request)
    entries = log.filter(action=action) if action else log

    def lines() -> Iterator[tuple[Any, ...]]:
        for row in entries.iterator(chunk_size=1000):
            details = json.dumps(row.details, sort_keys=True, ensure_ascii=False)
            yield (
                row.sequence, utc(row.at_us).isoformat(), row.at_us, row.actor, row.user_id, row.action, row.subject,
                details, row.previous, row.digest,
            )  # fmt: skip

    head = (
        "sequence", "at_utc", "at_us", "actor", "user_id", "action", "subject", "details", "previous_sha256", "sha256",
    )  # fmt: skip
    return csv_response(f"{visitor.lab.slug}-audit", head, lines())
