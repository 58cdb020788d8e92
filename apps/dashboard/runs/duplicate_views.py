"""The list of duplicate findings, its CSV, and one finding."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib import messages
from django.forms import BoundField
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.figures.energy import spans_of_runs
from apps.carbon.figures.visibility import visibility_for
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.frame.optional_period import (
    days_redirect,
    is_days_form,
    optional_period_menu,
)
from apps.dashboard.runs.duplicate_filters import filter_findings
from apps.dashboard.runs.duplicates_page import (
    CSV_HEAD,
    duplicates_page,
    finding_rows,
    line_of,
)
from apps.dashboard.runs.finding_page import finding_page
from apps.dashboard.runs.forms import (
    DECISION_FORMS,
    ConfirmForm,
    CountParameterForm,
    DecisionForm,
    IgnoreParameterForm,
    ParameterForm,
)
from apps.preflight.finding_families import families_of_runs
from apps.preflight.finding_selectors import finding_by_id
from apps.runs.selectors import energy_states

CHUNK = 500


@page("GET", "POST")
def duplicates(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List duplicate findings by family; POST decides about the selected ones, or reopens them."""
    if request.method == "POST":
        visitor.require_role(WRITERS)
    elif is_days_form(request):
        return days_redirect(request)
    params = request.GET.dict()
    forms = PageForms(request, visitor, DECISION_FORMS, params=params)
    if forms.submitted and forms.submitted.submit():
        messages.success(request, forms.submitted.message)
        return HttpResponseRedirect(request.get_full_path())
    visibility = visibility_for(visitor.lab, visitor.user)
    context_page = duplicates_page(
        lab=visitor.lab,
        params=params,
        now=visitor.now,
        visibility=visibility,
        is_manager=visitor.can_manage,
    )
    context = {
        "page": context_page,
        "menu": optional_period_menu(request, context_page.period, visitor.now),
        "form": forms.submitted,
        "reason": _reason_field(forms),
    }
    return render(request, "dashboard/runs/duplicates.html", context, status=forms.status)


def _reason_field(forms: PageForms) -> BoundField:
    """Return the field ``reason`` of the submitted decision, or an empty one."""
    form = (
        forms.submitted if isinstance(forms.submitted, DecisionForm) else forms[ConfirmForm.action]
    )
    return form["reason"]


@page()
def duplicates_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the filtered findings. An empty value: see ``energy_state``, or no factor."""
    if is_days_form(request):
        return days_redirect(request)
    visibility = visibility_for(visitor.lab, visitor.user)
    findings, _ = filter_findings(visitor.lab, request.GET.dict(), visibility, visitor.now)

    def lines() -> Iterator[tuple[Any, ...]]:
        total = findings.count()
        for start in range(0, total, CHUNK):
            chunk = list(findings[start : start + CHUNK])
            uuids = [finding.run.uuid for finding in chunk]
            spans = spans_of_runs(visitor.lab, uuids)
            states = energy_states(visitor.lab, uuids, spans)
            families = families_of_runs([finding.run_id for finding in chunk])
            for row in finding_rows(visitor.lab, chunk, visibility, spans, states):
                yield line_of(row, families.get(row.finding.run_id))

    return csv_response(f"{visitor.lab.slug}-repeats", CSV_HEAD, lines())


@page("GET", "POST")
def finding(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a duplicate beside its original; POST decides about it, or changes which parameters
    are compared.
    """
    record = or_not_found(finding_by_id(visitor.lab, pk), "finding", reverse("duplicates"))
    if request.method == "POST":
        visitor.require_role(WRITERS)
    forms = PageForms(
        request, visitor, [*DECISION_FORMS, IgnoreParameterForm, CountParameterForm], finding=record
    )
    if forms.submitted and forms.submitted.submit():
        messages.success(request, forms.submitted.message)
        return HttpResponseRedirect(reverse("duplicate", args=[pk]))
    visibility = visibility_for(visitor.lab, visitor.user)
    finding_details = finding_page(
        lab=visitor.lab, finding=record, now=visitor.now, visibility=visibility
    )
    context = {
        "page": finding_details,
        "form": forms.submitted,
        "reason": _reason_field(forms),
        "ignore_form": _parameter_form(forms, IgnoreParameterForm, finding_details.counted),
        "count_form": _parameter_form(forms, CountParameterForm, finding_details.ignored),
    }
    return render(request, "dashboard/runs/duplicate.html", context, status=forms.status)


def _parameter_form(
    forms: PageForms, form_class: type[ParameterForm], names: Sequence[str]
) -> ParameterForm:
    form = forms[form_class.action]
    assert isinstance(form, ParameterForm)
    form.offer(names)
    return form
