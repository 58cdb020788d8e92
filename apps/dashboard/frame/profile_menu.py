"""The scope profile of a request (from the address, else from the lab) and the menu that changes
it.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest

from apps.accounts.models import Lab
from apps.carbon.figures.scopes import PROFILE_NAMES, PROFILES
from apps.core.errors import InvalidInput


@dataclass(frozen=True)
class ProfileChoice:
    """A profile of the menu."""

    key: str
    name: str
    href: str
    current: bool


def requested_profile(request: HttpRequest, lab: Lab) -> str:
    """Return the profile of an address, else of the lab. Raises InvalidInput for an unknown one."""
    profile = request.GET.get("profile") or lab.profile
    if profile not in PROFILES:
        raise InvalidInput(
            f"{profile[:40]!r} is not a scope profile.",
            field="profile",
            hint=f"Use one of {', '.join(PROFILES)}.",
        )
    return profile


def profile_choices(request: HttpRequest, lab: Lab) -> list[ProfileChoice]:
    """Return the menu: the same address with each profile. A scope belongs to one profile, so it
    is removed.
    """
    requested = request.GET.get("profile")
    current = requested if requested in PROFILES else lab.profile
    other_params = [
        (name, value)
        for name, values in request.GET.lists()
        for value in values
        if name not in ("profile", "scope")
    ]
    return [
        ProfileChoice(
            key,
            PROFILE_NAMES[key],
            f"{request.path}?{urlencode([*other_params, ('profile', key)])}",
            key == current,
        )
        for key in PROFILES
    ]
