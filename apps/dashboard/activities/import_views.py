"""Pages of the import of activities: upload, columns, preview and result."""

from uuid import UUID

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.activity.choices import FileState
from apps.activity.services.activity_files import file_of
from apps.activity.services.file_layout import columns_of_file
from apps.dashboard.activities.import_forms import ConfirmForm, ImportForm, MappingForm
from apps.dashboard.activities.import_pages import (
    BAD_ROW_HEADER,
    ColumnRow,
    bad_row_cells,
    file_page,
    latest_files,
)
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, page


@page("GET", "POST")
def files(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form for a file, and the latest files. POST saves the file and redirects to its
    columns.
    """
    visitor.require_role(WRITERS)
    form = ImportForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        address = reverse("activity-import-mapping", args=[form.created.uuid])
        return HttpResponseRedirect(address)
    context = {"form": form, "files": latest_files(visitor.lab)}
    return render(request, "dashboard/activities/import.html", context, status=form.status)


@page("GET", "POST")
def mapping(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the columns of a file with the fields that they may mean. POST assigns them and checks
    the rows.
    """
    visitor.require_role(WRITERS)
    found = file_of(visitor.lab, uuid)
    preview = reverse("activity-import", args=[uuid])
    if found.state not in (FileState.MAPPING, FileState.CHECKED, FileState.REFUSED):
        return HttpResponseRedirect(preview)
    columns = columns_of_file(found)
    form = MappingForm.from_request(request, visitor, file=found, columns=columns)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(preview)
    rows = [
        ColumnRow(column.heading, column.examples, field)
        for column, field in zip(columns, form.column_fields, strict=True)
        if column.heading or column.examples
    ]
    context = {"file": found, "form": form, "rows": rows}
    return render(request, "dashboard/activities/import_mapping.html", context, status=form.status)


@page("GET", "POST")
def file(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the results of the rows of a file. POST records the good ones."""
    visitor.require_role(WRITERS)
    found = file_of(visitor.lab, uuid)
    if found.state == FileState.MAPPING:
        return HttpResponseRedirect(reverse("activity-import-mapping", args=[uuid]))
    form = ConfirmForm.from_request(request, visitor, file=found)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("activity-import", args=[uuid]))
    context = {"page": file_page(found), "form": form}
    return render(request, "dashboard/activities/import_file.html", context, status=form.status)


@page()
def bad_rows_csv(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Download the bad rows of a file by line and reason."""
    visitor.require_role(WRITERS)
    found = file_of(visitor.lab, uuid)
    return csv_response("activity-errors", BAD_ROW_HEADER, bad_row_cells(found))
