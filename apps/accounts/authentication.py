"""Authentication by an access token (of a node, a person or a service) or a session. Both belong
to one lab.
"""

import hmac
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from apps.accounts import credentials
from apps.accounts.choices import FLEET_KIND, SCOPES_OF_ROLE, SERVICE_KINDS, Scope, TokenKind
from apps.accounts.models import Lab, Membership, Token, User
from apps.accounts.signals import node_token_refused
from apps.core.clock import now_us
from apps.core.errors import NotAuthenticated

_CACHE_S = 10.0
_USE_GRAIN_US = 60_000_000
_cache: dict[str, tuple[float, "Caller"]] = {}
_trackers: dict[str, tuple[float, Token]] = {}


@dataclass(frozen=True)
class Caller:
    """The caller. ``user`` is None for a node or a service, ``node_uuid`` None for a person or a
    service.
    """

    lab: Lab
    scopes: frozenset[str]
    user: User | None = None
    node_uuid: UUID | None = None
    is_authenticated: bool = True


def _refuse(message: str) -> NotAuthenticated:
    return NotAuthenticated(
        message,
        hint=f"Enrol the node again with `labcarbon-collect enrol {settings.SITE_URL}`, "
        f"or sign in again with `labcarbon-collect login {settings.SITE_URL}`.",
        code="bad_token",
    )


def caller_of_token(text: str, now: int) -> Caller:
    """Return the caller of a token. Raises NotAuthenticated. Wrong check digits cost no query."""
    parts = credentials.parse_token(text)
    if parts is None:
        raise _refuse("This is not a LabCarbon token (its check digits are wrong).")
    if parts.kind == FLEET_KIND:
        raise _refuse("A fleet token only enrols new nodes. It gives no access.")
    if parts.kind == TokenKind.TRACKER:
        raise _refuse(
            "A tracker token is valid only for the messages of its tracker. Use a personal or "
            "service token."
        )
    cached = _cache.get(text)
    if cached and cached[0] > time.monotonic():
        return cached[1]
    try:
        token = _active_token(parts, text, now)
    except BadToken as problem:
        raise _refuse(str(problem)) from problem
    scopes = frozenset(token.scopes.split())
    if token.kind != TokenKind.NODE:
        scopes &= _scopes_now(token)
    _record_use(token, now)
    caller = Caller(token.lab, scopes, user=token.user, node_uuid=token.node_uuid)
    if token.kind == TokenKind.NODE:  # the hot path; a person who leaves is refused at once
        if len(_cache) > 10_000:
            _cache.clear()
        _cache[text] = (time.monotonic() + _CACHE_S, caller)
    return caller


class BadToken(Exception):
    """An invalid token. The text is shown to the caller."""


def _active_token(parts: credentials.TokenParts, text: str, now: int) -> Token:
    """Return the token of this text. Raises BadToken if it is not valid now. One query."""
    token = (
        Token.objects.select_related("lab", "user", "created_by")
        .filter(public_id=parts.public_id, kind=parts.kind)
        .first()
    )
    pepper = settings.TOKEN_PEPPERS.get(token.pepper) if token else None
    if (
        token is None
        or pepper is None
        or not hmac.compare_digest(credentials.keyed_digest(pepper, text), token.digest)
    ):
        raise BadToken("This token is unknown.")
    if token.revoked_us is not None:
        _explain_refusal(token)
        raise BadToken("This token was revoked.")
    if token.expires_us is not None and token.expires_us <= now:
        raise BadToken("This token has expired.")
    return token


def _explain_refusal(token: Token) -> None:
    """Raise the error that states why a node's token was revoked, if there is one."""
    if token.kind == TokenKind.NODE:
        for _, error in node_token_refused.send(sender=Token, token=token):
            if isinstance(error, NotAuthenticated):
                raise error


def _record_use(token: Token, now: int) -> None:
    if token.last_used_us is None or token.last_used_us < now - _USE_GRAIN_US:
        Token.objects.filter(pk=token.pk).update(last_used_us=now)


def tracker_token(text: str, now: int) -> Token:
    """Return the tracker token of this text. Two queries, then none for ten seconds.

    Raises BadToken. A token expires when its creator leaves the lab, and is invalid while they have
    no write access.
    """
    parts = credentials.parse_token(text)
    if parts is None:
        raise BadToken("This is not a LabCarbon token (its check digits are wrong).")
    if parts.kind != TokenKind.TRACKER:
        raise BadToken("This token is of another kind.")
    cached = _trackers.get(text)
    if cached and cached[0] > time.monotonic():
        return cached[1]
    token = _active_token(parts, text, now)
    if Scope.RUNS_WRITE not in _scopes_now(token):
        raise BadToken("The creator of this token no longer has write access to the lab.")
    _record_use(token, now)
    if len(_trackers) > 10_000:
        _trackers.clear()
    _trackers[text] = (time.monotonic() + _CACHE_S, token)
    return token


def _scopes_now(token: Token) -> frozenset[str]:
    """Return the scopes of the current role of a token's owner, or of its creator if it has no
    owner.
    """
    answers = token.created_by if token.kind in SERVICE_KINDS else token.user
    role = (
        Membership.objects.filter(lab=token.lab, user=answers)
        .values_list("role", flat=True)
        .first()
    )
    if answers is None or role is None or not answers.is_active:
        raise _refuse("The owner of this token is no longer a member of the lab.")
    return frozenset(SCOPES_OF_ROLE[role])


def forget_tokens() -> None:
    """Clear the cache. Other processes notice a revoked token within ten seconds."""
    _cache.clear()
    _trackers.clear()


class BearerTokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer lc_…``. Tokens in query strings or cookies are ignored."""

    def authenticate(self, request: Request) -> tuple[Caller, str] | None:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return caller_of_token(text.strip(), now_us()), "token"

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ApiSessionAuthentication(SessionAuthentication):
    """A session with the CSRF token in the header ``X-CSRFToken``. Bodies are JSON, never forms."""

    def enforce_csrf(self, request: Request) -> None:
        http: Any = request._request  # noqa: SLF001
        # Otherwise the check would parse the body, which may be of any type, as a form.
        http._post, http._files = QueryDict(), MultiValueDict()  # noqa: SLF001
        super().enforce_csrf(http)
