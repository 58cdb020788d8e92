"""Writes of tokens that people name and revoke themselves: their own, and those of services."""

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
        raise Forbidden(
            "You are no longer a member of this lab.", hint="Ask an admin of your lab to add you."
        )
    return role


def _checked_scopes(scopes: Iterable[str], role: str) -> tuple[str, ...]:
    """Return scopes in the order of their list: at least one, all known, none beyond the role."""
    requested_scopes = set(scopes)
    unknown = sorted(requested_scopes - set(Scope.values))
    if unknown:
        known = ", ".join(SCOPES_OF_ROLE[role])
        raise InvalidInput(
            f"{unknown[0][:40]!r} is not a permission.",
            field="scopes",
            hint=f"Choose from {known}.",
        )
    if not requested_scopes:
        raise InvalidInput(
            "The token has no permission.", field="scopes", hint="Choose at least one permission."
        )
    excess_scopes = sorted(requested_scopes - set(SCOPES_OF_ROLE[role]))
    if excess_scopes:
        hint = f"A token has at most your own permissions: {', '.join(SCOPES_OF_ROLE[role])}."
        raise Forbidden(
            f"Your role ({role}) does not include the permission {excess_scopes[0]!r}.",
            field="scopes",
            hint=hint,
        )
    return tuple(scope for scope in Scope.values if scope in requested_scopes)


@transaction.atomic
def create_token(
    *,
    lab: Lab,
    kind: TokenKind,
    name: str,
    scopes: Iterable[str],
    expires_us: int | None,
    by: User,
    now: int,
) -> tuple[Token, str]:
    """Create a named token for oneself or, as an admin, for a service. Return it and its text,
    which is not stored.

    A service token has no owner and at most the permissions of its creator's current role. It
    expires when they leave.
    """
    role = _role(lab, by)
    if kind == TokenKind.SERVICE and role != Role.ADMIN:
        raise Forbidden(
            "Only an admin of the lab can create service tokens.", hint="Ask an admin of your lab."
        )
    if kind not in {TokenKind.USER, TokenKind.SERVICE}:
        raise InvalidInput(
            "A node gets its token by enrolment.",
            field="kind",
            hint=f"Open {reverse('node-enrol')}.",
        )
    checked_name = replace_unstorable(name).strip()
    if not checked_name or len(checked_name) > 100:
        raise InvalidInput(
            "A token needs a name of at most 100 characters.",
            field="name",
            hint="Enter where it is used, e.g. sweep server.",
        )
    if expires_us is not None and expires_us <= now:
        raise InvalidInput(
            "The expiry is in the past.", field="expires", hint="Choose a later expiry."
        )
    owner = by if kind == TokenKind.USER else None
    token, text = new_token(
        kind=kind,
        lab=lab,
        scopes=_checked_scopes(scopes, role),
        now=now,
        name=checked_name,
        user=owner,
        created_by=by,
        expires_us=expires_us,
    )
    details = {
        "kind": str(kind),
        "name": checked_name,
        "scopes": token.scopes,
        "expires_us": expires_us,
    }
    audit.record(
        lab=lab, by=by, action=Act.TOKEN_CREATED, subject=token.public_id, details=details, now=now
    )
    return token, text


@transaction.atomic
def revoke_token(*, lab: Lab, public_id: str, by: User, now: int) -> Token:
    """Revoke a token: one's own, or as an admin any of the lab. Tokens of others and missing
    ones get the same error.
    """
    token = tokens_of(lab, by, _role(lab, by)).filter(public_id=public_id).first()
    if token is None:
        raise NotFound(
            "No such token in your lab.", hint=f"Your tokens are listed at {reverse('tokens')}."
        )
    if Token.objects.filter(pk=token.pk, revoked_us__isnull=True).update(revoked_us=now) == 0:
        raise Conflict(
            "This token is already revoked.",
            hint=f"Active tokens are listed at {reverse('tokens')}.",
        )
    details = {
        "kind": token.kind,
        "name": token.name,
        "owner": token.user.get_username() if token.user else "",
    }
    audit.record(
        lab=lab, by=by, action=Act.TOKEN_REVOKED, subject=public_id, details=details, now=now
    )
    transaction.on_commit(forget_tokens)
    return token
