"""Pages of statements: list, closing, one statement, its differences, print and downloads."""

from collections.abc import Callable, Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import require_valid
from apps.dashboard.statements.differences_page import (
    CSV_HEADER,
    difference_csv_rows,
    differences_page,
)
from apps.dashboard.statements.forms import CloseForm, PeriodForm, RestateForm
from apps.dashboard.statements.statement_page import overview_address, statement_page
from apps.dashboard.statements.statements_page import closing_page, statements_page
from apps.reports.export_files import render_csv, render_json
from apps.reports.models import Statement
from apps.reports.rows import Row
from apps.reports.selectors import export_rows, statement_of


@page()
def statements(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the closed periods, with what their current figures differ by."""
    content = statements_page(visitor.lab, request.GET.dict())
    return render(request, "dashboard/statements/statements.html", {"page": content})


@page("GET", "POST")
def close(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the checklist of a period. POST closes it."""
    visitor.require_role(MANAGERS)
    form = CloseForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("statement", args=[form.statement.pk]))
    days = PeriodForm(visitor, form.data if form.is_bound else request.GET)
    content = None
    if days.is_valid():
        data = days.cleaned_data
        content = closing_page(visitor.lab, data["first_day"], data["last_day"], visitor.now)
    elif not form.is_bound:
        require_valid(days)
    context = {"page": content, "days": days, "form": form}
    return render(request, "dashboard/statements/close.html", context, status=form.status)


@page()
def statement(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a statement, and what the current figures of its period differ by."""
    found = _found(visitor, pk)
    context = {
        "page": statement_page(visitor.lab, found),
        "overview": overview_address(found),
    }
    return render(request, "dashboard/statements/statement.html", context)


@page("GET", "POST")
def differences(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show the lines that have changed since a statement. POST restates the period."""
    found = _found(visitor, pk)
    form = RestateForm.from_request(request, visitor, statement=found)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("statement", args=[form.restated.pk]))
    content = differences_page(visitor.lab, found, visitor.now)
    context = {"page": content, "form": form}
    return render(request, "dashboard/statements/differences.html", context, status=form.status)


@page()
def differences_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download all lines that have changed since a statement, with exact integers."""
    found = _found(visitor, pk)
    rows = difference_csv_rows(visitor.lab, found, visitor.now)
    return csv_response(f"{_file_name(found)}-differences", CSV_HEADER, rows)


@page()
def printout(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a statement as one page to print."""
    context = {"page": statement_page(visitor.lab, _found(visitor, pk), printed=True)}
    return render(request, "dashboard/statements/print.html", context)


@page()
def export_json(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download a statement as JSON, for ``manage.py verify``."""
    return _export(_found(visitor, pk), "json", "application/json", render_json)


@page()
def export_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download a statement as CSV, for ``manage.py verify``."""
    return _export(_found(visitor, pk), "csv", "text/csv; charset=utf-8", render_csv)


def _found(visitor: Visitor, pk: int) -> Statement:
    found: Statement = or_not_found(
        statement_of(visitor.lab, pk), "statement", reverse("statements")
    )
    return found


def _file_name(found: Statement) -> str:
    return (
        f"{found.lab.slug}-{found.first_day:%Y-%m-%d}-{found.last_day:%Y-%m-%d}-r{found.revision}"
    )


def _export(
    found: Statement,
    ending: str,
    content_type: str,
    render_rows: Callable[[Sequence[Row]], str],
) -> HttpResponse:
    response = HttpResponse(render_rows(export_rows(found)), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{_file_name(found)}.{ending}"'
    return response
