"""Client of the planner: costs of an ONNX graph, and what a sweep will run."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence
from urllib.parse import urlencode

from labcarbon_collect.api.transport import InvalidUrlError, Response, ServerUnavailable, Transport
from labcarbon_collect.config import Login
from labcarbon_collect.errors import CommandError

_DEADLINE_S, _SILENCE_S = 180.0, 60.0  # a slow upload of 64 MiB; the server computes for 40 s
_MAX_RESPONSE_BYTES = 8 << 20


def plan_onnx(
    login: Login, content: bytes, *, inputs: Sequence[str], training: Mapping[str, str]
) -> Dict[str, Any]:
    """Return the costs of an ONNX graph, and the memory of a training. Raises CommandError."""
    query = urlencode([*(("input", text) for text in inputs), *training.items()])
    transport = _transport(login)
    try:
        response = transport.upload(f"plan/onnx/?{query}", content)
    except ServerUnavailable as error:
        raise CommandError(f"No response from the server. {error}") from error
    finally:
        transport.close()
    return _body(login, response)


def _transport(login: Login) -> Transport:
    try:
        return Transport(
            login.url,
            login.token,
            deadline_s=_DEADLINE_S,
            silence_s=_SILENCE_S,
            max_response_bytes=_MAX_RESPONSE_BYTES,
        )
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error


def _body(login: Login, response: Response) -> Dict[str, Any]:
    if response.status in (404, 405):
        raise CommandError(f"{login.url} has no planner for this. Update the server")
    if response.status != 200:
        raise CommandError(f"{login.url} responded {response.status}: {response.message}")
    if not isinstance(response.body, dict):
        raise unknown_format(login.url)
    return response.body


def unknown_format(url: str) -> CommandError:
    """Return the error of a response that has no known format."""
    return CommandError(
        f"The response of {url} has an unknown format. Update the collector and the server to the "
        "same version"
    )
