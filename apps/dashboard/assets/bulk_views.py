"""Page of one lifecycle event for many assets."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.core.errors import InvalidInput
from apps.dashboard.assets.event_rows import LifeEffect
from apps.dashboard.assets.forms.bulk_events import BULK_FORMS, BulkEvent, BulkSelectionForm
from apps.dashboard.assets.new_asset_page import LabOptions
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.forms import PageForm, PageForms

LISTED = 12  # names on the page


@page("POST")
def assets_events(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the forms of events for the selected assets, the effect of one, or record it."""
    visitor.require_role(MANAGERS)
    options = LabOptions(visitor.lab)
    selection = BulkSelectionForm.from_request(request, visitor, options=options)
    if not selection.is_valid():
        raise InvalidInput("Unreadable selection.", field="item", hint="Select the assets again.")
    assets = selection.assets()
    classes: list[type[PageForm]] = [BulkSelectionForm, *BULK_FORMS]
    forms = PageForms(request, visitor, classes, assets=assets, options=options)
    submitted = forms.submitted
    effect: LifeEffect | None = None
    if isinstance(submitted, BulkEvent):
        if selection.cleaned_data["record"]:
            if submitted.submit():
                messages.success(request, submitted.message)
                return HttpResponseRedirect(submitted.location())
        else:
            effect = submitted.preview()
    context = {
        "assets": assets,
        "listed": assets[:LISTED],
        "more": max(0, len(assets) - LISTED),
        "numbers": ".".join(str(asset.pk) for asset in assets),
        "effect": effect,
        "forms": forms,
        "event_forms": [forms[form_class.action] for form_class in BULK_FORMS],
    }
    return render(request, "dashboard/assets/assets_events.html", context, status=forms.status)
