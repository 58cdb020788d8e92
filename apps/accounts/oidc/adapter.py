"""Access by OpenID Connect (docs/sign-in.md): by a linked identity, a verified e-mail address,
or an invitation.
"""

import logging
from typing import Any

import requests
from allauth.account.adapter import get_adapter as account_adapter
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.choices import SignInMethod
from apps.accounts.models import Membership, User
from apps.accounts.oidc.id_token import InvalidIdToken
from apps.accounts.oidc.provider import CarefulSession, StrictProvider, configured_app
from apps.accounts.services.invitations import accept_by_email
from apps.accounts.services.sign_ins import record_failed_sign_in
from apps.core.clock import now_us
from apps.core.errors import Conflict
from apps.core.text import replace_unstorable

log = logging.getLogger(__name__)


def user_with_verified_email(mail: str) -> User | None:
    """Return the user with this confirmed address. Unconfirmed addresses give no access
    (docs/sign-in.md).
    """
    address = (
        EmailAddress.objects.select_related("user")
        .filter(email=mail.lower(), verified=True)
        .first()
    )
    return address.user if address else None


@transaction.atomic
def verify_email_address(*, user: User, mail: str) -> None:
    """Record ``mail`` as a verified address of this person, which permits sign-in as them.

    Only for addresses that a provider or an admin verified, never for one that the person entered.
    Raises Conflict for an address of another person.
    """
    address = mail.strip().lower()
    holder = user_with_verified_email(address)
    if holder is not None and holder.pk != user.pk:
        raise Conflict(
            f"{address} is the confirmed address of {holder.get_username()}.",
            hint="Use an address that no other person has.",
        )
    first = not EmailAddress.objects.filter(user=user, primary=True).exists()
    record, _ = EmailAddress.objects.get_or_create(
        user=user, email=address, defaults={"primary": first}
    )
    record.verified = True
    record.save()
    if not user.email:
        user.email = address
        user.save(update_fields=["email"])


def _refuse(request: HttpRequest, title: str, message: str, hint: str) -> HttpResponse:
    page = {"title": title, "message": message, "hint": hint}
    return render(request, "socialaccount/refused.html", page, status=403)


class Identities(DefaultSocialAccountAdapter):
    """The provider of the environment and the rules of access for its people."""

    def get_provider(
        self, request: HttpRequest, provider: str, client_id: str | None = None
    ) -> StrictProvider:
        return StrictProvider(request, app=configured_app())

    def list_providers(self, request: HttpRequest) -> list[StrictProvider]:
        return (
            [StrictProvider(request, app=configured_app())]
            if settings.ENVIRONMENT.oidc.is_enabled
            else []
        )

    def get_requests_session(self) -> requests.Session:
        return CarefulSession()

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("mfa_index")

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> None:
        """Log the reason. After a cancelled sign-in, redirect to the sign-in page."""
        log.warning(
            "Sign-in by OpenID Connect failed: %s",
            exception if isinstance(exception, InvalidIdToken) else error,
        )
        if error == AuthError.CANCELLED:
            messages.info(request, f"Sign-in at {provider.name} was cancelled.")
            raise ImmediateHttpResponse(HttpResponseRedirect(reverse("account_login")))
        record_failed_sign_in(user=None, method=SignInMethod.PROVIDER, now=now_us())

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Permit sign-in by a linked identity, a verified e-mail address, or an invitation.
        Refuse all others.
        """
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            _verified_mail(request, sociallogin)
            return
        try:
            mail = _verified_mail(request, sociallogin)
            with transaction.atomic():
                _admit(request, sociallogin, mail)
        except ImmediateHttpResponse:  # recorded here: a refusal rolls its transaction back
            record_failed_sign_in(user=None, method=SignInMethod.PROVIDER, now=now_us())
            raise
        except (
            IntegrityError,
            Conflict,
        ):  # the same person in two windows: the other one created the link
            messages.info(request, "Two sign-ins collided. Please try again.")
            raise ImmediateHttpResponse(HttpResponseRedirect(reverse("account_login"))) from None


def _verified_mail(request: HttpRequest, sociallogin: SocialLogin) -> str:
    """Return the e-mail address that the provider verified."""
    name = sociallogin.provider.name
    addresses = sociallogin.email_addresses
    if addresses and addresses[0].verified:
        return str(addresses[0].email).lower()
    if not addresses:
        message, hint = (
            f"{name} did not send your e-mail address.",
            "Ask its admins to permit the scope email for LabCarbon.",
        )
    else:
        message = f"{name} has not verified that {addresses[0].email} is your address."
        hint = f"Confirm the address at {name}, then sign in again."
    log.warning("Sign-in by OpenID Connect refused: no verified mail address")
    raise ImmediateHttpResponse(_refuse(request, "E-mail address not verified", message, hint))


def _new_person(sociallogin: SocialLogin, mail: str) -> User:
    """Create the account of an invited person, without a password, with the name from the
    provider.
    """
    suggested = sociallogin.user
    username = account_adapter().generate_unique_username(
        [replace_unstorable(suggested.username), mail, "person"]
    )
    person = User(username=username, email=mail)
    person.first_name, person.last_name = (
        replace_unstorable(suggested.first_name)[:150],
        replace_unstorable(suggested.last_name)[:150],
    )
    person.set_unusable_password()
    person.save()
    verify_email_address(user=person, mail=mail)
    return person


def _accept_invitations(person: User, mail: str) -> bool:
    """Accept open invitations for ``mail``. Return whether the person is a member of a lab."""
    if person.is_active:
        accept_by_email(user=person, verified_email=mail, now=now_us())
    return Membership.objects.filter(user=person).exists()


def _admit(request: HttpRequest, sociallogin: SocialLogin, mail: str) -> None:
    """Link the sign-in to a person with access, or raise. Runs in a transaction, so that a
    refusal leaves no records.
    """
    known = sociallogin.user if sociallogin.is_existing else user_with_verified_email(mail)
    person = known or _new_person(sociallogin, mail)
    in_a_lab = _accept_invitations(person, mail)
    if known is None and not in_a_lab:
        log.warning("Sign-in by OpenID Connect refused: not a member of a lab")
        message = f"You are not a member of a lab on this server: ask an admin to invite {mail}."
        name = sociallogin.provider.name
        hint = (
            f"If you have an account here, sign in with your password and link {name} under "
            "Account security."
        )
        raise ImmediateHttpResponse(_refuse(request, "No membership yet", message, hint))
    if not sociallogin.is_existing:
        sociallogin.connect(request, person)
