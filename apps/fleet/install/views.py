"""The install address: the script, the files that it downloads, and their index for pip.

It needs no account: the files are those of a public package, and the script contains no secret.
"""

from collections.abc import Callable
from functools import wraps
from html import escape
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.core.errors import Forbidden, LabCarbonError, NotFound
from apps.fleet.install.script import (
    NotInstallable,
    install_files,
    install_script,
    require_safe_url,
)
from apps.fleet.install.wheels import file_digest

PLAIN = "text/plain; charset=utf-8"
View = Callable[..., HttpResponse]


def _installable(view: View) -> View:
    """Answer over https only, unless the server's own address is on this machine. Errors are one
    line of text for people in a terminal.
    """

    @wraps(view)
    def wrapped(request: HttpRequest, *arguments: Any, **options: Any) -> HttpResponse:
        try:
            if settings.SITE_URL.startswith("https://") and not request.is_secure():
                raise Forbidden(
                    "Over http anybody on the network could change what nodes install.",
                    hint=f"Use {settings.SITE_URL}{reverse('install')}.",
                )
            require_safe_url()
            return view(request, *arguments, **options)
        except LabCarbonError as error:
            text = f"labcarbon: {error.message} {error.hint}\n"
            return HttpResponse(text, status=error.status, content_type=PLAIN)

    return require_safe(wrapped)


@_installable
def script(request: HttpRequest) -> HttpResponse:
    """Return the install script."""
    return HttpResponse(install_script().text, content_type=PLAIN)


@_installable
def index(request: HttpRequest) -> HttpResponse:
    """Return links to the wheels with their digests, for ``pip install --find-links``."""
    links = "\n".join(
        f'<a href="{escape(reverse("install-file", args=[file.name]))}#sha256={file.sha256}">'
        f"{escape(file.name)}</a><br>"
        for file in install_files()
        if file.requirement
    )
    return HttpResponse(f"<!doctype html>\n<title>Collector</title>\n{links}\n")


@_installable
def file(request: HttpRequest, name: str) -> HttpResponse:
    """Return one file of the manifest, if it still has its digest."""
    entry = next((entry for entry in install_files() if entry.name == name), None)
    if entry is None:
        raise NotFound(
            f"This server does not have {name[:80]!r}.",
            hint="Download the script again: it belongs to another version.",
        )
    path = settings.WHEELS_DIR / entry.name
    if file_digest(path) != entry.sha256:
        raise NotInstallable(
            f"{entry.name} was changed after it was collected.",
            hint="An administrator of the server runs `manage.py collect_wheels` there.",
        )
    return HttpResponse(path.read_bytes(), content_type="application/octet-stream")
