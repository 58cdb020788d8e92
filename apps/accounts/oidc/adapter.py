"""Who gets in by OpenID Connect (docs/sign-in.md): whoever is linked, vouched for by their mail address, or invited."""

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

from apps.accounts.models import Membership, User
from apps.accounts.oidc.id_token import InvalidIdToken
from apps.accounts.oidc.provider import CarefulSession, StrictProvider, configured_app
from apps.accounts.services.invitations import accept_by_email
from apps.core.clock import now_us
from apps.core.errors import Conflict
from apps.core.text import replace_unstorable

log = logging.getLogger(__name__)


def user_with_verified_email(mail: str) -> User | None:
    """Return whose confirmed address this is. An address that nobody confirmed opens no account (docs/sign-in.md)."""
    address = EmailAddress.objects.select_related("user").filter(email=mail.lower(), verified=True).first()
    return address.user if address else None


@transaction.atomic
def verify_email_address(*, user: User, mail: str) -> None:
    """Record that ``mail`` is this person's: from now on whoever proves to own it may sign in as them.

    For an address that a provider has verified or an admin stands for; never for one that the person typed in themselves.
    Raise Conflict where it is somebody else's.
    """
    address = mail.strip().lower()
    holder = user_with_verified_email(address)
    if holder is not None and holder.pk != user.pk:
        raise Conflict(
            f"{address} is confirmed as the address of {holder.get_username()}.", hint="Nobody shares an address."
        )
    first = not EmailAddress.objects.filter(user=user, primary=True).exists()
    kept, _ = EmailAddress.objects.get_or_create(user=user, email=address, defaults={"primary": first})
    kept.verified = True
    kept.save()
    if not user.email:
        user.email = address
        user.save(update_fields=["email"])


def _refuse(request: HttpRequest, title: str, message: str, hint: str) -> HttpResponse:
    page = {"title": title, "message": message, "hint": hint}
    return render(request, "socialaccount/refused.html", page, status=403)


class Identities(DefaultSocialAccountAdapter):
    """The one provider of the environment, and who of its people may come in."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> StrictProvider:
        return StrictProvider(request, app=configured_app())

    def list_providers(self, request: HttpRequest) -> list[StrictProvider]:
        return [StrictProvider(request, app=configured_app())] if settings.ENVIRONMENT.oidc.on else []

    def get_requests_session(self) -> requests.Session:
        return CarefulSession()

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("mfa_index")

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        """Note why; send whoever turned back at the provider to the sign-in page."""
        log.warning("Sign-in by OpenID Connect failed: %s", exception if isinstance(exception, InvalidIdToken) else error)
        if error == AuthError.CANCELLED:
            messages.info(request, f"You turned back at {provider.name}. Nobody was signed in.")
            raise ImmediateHttpResponse(HttpResponseRedirect(reverse("account_login")))

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Let in by link, by a mail address that is vouched for, or by invitation; end everybody else's sign-in here."""
        mail = _verified_mail(request, sociallogin)
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            return
        try:
            with transaction.atomic():
                _admit(request, sociallogin, mail)
        except (IntegrityError, Conflict):  # the same person in two windows at once: the other one has made the link
            messages.info(request, "You signed in twice at the same moment. Once more, please.")
            raise ImmediateHttpResponse(HttpResponseRedirect(reverse("account_login"))) from None


def _verified_mail(request: HttpRequest, sociallogin: SocialLogin) -> str:
    """Return the mail address that the provider vouches for."""
    name = sociallogin.provider.name
    addresses = sociallogin.email_addresses
    if addresses and addresses[0].verified:
        return str(addresses[0].email).lower()
    if not addresses:
        message, hint = f"{name} did not tell us your mail address.", "Ask its admins to let LabCarbon read the scope email."
    else:
        message = f"{name} has not verified that {addresses[0].email} is yours, so that it cannot be told who you are here."
        hint = f"Confirm the address at {name}, then sign in again."
    log.warning("Sign-in by OpenID Connect refused: no verified mail address")
    raise ImmediateHttpResponse(_refuse(request, "Your mail address is not verified", message, hint))


def _new_person(sociallogin: SocialLogin, mail: str) -> User:
    """Create the account of somebody who is invited: without a password, named as the provider names them."""
    suggested = sociallogin.user
    username = account_adapter().generate_unique_username([replace_unstorable(suggested.username), mail, "person"])
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
    """Take up what is open for ``mail``; return whether the person has a place in a lab now."""
    if person.is_active:
        accept_by_email(user=person, verified_email=mail, now=now_us())
    return Membership.objects.filter(user=person).exists()


def _admit(request: HttpRequest, sociallogin: SocialLogin, mail: str) -> None:
    """Link the sign-in to a person who may come in, or raise: within a transaction, so that nothing stays of others."""
    known = sociallogin.user if sociallogin.is_existing else user_with_verified_email(mail)
    person = known or _new_person(sociallogin, mail)
    in_a_lab = _accept_invitations(person, mail)
    if known is None and not in_a_lab:
        log.warning("Sign-in by OpenID Connect refused: no place for this person")
        message = f"You have no place in a lab here: ask an admin to invite {mail}."
        name = sociallogin.provider.name
        hint = f"If you have an account here, sign in to it as before and link {name} under Account security."
        raise ImmediateHttpResponse(_refuse(request, "You have no place here yet", message, hint))
    if not sociallogin.is_existing:
        sociallogin.connect(request, person)
