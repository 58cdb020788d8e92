"""Writes of tokens that people name and end themselves: their own, and those of services."""

from collections.abc import Iterable

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import SCOPES_OF_ROLE, Act, Role, Scope, TokenKind
from apps.accounts.models import Lab, Membership, Token, User
from apps.accounts.selectors import tokens_of
from apps.accounts.services.labs import new_token
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.text import replace_unstorable


def _role(lab: Lab, user: User) -> str:
    role = Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True).first()
    if role is None:
        raise Forbidden("You are no longer a member of this lab.", hint="Ask an admin of your lab to add you.")
    return role


def _checked_scopes(scopes: Iterable[str], role: str) -> tuple[str, ...]:
    """Return scopes in the order of their list: at least one, all known, none beyond the role."""
    requested_scopes = set(scopes)
    unknown = sorted(requested_scopes - set(Scope.values))
    if unknown:
        known = ", ".join(SCOPES_OF_ROLE[role])
        raise InvalidInput(f"{unknown[0][:40]!r} is not a right.", field="scopes", hint=f"Choose from {known}.")
    if not requested_scopes:
        raise InvalidInput("A token needs at least one right.", field="scopes", hint="Choose what it may do.")
    excess_scopes = sorted(requested_scopes - set(SCOPES_OF_ROLE[role]))
    if excess_scopes:
        hint = f"A token does at most what you may do here: {', '.join(SCOPES_OF_ROLE[role])}."
        raise Forbidden(f"Your role {role!r} does not give the right {excess_scopes[0]!r}.", field="scopes", hint=hint)
    return tuple(scope for scope in Scope.values if scope in requested_scopes)


@transaction.atomic
def create_token(
    *, lab: Lab, kind: TokenKind, name: str, scopes: Iterable[str], expires_us: int | None, by: User, now: int
) -> tuple[Token, str]:
    """Make a named token for oneself or, as an admin, for a service; return it and its text, shown this once.

    A service's token belongs to nobody and never does more than its maker's present role allows; it ends when they leave.
    """
    role = _role(lab, by)
    if kind == TokenKind.SERVICE and role != Role.ADMIN:
        raise Forbidden("Only an admin of the lab makes tokens for services.", hint="Ask an admin of your lab.")
    if kind not in {TokenKind.USER, TokenKind.SERVICE}:
        raise InvalidInput("A node gets its token by enrolment.", field="kind", hint=f"Open {reverse('node-enrol')}.")
    called = replace_unstorable(name).strip()
    if not called or len(called) > 100:
        raise InvalidInput(
            "A token needs a name of at most 100 characters.", field="name", hint="Say where it is used, as: sweep server."
        )
    if expires_us is not None and expires_us <= now:
        raise InvalidInput("The token would be over already.", field="expires", hint="Choose a later end.")
    owner = by if kind == TokenKind.USER else None
    token, text = new_token(
        kind=kind,
        lab=lab,
        scopes=_checked_scopes(scopes, role),
        now=now,
        name=called,
        user=owner,
        made_by=by,
        expires_us=expires_us,
    )
    details = {"kind": str(kind), "name": called, "scopes": token.scopes, "expires_us": expires_us}
    audit.record(lab=lab, by=by, action=Act.TOKEN_CREATED, subject=token.public_id, details=details, now=now)
    return token, text


@transaction.atomic
def revoke_token(*, lab: Lab, public_id: str, by: User, now: int) -> Token:
    """End a token: one's own, or as an admin any of the lab's. Others' tokens are not told from missing ones."""
    token = tokens_of(lab, by, _role(lab, by)).filter(public_id=public_id).first()
    if token is None:
        raise NotFound("There is no such token of yours in your lab.", hint=f"See {reverse('tokens')} for those there are.")
    if Token.objects.filter(pk=token.pk, revoked_us__isnull=True).update(revoked_us=now) == 0:
        raise Conflict("This token has ended already.", hint=f"See {reverse('tokens')} for those that are in use.")
    details = {"kind": token.kind, "name": token.name, "owner": token.user.get_username() if token.user else ""}
    audit.record(lab=lab, by=by, action=Act.TOKEN_REVOKED, subject=public_id, details=details, now=now)
    transaction.on_commit(forget_tokens)
    return token
