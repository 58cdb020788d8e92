"""CodeCarbon's wire protocol for its unmodified client: docs/codecarbon.md.

Success is exactly 201 within two seconds. No URL redirects. The body of an error contains the
remedy, because the client writes the body into its log.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.authentication import BadToken, tracker_token
from apps.core.clock import now_us
from apps.core.errors import Forbidden, LabCarbonError, NotAuthenticated, NotFound, TooLarge
from apps.core.locks import write_lock
from apps.trackers.codecarbon.choices import Channel
from apps.trackers.codecarbon.models import CodeCarbonSource
from apps.trackers.codecarbon.parsing import parse_json
from apps.trackers.codecarbon.services.receive import save_message, start_run
from apps.trackers.codecarbon.services.tokens import source_of

MAX_BODY = 64 << 10
RUNS = frozenset({"runs", "run"})
CHANNELS = {
    "emissions": Channel.INTERVAL,
    "emission": Channel.INTERVAL,
    "emissions-data": Channel.RECORD,
}


class MethodNotAllowed(LabCarbonError):
    status = 405
    code = "method_not_allowed"


@csrf_exempt
def codecarbon(request: HttpRequest, rest: str) -> HttpResponse:
    """Accept messages: ``<token>/runs``, ``<token>/emissions``, ``<token>/emissions-data``.

    The token may also be the header ``x-api-token``. Double slashes and the old singular names are
    accepted.
    """
    try:
        return _handle(request, [segment for segment in rest.split("/") if segment])
    except LabCarbonError as error:
        response = JsonResponse(error.body(), status=error.status)
        if error.status == 405:
            response["Allow"] = "POST"
        return response


def _handle(request: HttpRequest, segments: list[str]) -> HttpResponse:
    route = segments[-1] if segments else ""
    if (route not in RUNS and route not in CHANNELS) or len(segments) > 2:
        raise NotFound(
            "Unknown address. CodeCarbon posts to …/runs, …/emissions or …/emissions-data.",
            hint=f"Copy api_endpoint from {settings.SITE_URL}{reverse('codecarbon-tokens')}",
        )
    if request.method != "POST":
        raise MethodNotAllowed(f"Method {request.method} is not allowed.", hint="Use POST.")
    _require_https(request)
    source = _source(segments[0] if len(segments) == 2 else request.headers.get("x-api-token", ""))
    body = _body(request)
    content = parse_json(body)
    with write_lock():
        if route in RUNS:
            return JsonResponse(
                {"id": str(start_run(source=source, content=content, now=now_us()))}, status=201
            )
        save_message(
            source=source, channel=CHANNELS[route], content=content, body=body, now=now_us()
        )
    return HttpResponse(status=201)


def _require_https(request: HttpRequest) -> None:
    if settings.SECURE_SSL_REDIRECT and not request.is_secure():
        raise Forbidden(
            "HTTPS is required. The token was sent unencrypted.",
            hint=(
                f"Revoke the token at {settings.SITE_URL}{reverse('tokens')}, and use a new "
                "one with https://"
            ),
        )


def _source(text: str) -> CodeCarbonSource:
    try:
        return source_of(tracker_token(text, now_us()))
    except BadToken as problem:
        raise NotAuthenticated(
            str(problem),
            hint=(
                f"Create a token at {settings.SITE_URL}{reverse('codecarbon-tokens')} and "
                "copy its api_endpoint."
            ),
            code="bad_token",
        ) from problem


def _body(request: HttpRequest) -> bytes:
    body: bytes = request.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise TooLarge(
            f"A message has at most {MAX_BODY >> 10} KiB.",
            hint="Messages of CodeCarbon are below 2 KiB.",
        )
    return body
