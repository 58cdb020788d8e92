"""Writes that span apps: setup, further labs, and accounts by invitation."""

from dataclasses import dataclass

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import reverse

from apps.accounts import selectors as accounts
from apps.accounts.choices import Basis, CodePurpose
from apps.accounts.models import Lab, Membership, User
from apps.accounts.services.invitations import accept_invitation
from apps.accounts.services.labs import checked_lab_name, checked_time_zone, create_lab, spend_code
from apps.carbon.basis import check_basis
from apps.carbon.factor_levels import levels_of_zones
from apps.carbon.figures.energy import zones
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.models import Site
from apps.fleet.services import create_site
from apps.fleet.zones import resolve_zone

SITE_KINDS = [(kind.value, kind.label) for kind in SiteKind if kind != SiteKind.DECLARED]


@dataclass(frozen=True)
class SetupResult:
    """The result of setup. ``note``: why emissions are unknown, '' if they are not."""

    user: User
    lab: Lab
    site: Site
    note: str


def zone_label(code: str, name: str) -> str:
    """Return the label of a zone: 'Germany (DE)'."""
    return f"{name} ({code})"


def zone_code(text: str) -> str:
    """Return the grid zone of a code, a name, a label or a cloud region, '' for none. The error for
    an unknown zone suggests similar ones.
    """
    if text.strip() and not zones():
        raise InvalidInput(
            "No emission factors are loaded, so a zone cannot be chosen yet.",
            field="zone",
            hint="Leave the zone empty and choose it later. `make run` loads the factors.",
        )
    return resolve_zone(text)


def new_user(username: str, password: str) -> User:
    """Create an account, without a password for ''."""
    user = User(username=username.strip())
    try:
        user.clean_fields(exclude=["password"])
        user.validate_unique()
    except ValidationError as error:
        message = error.message_dict.get("username", error.messages)[0]
        raise InvalidInput(
            message, field="username", hint="Examples: ada, ada.lovelace."
        ) from error
    if password:
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise InvalidInput(
                " ".join(error.messages), field="password", hint="Choose a longer password."
            ) from error
        user.set_password(password)
    else:
        user.set_unusable_password()
    user.save()
    return user


@transaction.atomic
def set_up(
    *,
    lab_name: str,
    username: str,
    password: str,
    zone: str,
    basis: str,
    site_kind: str,
    time_zone: str,
    now: int,
    code: str | None = None,
) -> SetupResult:
    """Create the first user, their lab with the project demo, and its site. ``code`` None: called
    on the server itself.

    An error writes nothing and does not use up the code. With ``zone`` '', energy is counted and
    emissions are unknown until a zone is chosen.
    """
    if accounts.is_set_up():
        raise Conflict(
            "LabCarbon is already set up.", hint=f"Sign in at {reverse('account_login')}."
        )
    lab_name = checked_lab_name(lab_name)
    if site_kind not in dict(SITE_KINDS):
        kinds = ", ".join(kind for kind, _ in SITE_KINDS)
        raise InvalidInput(
            f"{site_kind[:40]!r} is not a kind of site.",
            field="site_kind",
            hint=f"Use one of {kinds}.",
        )
    chosen_basis = check_basis(basis)
    grid_zone, zone_name = zone_code(zone), checked_time_zone(time_zone)
    user = new_user(username, password)
    result = _lab_with_site(user, lab_name, grid_zone, chosen_basis, site_kind, zone_name, now)
    if code is not None:
        spend_code(purpose=CodePurpose.SETUP, code=code, now=now)
    return result


def _lab_with_site(
    user: User, name: str, zone: str, basis: Basis, site_kind: str, time_zone: str, now: int
) -> SetupResult:
    lab = create_lab(name=name, time_zone=time_zone, basis=basis, owner=user, now=now)
    site = create_site(
        lab=lab, name="Main site", kind=SiteKind(site_kind), zone=zone, by=user, now=now
    )
    return SetupResult(user, lab, site, _note(lab, site, zone, now))


def _note(lab: Lab, site: Site, zone: str, now: int) -> str:
    """Return why the emissions of a new site are unknown, '' if they are not."""
    if not zone:
        address = reverse("site", args=[site.pk])
        return f"No grid zone: energy will be shown without carbon. Choose a zone at {address}."
    if levels_of_zones(lab, [zone], hour_of(now))[zone].applied is None:
        return (
            f"{zone} has no {lab.get_basis_display().lower()} factor: energy will be shown without "
            f"carbon. Change the basis at {reverse('lab-basis')}."
        )
    return ""


@transaction.atomic
def add_lab(
    *,
    lab_name: str,
    username: str,
    new_account: bool,
    zone: str,
    basis: str,
    site_kind: str,
    time_zone: str,
    now: int,
) -> SetupResult:
    """Create another lab on this server, with its site, the project demo and its first admin.

    The admin must have an account, unless ``new_account`` creates one without a password.
    """
    name, chosen_basis, grid_zone, zone_name = (
        checked_lab_name(lab_name),
        check_basis(basis),
        zone_code(zone),
        checked_time_zone(time_zone),
    )
    user = User.objects.filter(username=username.strip()).first()
    if new_account:
        user = new_user(username, "")
    elif user is None:
        hint = "Enter the user name of an existing account, or add --new-account."
        raise InvalidInput(f"No user {username[:60]!r} on this server.", field="user", hint=hint)
    return _lab_with_site(user, name, grid_zone, chosen_basis, site_kind, zone_name, now)


@transaction.atomic
def accept_as_new_person(*, code: str, username: str, password: str, now: int) -> Membership:
    """Create an account and join the lab of an invitation, both or neither.

    The e-mail address of the invitation is not copied: a link does not prove ownership of an
    address.
    """
    if not password:
        raise InvalidInput(
            "A new account needs a password.",
            field="password",
            hint="Enter a password of 8 characters or more.",
        )
    return accept_invitation(code=code, user=new_user(username, password), now=now)
