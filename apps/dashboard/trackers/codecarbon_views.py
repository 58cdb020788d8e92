"""The page of CodeCarbon: creates tokens for its unmodified client, with the lines to copy."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path
from django.views.decorators.cache import never_cache

from apps.dashboard.decorators import WRITERS, Visitor, page
from apps.dashboard.forms import PageForms
from apps.dashboard.redirects import moved
from apps.dashboard.trackers.codecarbon import codecarbon_page, snippets
from apps.dashboard.trackers.codecarbon_forms import TokenForm


@never_cache
@page("GET", "POST")
def codecarbon(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the lab's CodeCarbon tokens; POST creates one and shows it this one time."""
    if request.method == "POST":
        visitor.require_role(WRITERS)
    forms = PageForms(request, visitor, [TokenForm])
    form, token_snippets = forms[TokenForm.action], None
    if forms.submitted and form.submit():
        assert isinstance(form, TokenForm)
        token_snippets = snippets(form.token_text)
        form = TokenForm(visitor)
    context = {"page": codecarbon_page(visitor), "created": token_snippets, "form": form}
    return render(request, "dashboard/trackers/codecarbon.html", context, status=form.status)


SETTINGS_PAGE = ("CodeCarbon", "codecarbon-tokens")  # name and page, for the navigation
urlpatterns = [
    path("trackers/codecarbon/", codecarbon, name="codecarbon-tokens"),
    moved("tokens/codecarbon/", "codecarbon-tokens"),
]
