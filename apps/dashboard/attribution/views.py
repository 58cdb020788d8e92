"""Whose energy is it: what nobody claimed, claims and their undoing, rules and their preview."""

from datetime import date, datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.selectors import project_by_slug
from apps.attribution.models import AttributionRule, Claim
from apps.attribution.services.rules import (
    claim,
    end_rule,
    make_rule,
    make_rules,
    redo_claim,
    restore_rule,
    undo_claim,
    withdraw_rule,
)
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.intervals import datetime_to_us
from apps.core.text import parse_record_number
from apps.core.units import hour_of
from apps.dashboard.attribution.idle import idle_page
from apps.dashboard.attribution.rules import TYPED, draft, preview, rule_row, rules_page
from apps.dashboard.attribution.rules_import import COLUMNS, MAX_LENGTH, read
from apps.dashboard.attribution.unattributed import consumer_spans_of, unattributed_page
from apps.dashboard.decorators import MANAGERS, WRITERS, Visitor, or_not_found, page
from apps.dashboard.period_menu import period_menu, requested_period
from apps.energy.services.idle import set_idle_policy, withdraw_idle_policy


@page("GET", "POST")
def unattributed(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what nobody claimed; POST claims the chosen lines."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            project = or_not_found(
                project_by_slug(visitor.lab, request.POST.get("project", "")), "project", reverse("projects")
            )
            keys = request.POST.getlist("line")
            if not keys:
                raise InvalidInput("No line was chosen.", field="line", hint="Tick at least one.")
            spans, moved = consumer_spans_of(lab=visitor.lab, period=period, keys=keys, visibility=visibility)
            act = claim(lab=visitor.lab, spans=spans, project=project, by=visitor.user, now=visitor.now)
            message = f"{moved.energy.text}, {moved.emission.text} of {period.label} now belong to {project.name}."
            messages.success(request, message)
            return HttpResponseRedirect(f"{reverse('unattributed')}?{period.query}&done={act}")
        except LabCarbonError as wrong:
            error = wrong
    content = unattributed_page(lab=visitor.lab, period=period, visibility=visibility)
    done = _act(visitor, request.GET.get("done", ""))
    context = {"page": content, "menu": period_menu(request, period), "error": error, "done": done}
    return render(request, "dashboard/attribution/unattributed.html", context, status=error.status if error else 200)


def _act(visitor: Visitor, text: str) -> str:
    """Return the act that can be undone from here, '' if there is none."""
    try:
        act = UUID(text)
    except ValueError:
        return ""
    return str(act) if Claim.objects.filter(lab=visitor.lab, act=act, undone_us__isnull=True).exists() else ""


@page("POST")
def claim_change(request: HttpRequest, visitor: Visitor, act: UUID) -> HttpResponseBase:
    """Undo a claim, or take the undoing back. Whoever made it may, and PIs and admins."""
    row = or_not_found(Claim.objects.filter(lab=visitor.lab, act=act).first(), "claim", reverse("unattributed"))
    visitor.require_role(WRITERS if row.made_by_id == visitor.user.pk else MANAGERS)
    if request.POST.get("do") == "redo":
        number = redo_claim(lab=visitor.lab, act=act, by=visitor.user, now=visitor.now)
        messages.success(request, f"The claim for {row.project.name} stands again ({number} consumers).")
    else:
        number = undo_claim(lab=visitor.lab, act=act, by=visitor.user, now=visitor.now)
        messages.success(request, f"The claim for {row.project.name} is undone ({number} consumers).")
    return HttpResponseRedirect(reverse("unattributed"))


@page("GET", "POST")
def rules(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List rules. POST shows what a new one would move, and with do=make writes it."""
    error: LabCarbonError | None = None
    rule_preview = None
    typed = {name: (request.POST if request.method == "POST" else request.GET).get(name, "").strip() for name in TYPED}
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            rule = draft(lab=visitor.lab, typed=typed, zone=visitor.zone, now=visitor.now)
            if request.POST.get("do") == "make":
                make_rule(rule=rule, by=visitor.user, now=visitor.now)
                messages.success(request, "The rule holds. Figures follow within seconds.")
                return HttpResponseRedirect(reverse("attribution-rules"))
            rule_preview = preview(rule=rule, visibility=visibility_for(visitor.lab, visitor.user))
        except LabCarbonError as wrong:
            error = wrong
    content = rules_page(lab=visitor.lab, hour=hour_of(visitor.now))
    context = {"page": content, "error": error, "typed": typed, "preview": rule_preview}
    return render(request, "dashboard/attribution/rules.html", context, status=error.status if error else 200)


@page("GET", "POST")
def rules_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Read many rules from CSV and show what they would move; with do=make write all of them."""
    visitor.require_role(MANAGERS)
    error: LabCarbonError | None = None
    import_preview = None
    lines = request.POST.get("lines", "")
    if request.method == "POST":
        try:
            lines = _uploaded(request) or lines
            visibility = visibility_for(visitor.lab, visitor.user)
            import_preview = read(lab=visitor.lab, text=lines, zone=visitor.zone, now=visitor.now, visibility=visibility)
            if request.POST.get("do") == "make" and not import_preview.wrong:
                make_rules(rules=import_preview.rules, by=visitor.user, now=visitor.now)
                messages.success(request, f"{len(import_preview.rules)} rules hold. Figures follow within seconds.")
                return HttpResponseRedirect(reverse("attribution-rules"))
        except LabCarbonError as wrong:
            error = wrong
    context = {"read": import_preview, "error": error, "lines": lines, "columns": ", ".join(COLUMNS)}
    return render(request, "dashboard/attribution/rules_import.html", context, status=error.status if error else 200)


def _uploaded(request: HttpRequest) -> str:
    file = request.FILES.get("file")
    if file is None:
        return ""
    if (file.size or 0) > 4 * MAX_LENGTH:
        raise InvalidInput("The file is too large.", field="file", hint="Split it.")
    try:
        return str(file.read().decode("utf-8"))
    except UnicodeDecodeError as wrong:
        raise InvalidInput("The file is no UTF-8 text.", field="file", hint="Save it as CSV, UTF-8.") from wrong


@page("GET", "POST")
def rule(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show what ending or withdrawing a rule would move; POST does it."""
    rows = AttributionRule.objects.filter(lab=visitor.lab).select_related(
        "lab", "node", "site", "project", "person", "made_by"
    )
    rule = or_not_found(rows.filter(pk=pk).first(), "rule", reverse("attribution-rules"))
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            messages.success(request, _change(request.POST.get("do", ""), rule, visitor))
            return HttpResponseRedirect(
                reverse("attribution-rule", args=[pk]) if rule.withdrawn_us else reverse("attribution-rules")
            )
        except LabCarbonError as wrong:
            error = wrong
    visibility = visibility_for(visitor.lab, visitor.user)
    context = {
        "row": rule_row(rule, hour_of(visitor.now)),
        "preview": preview(rule=rule, visibility=visibility, without=rule.withdrawn_us is None),
        "error": error,
    }
    return render(request, "dashboard/attribution/rule.html", context, status=error.status if error else 200)


def _change(do: str, rule: AttributionRule, visitor: Visitor) -> str:
    if do == "end":
        end_rule(rule=rule, at_us=visitor.now, by=visitor.user, now=visitor.now)
        return "The rule ends with the hour that began last; what it decided before stays."
    if do == "withdraw":
        withdraw_rule(rule=rule, by=visitor.user, now=visitor.now)
        return "The rule is withdrawn: figures go back within seconds. It can be restored here."
    if do == "restore":
        restore_rule(rule=rule, by=visitor.user, now=visitor.now)
        return "The rule holds again. Figures follow within seconds."
    raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")


@page("GET", "POST")
def idle(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the policies and what they spread; POST records one, or withdraws one."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            messages.success(request, _change_idle_policy(request, visitor))
            return HttpResponseRedirect(reverse("idle-policy"))
        except LabCarbonError as wrong:
            error = wrong
    content = idle_page(lab=visitor.lab, hour=hour_of(visitor.now))
    typed = {name: request.POST.get(name, "") for name in ("policy", "from_day")}
    context = {"page": content, "error": error, "typed": typed}
    return render(request, "dashboard/attribution/idle_policy.html", context, status=error.status if error else 200)


def _change_idle_policy(request: HttpRequest, visitor: Visitor) -> str:
    withdrawn = request.POST.get("withdraw", "")
    if withdrawn:
        from_hour = parse_record_number(withdrawn)
        if from_hour is None:
            raise InvalidInput("There is no such policy.", field="withdraw", hint="Use one of the buttons.")
        withdraw_idle_policy(lab=visitor.lab, from_hour=from_hour, by=visitor.user, now=visitor.now)
        return "The policy is withdrawn; the one before it holds on."
    text = request.POST.get("from_day", "")
    try:
        day = date.fromisoformat(text)
        from_us = datetime_to_us(datetime(day.year, day.month, day.day, tzinfo=visitor.zone))
    except (ValueError, OverflowError) as wrong:
        raise InvalidInput(f"{text[:20]!r} is not a day.", field="from_day", hint="Write 2026-11-01.") from wrong
    set_idle_policy(
        lab=visitor.lab, policy=request.POST.get("policy", ""), from_us=from_us, by=visitor.user, now=visitor.now
    )
    return "The policy is recorded; figures follow at once."
