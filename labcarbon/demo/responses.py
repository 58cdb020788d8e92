"""Marks what leaves a demo: a header on each response, and the file names of downloads."""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER, VALUE = "LabCarbon-Demo", "made-up data"
_FILE_NAME = re.compile(r"(filename\*?=(?:UTF-8'')?\"?)(?=[^\"';])")


class DemoMiddleware:
    """Adds the mark of a demo. Settings of a real installation do not contain it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers[HEADER] = VALUE
        if disposition := response.headers.get("Content-Disposition"):
            response.headers["Content-Disposition"] = _FILE_NAME.sub(
                r"\g<1>demo-made-up-", disposition
            )
        return response
