"""Writes of accounts: labs, projects, tokens, one-time codes."""

import secrets
from difflib import get_close_matches
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.urls import reverse
from django.utils.text import slugify

from apps.accounts import audit, credentials
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import (
    SCOPES_OF_NODE,
    SCOPES_OF_ROLE,
    Act,
    Basis,
    CodePurpose,
    PersonView,
    Profile,
    Role,
    TokenKind,
)
from apps.accounts.models import Lab, Membership, OneTimeCode, Project, Token, User
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.text import replace_unstorable

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


def checked_time_zone(text: str) -> str:
    """Return the name of a time zone, UTC for ''. The error for an unknown name suggests similar
    ones.
    """
    name = text.strip() or "UTC"
    known = available_timezones()
    if name in known:
        return name
    near = get_close_matches(name, known, n=4, cutoff=0.5)
    hint = (
        f"Did you mean {', '.join(near)}?" if near else "Enter a name such as Europe/Berlin or UTC."
    )
    raise InvalidInput(f"{name[:60]!r} is not a time zone.", field="time_zone", hint=hint)


def checked_lab_name(text: str) -> str:
    """Return the name of a lab as it is stored."""
    name = str(replace_unstorable(text)).strip()
    if not name:
        raise InvalidInput(
            "The lab has no name.", field="lab", hint="Enter a name, e.g. Cell Atlas Lab."
        )
    if len(name) > 200:
        raise InvalidInput(
            "The name is longer than 200 characters.", field="lab", hint="Shorten it."
        )
    return name


def _free_slug(name: str) -> str:
    """Return a short name that no other lab of this server has. Names of labs need not be
    unique.
    """
    slug = slugify(name)[:50].strip("-") or "lab"
    existing_slugs = set(Lab.objects.filter(slug__startswith=slug).values_list("slug", flat=True))
    return next(
        free
        for i in range(len(existing_slugs) + 1)
        if (free := f"{slug}-{i + 1}" if i else slug) not in existing_slugs
    )


@transaction.atomic
def create_lab(
    *, name: str, time_zone: str, owner: User, now: int, basis: Basis = Basis.LIFECYCLE
) -> Lab:
    """Create a lab with its owner as admin and the project ``demo``."""
    lab = Lab.objects.create(
        slug=_free_slug(name), name=name, time_zone=time_zone, basis=basis, created_us=now
    )
    Membership.objects.create(lab=lab, user=owner, role=Role.ADMIN, joined_us=now)
    details = {"admin": owner.get_username(), "time_zone": time_zone, "basis": basis.value}
    audit.record(lab=lab, by=owner, action=Act.LAB_CREATED, subject=name, details=details, now=now)
    create_project(lab=lab, slug="demo", name="Demo", now=now, by=owner)
    return lab


@transaction.atomic
def change_lab(
    *, lab: Lab, by: User, name: str, time_zone: str, person_view: str, now: int, profile: str = ""
) -> list[str]:
    """Change the name, time zone, visibility and scope profile ('': unchanged) of a lab. Return
    the names of changed fields. The audit log records the change.
    """
    if person_view not in PersonView.values:
        choices = ", ".join(PersonView.values)
        raise InvalidInput(
            f"{person_view[:40]!r} is not a visibility.",
            field="person_view",
            hint=f"Use one of {choices}.",
        )
    if profile and profile not in Profile.values:
        choices = ", ".join(Profile.values)
        raise InvalidInput(
            f"{profile[:40]!r} is not a scope profile.",
            field="profile",
            hint=f"Use one of {choices}.",
        )
    new_values = {
        "name": checked_lab_name(name),
        "time_zone": checked_time_zone(time_zone),
        "person_view": person_view,
    }
    new_values |= {"profile": profile} if profile else {}
    locked_lab = audit.hold(lab)
    changed = {
        key: {"from": getattr(locked_lab, key), "to": value}
        for key, value in new_values.items()
        if getattr(locked_lab, key) != value
    }
    if changed:
        Lab.objects.filter(pk=lab.pk).update(**new_values)
        audit.record(
            lab=lab,
            by=by,
            action=Act.LAB_CHANGED,
            subject=new_values["name"],
            details=changed,
            now=now,
        )
    return list(changed)


@transaction.atomic
def check_slug(slug: str) -> None:
    """Raise InvalidInput unless ``slug`` can be the short name of a project."""
    if slug != slugify(slug) or not slug:
        raise InvalidInput(
            f"{slug!r} is not a valid short name.",
            field="slug",
            hint="Use lower-case letters, digits and hyphens.",
        )


def create_project(*, lab: Lab, slug: str, name: str, now: int, by: User | None = None) -> Project:
    """Create a project; its slug is unique in the lab."""
    check_slug(slug)
    if Project.objects.filter(lab=lab, slug=slug).exists():
        raise Conflict(
            f"The lab already has a project {slug!r}.",
            field="slug",
            hint="Choose another short name.",
        )
    project = Project.objects.create(lab=lab, slug=slug, name=name.strip() or slug, created_us=now)
    audit.record(
        lab=lab,
        by=by,
        action=Act.PROJECT_CREATED,
        subject=slug,
        details={"name": project.name},
        now=now,
    )
    return project


def new_token(
    *, kind: str, lab: Lab, scopes: tuple[str, ...], now: int, **bound: Any
) -> tuple[Token, str]:
    """Return a new token and its text, of which only a keyed digest is stored. ``bound``:
    node_uuid, user, name, …
    """
    text = credentials.compose_token(
        kind,
        secrets.randbelow(62**credentials.ID_LENGTH),
        secrets.randbelow(62**credentials.SECRET_LENGTH),
    )
    number, pepper = _signing_pepper()
    parts = credentials.parse_token(text)
    assert parts is not None
    token = Token.objects.create(
        lab=lab,
        kind=kind,
        public_id=parts.public_id,
        digest=credentials.keyed_digest(pepper, text),
        pepper=number,
        scopes=" ".join(scopes),
        created_us=now,
        **bound,
    )
    return token, text


@transaction.atomic
def revoke_node_tokens(*, lab: Lab, node_uuid: UUID, now: int) -> int:
    """Revoke the tokens of a node. Return their number."""
    tokens = Token.objects.filter(lab=lab, node_uuid=node_uuid, revoked_us__isnull=True)
    transaction.on_commit(forget_tokens)
    return tokens.update(revoked_us=now)


@transaction.atomic
def issue_node_token(*, lab: Lab, node_uuid: UUID, now: int, by: User | None = None) -> str:
    """Return a new token that uploads for one node and has no read access. Earlier tokens of the
    node are revoked.
    """
    revoke_node_tokens(lab=lab, node_uuid=node_uuid, now=now)
    _, text = new_token(
        kind=TokenKind.NODE,
        lab=lab,
        scopes=tuple(SCOPES_OF_NODE),
        now=now,
        node_uuid=node_uuid,
        created_by=by,
    )
    return text


@transaction.atomic
def issue_user_token(*, lab: Lab, user: User, now: int, name: str = "") -> str:
    """Return a new token for a terminal, with all permissions of its owner's role."""
    role = Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True).first()
    if role is None:
        raise Forbidden(
            "You are no longer a member of this lab.", hint="Ask an admin of your lab to add you."
        )
    token, text = new_token(
        kind=TokenKind.USER,
        lab=lab,
        scopes=SCOPES_OF_ROLE[role],
        now=now,
        user=user,
        name=name,
        created_by=user,
    )
    details = {"kind": token.kind, "name": name, "scopes": token.scopes, "expires_us": None}
    audit.record(
        lab=lab,
        by=user,
        action=Act.TOKEN_CREATED,
        subject=token.public_id,
        details=details,
        now=now,
    )
    return text


def new_code() -> tuple[str, str]:
    """Return a new one-time code and its keyed digest."""
    code = credentials.compose_code(secrets.randbits(100))
    _, pepper = _signing_pepper()
    return code, credentials.keyed_digest(pepper, credentials.normalised_code(code))


def code_digests(code: str) -> list[str]:
    """Return the keyed digests of a typed code, one for each pepper."""
    return [
        credentials.keyed_digest(pepper, credentials.normalised_code(code))
        for pepper in settings.TOKEN_PEPPERS.values()
    ]


def issue_code(
    *,
    purpose: CodePurpose,
    now: int,
    lab: Lab | None = None,
    user: User | None = None,
    uses: int = 1,
) -> str:
    """Return a new one-time code; only its keyed digest is stored."""
    code, digest = new_code()
    OneTimeCode.objects.create(
        purpose=purpose,
        digest=digest,
        lab=lab,
        user=user,
        created_us=now,
        expires_us=now + CODE_LIFE_US[purpose],
        uses_left=uses,
    )
    return code


def _hint(purpose: CodePurpose) -> str:
    """Return how to get a new code."""
    site = settings.SITE_URL
    return {
        CodePurpose.SETUP: "Restart `make run`: it prints a new setup link.",
        CodePurpose.SIGN_IN: "Restart `make run`: it prints a new sign-in link.",
        CodePurpose.ENROL: (
            f"Create a new code at {site}{reverse('node-enrol')} and run `labcarbon-collect "
            f"enrol {site}`."
        ),
        CodePurpose.LOGIN: (
            f"Create a new code at {site}{reverse('login-code')} and run `labcarbon-collect "
            f"login {site}`."
        ),
    }[purpose]


def spend_code(*, purpose: CodePurpose, code: str, now: int) -> OneTimeCode:
    """Use up one use of a code. Of two concurrent calls one succeeds. Unknown, used and expired
    codes get the same error.
    """
    digests = code_digests(code)
    candidates = OneTimeCode.objects.filter(
        purpose=purpose, digest__in=digests, expires_us__gt=now, uses_left__gt=0
    )
    if candidates.update(uses_left=F("uses_left") - 1) == 0:
        raise InvalidInput(
            "This code is wrong, used up or expired.",
            field="code",
            hint=_hint(purpose),
            code="bad_code",
        )
    return OneTimeCode.objects.select_related("lab", "user").get(
        purpose=purpose, digest__in=digests
    )
