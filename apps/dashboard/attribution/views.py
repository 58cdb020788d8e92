"""Attribution pages: unattributed energy, claims, rules with their import, and the idle energy
policy.
"""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.attribution.models import AttributionRule, Claim
from apps.carbon.figures.visibility import visibility_for
from apps.core.units import hour_of
from apps.dashboard.attribution.forms import (
    RULE_ACTION_FORMS,
    ClaimForm,
    CreateRuleForm,
    RedoClaimForm,
    RuleForm,
    SetIdlePolicyForm,
    UndoClaimForm,
    WithdrawIdlePolicyForm,
)
from apps.dashboard.attribution.forms_import import CreateRulesForm, RulesImportForm
from apps.dashboard.attribution.idle_policy_page import idle_page
from apps.dashboard.attribution.rule_pages import preview, rule_row, rules_page
from apps.dashboard.attribution.unattributed_page import unattributed_page
from apps.dashboard.decorators import MANAGERS, WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.frame.period_menu import period_menu, requested_period


@page("GET", "POST")
def unattributed(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List unattributed energy. POST claims the selected rows."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    if request.method == "POST":
        visitor.require_role(WRITERS)
    form = ClaimForm.from_request(request, visitor, period=period, visibility=visibility)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(f"{reverse('unattributed')}?{period.query}&claim={form.act}")
    context = {
        "page": unattributed_page(lab=visitor.lab, period=period, visibility=visibility),
        "menu": period_menu(request, period, visitor.now),
        "form": form,
        "undoable_claim": _undoable_claim(visitor, request.GET.get("claim", "")),
    }
    return render(request, "dashboard/attribution/unattributed.html", context, status=form.status)


def _undoable_claim(visitor: Visitor, text: str) -> str:
    """Return the UUID of a claim that can be undone, '' for none."""
    try:
        act = UUID(text)
    except ValueError:
        return ""
    return (
        str(act)
        if Claim.objects.filter(lab=visitor.lab, act=act, undone_us__isnull=True).exists()
        else ""
    )


@page("POST")
def claim_change(request: HttpRequest, visitor: Visitor, act: UUID) -> HttpResponseBase:
    """Undo or restore a claim. Its author, PIs and admins have the right to do so."""
    row = or_not_found(
        Claim.objects.filter(lab=visitor.lab, act=act).first(), "claim", reverse("unattributed")
    )
    visitor.require_role(WRITERS if row.created_by_id == visitor.user.pk else MANAGERS)
    form = PageForms(request, visitor, [UndoClaimForm, RedoClaimForm], claim=row).submitted
    if form is not None and form.submit():
        messages.success(request, form.message)
    return HttpResponseRedirect(reverse("unattributed"))


@page("GET", "POST")
def rules(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List rules. POST previews a new rule, or creates it."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(
        request, visitor, [RuleForm, CreateRuleForm], initial={RuleForm.action: request.GET.dict()}
    )
    form = forms.submitted
    rule_preview = None
    if isinstance(form, CreateRuleForm):
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(reverse("attribution-rules"))
    elif isinstance(form, RuleForm) and (rule := form.draft()) is not None:
        rule_preview = preview(rule=rule, visibility=visibility_for(visitor.lab, visitor.user))
    context = {
        "page": rules_page(lab=visitor.lab, hour=hour_of(visitor.now)),
        "form": form or forms[RuleForm.action],
        "preview": rule_preview,
    }
    return render(request, "dashboard/attribution/rules.html", context, status=forms.status)


@page("GET", "POST")
def rules_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Preview rules from CSV, or create all of them."""
    visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, [RulesImportForm, CreateRulesForm])
    form = forms.submitted
    if isinstance(form, CreateRulesForm) and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("attribution-rules"))
    context: dict[str, Any] = {"form": forms[RulesImportForm.action]}
    if isinstance(form, RulesImportForm):
        text = form.text if form.is_valid() else ""
        context = {
            "form": RulesImportForm(visitor, initial={"lines": text}) if form.is_valid() else form,
            "preview": form.preview,
            "text": text,
        }
    return render(request, "dashboard/attribution/rules_import.html", context, status=forms.status)


@page("GET", "POST")
def rule(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a rule and the effect of withdrawing or restoring it. POST ends, withdraws or
    restores it.
    """
    rows = AttributionRule.objects.filter(lab=visitor.lab).select_related(
        "lab", "node", "site", "project", "person", "created_by"
    )
    rule = or_not_found(rows.filter(pk=pk).first(), "rule", reverse("attribution-rules"))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, RULE_ACTION_FORMS, rule=rule)
    form = forms.submitted
    if form is not None and form.submit():
        messages.success(request, form.message)
        withdrawn = rule.withdrawn_us is not None
        return HttpResponseRedirect(
            reverse("attribution-rule", args=[pk]) if withdrawn else reverse("attribution-rules")
        )
    visibility = visibility_for(visitor.lab, visitor.user)
    context = {
        "row": rule_row(rule, hour_of(visitor.now)),
        "preview": preview(rule=rule, visibility=visibility, without=rule.withdrawn_us is None),
        "form": form,
    }
    return render(request, "dashboard/attribution/rule.html", context, status=forms.status)


@page("GET", "POST")
def idle(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the idle energy policies and their result. POST sets or withdraws one."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, [SetIdlePolicyForm, WithdrawIdlePolicyForm])
    form = forms.submitted
    if form is not None and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("idle-policy"))
    context = {"page": idle_page(lab=visitor.lab, hour=hour_of(visitor.now)), "forms": forms}
    return render(request, "dashboard/attribution/idle_policy.html", context, status=forms.status)
