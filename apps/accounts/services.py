"""Writes of accounts: labs, projects, tokens, one-time codes."""

import secrets
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.text import slugify

from apps.accounts import calc
from apps.accounts.choices import SCOPES_OF_NODE, SCOPES_OF_ROLE, CodePurpose, Role, TokenKind
from apps.accounts.models import Lab, Membership, OneTimeCode, Project, Token, User
from apps.core.errors import Conflict, Forbidden, InvalidInput

MINUTE_US = 60_000_000
CODE_LIFE_US = {
    CodePurpose.SETUP: 24 * 60 * MINUTE_US,
    CodePurpose.SIGN_IN: 15 * MINUTE_US,
    CodePurpose.ENROL: 60 * MINUTE_US,
    CodePurpose.LOGIN: 10 * MINUTE_US,
}


def _signing_pepper() -> tuple[int, bytes]:
    number = max(settings.TOKEN_PEPPERS)
    return number, settings.TOKEN_PEPPERS[number]


@transaction.atomic
def create_lab(*, name: str, time_zone: str, owner: User, now: int) -> Lab:
    """Create a lab with its owner as admin and the project ``demo``."""
    lab = Lab.objects.create(slug=slugify(name)[:60].strip("-") or "lab", name=name, time_zone=time_zone, created_us=now)
    Membership.objects.create(lab=lab, user=owner, role=Role.ADMIN)
    create_project(lab=lab, slug="demo", name="Demo", now=now)
    return lab


def create_project(*, lab: Lab, slug: str, name: str, now: int) -> Project:
    """Create a project; its slug is unique in the lab."""
    if slug != slugify(slug) or not slug:
        raise InvalidInput(
            f"{slug!r} is not a usable short name.", field="slug", hint="Use lower-case letters, digits and hyphens."
        )
    if Project.objects.filter(lab=lab, slug=slug).exists():
        raise Conflict(f"The lab already has a project {slug!r}.", field="slug", hint=f"Open /projects/{slug}/.")
    return Project.objects.create(lab=lab, slug=slug, name=name.strip() or slug, created_us=now)


def _new_token(*, kind: str, lab: Lab, scopes: tuple[str, ...], now: int, node_uuid: UUID | None, user: User | None) -> str:
    text = calc.compose_token(kind, secrets.randbelow(62**calc.ID_LENGTH), secrets.randbelow(62**calc.SECRET_LENGTH))
    number, pepper = _signing_pepper()
    parts = calc.parse_token(text)
    assert parts is not None
    Token.objects.create(
        lab=lab,
        kind=kind,
        public_id=parts.public_id,
        digest=calc.keyed_digest(pepper, text),
        pepper=number,
        scopes=" ".join(scopes),
        node_uuid=node_uuid,
        user=user,
        created_us=now,
    )
    return text


def issue_node_token(*, lab: Lab, node_uuid: UUID, now: int) -> str:
    """Return a new token that may push for one node and read nothing; earlier ones of that node end."""
    Token.objects.filter(lab=lab, node_uuid=node_uuid, revoked_us__isnull=True).update(revoked_us=now)
    return _new_token(kind=TokenKind.NODE, lab=lab, scopes=tuple(SCOPES_OF_NODE), now=now, node_uuid=node_uuid, user=None)


def issue_user_token(*, lab: Lab, user: User, now: int) -> str:
    """Return a new token that may do what its owner's role allows."""
    role = Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True).first()
    if role is None:
        raise Forbidden("You are no longer a member of this lab.", hint="Ask an admin of your lab to add you.")
    return _new_token(kind=TokenKind.USER, lab=lab, scopes=SCOPES_OF_ROLE[role], now=now, node_uuid=None, user=user)


def issue_code(*, purpose: CodePurpose, now: int, lab: Lab | None = None, user: User | None = None, uses: int = 1) -> str:
    """Return a new one-time code; only its keyed digest is kept."""
    code = calc.compose_code(secrets.randbits(100))
    _, pepper = _signing_pepper()
    OneTimeCode.objects.create(
        purpose=purpose,
        digest=calc.keyed_digest(pepper, calc.normalised_code(code)),
        lab=lab,
        user=user,
        created_us=now,
        expires_us=now + CODE_LIFE_US[purpose],
        uses_left=uses,
    )
    return code


_URL = settings.SITE_URL
_MEND = {
    CodePurpose.SETUP: "Stop and start `make run`: it prints a new set-up link.",
    CodePurpose.SIGN_IN: "Stop and start `make run`: it prints a new sign-in link.",
    CodePurpose.ENROL: f"Make a new code at {_URL}/nodes/enrol/ and run `labcarbon-collect enrol {_URL}`.",
    CodePurpose.LOGIN: f"Make a new code at {_URL}/login-code/ and run `labcarbon-collect login {_URL}`.",
}


def spend_code(*, purpose: CodePurpose, code: str, now: int) -> OneTimeCode:
    """Use up one use of a code. Two at once: one wins. Unknown, spent and expired codes get the same answer."""
    digests = [calc.keyed_digest(pepper, calc.normalised_code(code)) for pepper in settings.TOKEN_PEPPERS.values()]
    candidates = OneTimeCode.objects.filter(purpose=purpose, digest__in=digests, expires_us__gt=now, uses_left__gt=0)
    if candidates.update(uses_left=F("uses_left") - 1) == 0:
        raise InvalidInput("This code is wrong, used up or expired.", field="code", hint=_MEND[purpose], code="bad_code")
    return OneTimeCode.objects.select_related("lab", "user").get(purpose=purpose, digest__in=digests)
