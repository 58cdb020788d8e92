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

from apps.accounts.audit import names_of
from apps.accounts.choices import Act, PersonView
from apps.accounts.models import AuditEntry, Lab
from apps.accounts.person_names import UNKNOWN, numbers_in
from apps.accounts.services.tokens import revoke_token
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.settings.forms import FIRST_PRICE, LabForm, TokenForm
from apps.dashboard.settings.settings_pages import audit_page, tokens_page


@never_cache
@page("GET", "POST")
def tokens(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List tokens; POST creates one and shows its text once."""
    form = TokenForm.from_request(request, visitor)
    is_created = form.is_bound and form.submit()
    context = {
        "page": tokens_page(visitor),
        "text": form.text,
        "form": TokenForm(visitor) if is_created else form,
    }
    return render(request, "dashboard/settings/tokens.html", context, status=form.status)


@page("POST")
def token_revoke(request: HttpRequest, visitor: Visitor, token: str) -> HttpResponseBase:
    """Revoke a token."""
    revoked = revoke_token(lab=visitor.lab, public_id=token, by=visitor.user, now=visitor.now)
    messages.success(request, f"Token {revoked.name or revoked.public_id} revoked.")
    return HttpResponseRedirect(reverse("tokens"))


@page("GET", "POST")
def lab(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the lab's settings; POST changes them."""
    lab = visitor.lab
    initial = {
        "lab": lab.name,
        "time_zone": lab.time_zone,
        "person_view": lab.person_view,
        "profile": lab.profile,
        "currency": lab.currency if lab.is_currency_chosen else FIRST_PRICE,
    }
    form = LabForm.from_request(request, visitor, initial=initial)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("lab-settings"))
    context = {
        "form": form,
        "policy": PersonView(lab.person_view).label,
        "zones": sorted(available_timezones()),
    }
    return render(request, "dashboard/settings/lab_settings.html", context, status=form.status)


def _action(request: HttpRequest, lab: Lab) -> str:
    action = request.GET.get("action", "")
    log = AuditEntry.objects.filter(lab=lab, action=action)
    if action and action not in Act.values and (is_unstorable(action) or not log.exists()):
        raise InvalidInput(
            "The log has no such action.", field="action", hint="Choose an action from the list."
        )
    return action


def _number(text: str) -> int:
    if not text:
        return 0
    number = parse_record_number(text)
    if number is None:
        raise InvalidInput(
            f"{text[:40]!r} is not an entry number.",
            field="before",
            hint="Leave it out to see the newest entries.",
        )
    return number


@page()
def audit(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the audit log, newest first."""
    visitor.require_role(MANAGERS)
    before = _number(request.GET.get("before", ""))
    content = audit_page(lab=visitor.lab, action=_action(request, visitor.lab), before=before)
    return render(request, "dashboard/settings/audit_log.html", {"page": content})


@page()
def audit_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the whole log with its hash chain for verification."""
    visitor.require_role(MANAGERS)
    log = AuditEntry.objects.filter(lab=visitor.lab).order_by("sequence")
    action = _action(request, visitor.lab)
    entries = log.filter(action=action) if action else log

    def lines() -> Iterator[tuple[Any, ...]]:
        names = names_of(visitor.lab)
        for row in entries.iterator(chunk_size=1000):
            details = json.dumps(row.details, sort_keys=True, ensure_ascii=False)
            yield (
                row.sequence,
                utc(row.at_us).isoformat(),
                row.at_us,
                row.actor,
                row.user_id,
                row.action,
                row.subject,
                details,
                row.previous,
                row.digest,
                json.dumps(
                    {
                        str(number): names.get(number, UNKNOWN)
                        for number in sorted(numbers_in([row.actor, row.subject, row.details]))
                    },
                    ensure_ascii=False,
                ),
            )

    head = (
        "sequence",
        "at_utc",
        "at_us",
        "actor",
        "user_id",
        "action",
        "subject",
        "details",
        "previous_sha256",
        "sha256",
        "names",
    )
    return csv_response(f"{visitor.lab.slug}-audit", head, lines())
