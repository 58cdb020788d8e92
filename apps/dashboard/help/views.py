"""The help: list of documents with a search, one document, and its pictures."""

from django.http import FileResponse, HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from apps.core.errors import NotFound
from apps.dashboard.decorators import framed, public
from apps.dashboard.help.documents import FOLDER, chapters, document, pictures
from apps.dashboard.help.help_search import search_help

MOST_HITS = 30
MOST_CHARACTERS = 200


@framed
@public()
def help_index(request: HttpRequest) -> HttpResponseBase:
    """List the documents, or the sections that contain all words of ``q``."""
    text = request.GET.get("q", "").strip()[:MOST_CHARACTERS]
    context = {"text": text, "hits": search_help(text, MOST_HITS), "chapters": chapters()}
    return render(request, "dashboard/help/help.html", context)


@framed
@public()
def help_document(request: HttpRequest, name: str) -> HttpResponseBase:
    """Show one document."""
    content = document(name)
    if content is None:
        raise _no_such("document")
    return render(request, "dashboard/help/document.html", {"document": content})


@public()
def help_picture(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return a picture of a document."""
    if name not in pictures():
        raise _no_such("picture")
    return FileResponse((FOLDER / "pictures" / f"{name}.png").open("rb"), content_type="image/png")


def _no_such(noun: str) -> NotFound:
    return NotFound(f"The help has no such {noun}.", hint=f"It begins at {reverse('help')}.")
