"""Client of the duplicate check: the preflight request, its response, and the report of its
outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.api.former_fingerprint import call_with_fingerprint
from labcarbon_collect.api.transport import InvalidUrlError, Response, ServerUnavailable, Transport
from labcarbon_collect.config import Login, is_uuid

VERDICTS = frozenset((
    "duplicate", "concurrent", "will_fail", "resume", "near", "sweep", "replicate", "same_run",
    "declared", "none",
))  # fmt: skip
LEVELS = ("silent", "inform", "warn", "loud")
STOPPED, PROCEEDED = "stopped", "went_on"
# Stopped by --enforce: the run is certain to bring no new result.
_BLOCKING_VERDICTS = frozenset(("duplicate", "concurrent", "will_fail"))
_MAX_MATCHES, _MAX_OFFERS = 50, 3


class PreflightUnavailable(Exception):
    """The duplicate check has no response. The text has the reason and the fix."""


@dataclass(frozen=True)
class PreflightRequest:
    """The run to check."""

    fingerprint: Mapping[str, Any]
    name: str
    project: Optional[str] = None
    run: Optional[str] = None
    parent: Optional[str] = None
    job: str = ""  # <cluster>/<id> of the scheduler's job; its ranks are one run

    def body(self) -> Dict[str, Any]:
        """Return the body of ``POST preflight/``."""
        return {
            "fingerprint": dict(self.fingerprint),
            "project": self.project,
            "name": self.name,
            "run": self.run,
            "parent": self.parent,
            "external": None,
            "job": self.job,
        }


@dataclass(frozen=True)
class PreflightResponse:
    """The server's response. ``body``: as received; only the fields above are validated."""

    verdict: str
    certainty: str
    level: str
    message: str
    preflight_id: str
    matches: List[Mapping[str, Any]]
    estimate: Optional[Mapping[str, Any]]
    body: Mapping[str, Any]

    @property
    def is_blocking(self) -> bool:
        """Whether the run is certain to bring no new result, so that ``--enforce`` stops it."""
        return self.verdict in _BLOCKING_VERDICTS and self.certainty == "verified"

    @property
    def in_vain(self) -> bool:
        """Former name of :attr:`is_blocking` (docs/compatibility.md)."""
        return self.is_blocking

    @property
    def asked(self) -> str:
        """Former name of :attr:`preflight_id` (docs/compatibility.md)."""
        return self.preflight_id

    @property
    def is_notable(self) -> bool:
        """Whether a person should read the response."""
        return bool(self.offers) or self.level != "silent"

    @property
    def offers(self) -> List[Mapping[str, Any]]:
        """Models that could be fine-tuned instead of training from scratch."""
        offers = self.body.get("reuse")
        valid_offers: List[Mapping[str, Any]] = (
            [offer for offer in offers if isinstance(offer, dict)]
            if isinstance(offers, list)
            else []
        )
        return valid_offers[:_MAX_OFFERS]


def check_duplicates(
    login: Login, request: PreflightRequest, *, deadline_s: float
) -> PreflightResponse:
    """Send the request. Raises PreflightUnavailable without a valid response."""
    return parse_response(login.url, _post(login, "preflight/", request.body(), deadline_s))


def report_outcome(
    login: Login, response: PreflightResponse, outcome: str, *, deadline_s: float
) -> bool:
    """Report that the command was ``stopped`` or ``went_on``. Returns whether the server knows
    it.
    """
    if not response.preflight_id:
        return False
    try:
        _post(
            login, f"preflight/{response.preflight_id}/outcome/", {"outcome": outcome}, deadline_s
        )
    except PreflightUnavailable:
        return False
    return True


def parse_response(url: str, body: Any) -> PreflightResponse:
    """Return a parsed response. Raises PreflightUnavailable if it is invalid."""
    payload = body if isinstance(body, dict) else {}
    verdict, level, message, preflight_id = (
        payload.get(name) for name in ("verdict", "level", "message", "asked")
    )
    if not isinstance(message, str) or str(verdict) not in VERDICTS or str(level) not in LEVELS:
        raise PreflightUnavailable(
            f"the response of {url} has an unknown format. Update the collector and the server to "
            "the same version"
        )
    matches, estimate = payload.get("matches"), payload.get("estimate")
    valid_matches: List[Mapping[str, Any]] = (
        [match for match in matches if isinstance(match, dict)] if isinstance(matches, list) else []
    )
    return PreflightResponse(
        verdict=str(verdict),
        certainty=str(payload.get("certainty") or ""),
        level=str(level),
        message=message,
        preflight_id=str(preflight_id)
        if is_uuid(preflight_id) or isinstance(preflight_id, int)
        else "",
        matches=valid_matches[:_MAX_MATCHES],
        estimate=estimate if isinstance(estimate, dict) else None,
        body=payload,
    )


def _post(login: Login, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
    try:
        transport = Transport(login.url, login.token, deadline_s=max(0.05, deadline_s))
        reply = call_with_fingerprint(transport, "POST", path, body)
        transport.close()
    except (InvalidUrlError, ServerUnavailable) as error:
        raise PreflightUnavailable(str(error)) from error
    if not 200 <= reply.status < 300:
        raise PreflightUnavailable(_error_message(login, reply))
    return reply.body


def _error_message(login: Login, reply: Response) -> str:
    if reply.status in (401, 403):
        return (
            f"{login.url} rejected this token ({reply.message}). Log in again: labcarbon-collect "
            f"login {login.url}"
        )
    if reply.status in (404, 405):
        return (
            f"{login.url} has no duplicate check ({reply.message}). The server is older than "
            "this collector"
        )
    return f"{login.url} responded {reply.status}: {reply.message}"
