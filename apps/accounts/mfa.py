"""The second factor: an authenticator app's codes (TOTP, RFC 6238) and recovery codes, by
allauth.mfa.

Added to the library: secrets are encrypted in the database; one code opens one door, in whichever
process and however often the cache is emptied; whoever has just proved the app need not prove it
again to see the recovery codes.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from allauth.account.internal.flows.login import record_authentication
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.forms import AuthenticateForm, BaseAuthenticateForm, ReauthenticateForm
from allauth.mfa.base.internal.flows import check_rate_limit
from allauth.mfa.base.views import IndexView
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    format_hotp_value,
    hotp_value,
    yield_hotp_counters_from_time,
)
from allauth.mfa.totp.views import ActivateTOTPView
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import Form
from django.http import HttpResponse

from apps.accounts.choices import SignInMethod
from apps.accounts.encryption import DecryptionError, decrypt, encrypt
from apps.accounts.services.sign_ins import record_failed_sign_in
from apps.core.clock import now_us

_PURPOSE = "labcarbon second factor"
_SPENT = "last_counter"  # in the data of an app: the 30 s step of the last code that was accepted


class SecondFactor(DefaultMFAAdapter):
    """Encryption of secrets, error messages, and the name of this server in the app."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": (
            "This code is wrong. Enter the six digits that the app shows now. Check the clock "
            "of the phone."
        ),
    }

    def get_totp_issuer(self) -> str:
        return f"LabCarbon {urlsplit(settings.SITE_URL).hostname}"

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def encrypt(self, text: str) -> str:
        return encrypt(_PURPOSE, text)

    def decrypt(self, encrypted_text: str) -> str:
        try:
            return decrypt(_PURPOSE, encrypted_text)
        except DecryptionError as error:
            raise ValidationError(
                "Your second factor cannot be decrypted: the token peppers of the server were "
                "changed. "
                "Ask an admin of the server to run `manage.py reset_mfa` for you."
            ) from error


def _authenticator_of(user: AbstractBaseUser) -> Authenticator | None:
    return Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.TOTP).first()


def _steps(app: Authenticator, code: str) -> Iterator[int]:
    """Yield the 30 s steps that are accepted now and have this code."""
    secret = SecondFactor().decrypt(app.data["secret"])
    for counter in yield_hotp_counters_from_time():
        if compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, counter))):
            yield counter


def spend(user: AbstractBaseUser, code: str) -> bool:
    """Use up a code of the person's app. Return whether it was valid and newer than the last one
    used.
    """
    with transaction.atomic():
        app = Authenticator.objects.select_for_update().get(
            user_id=user.pk, type=Authenticator.Type.TOTP
        )
        fresh = [counter for counter in _steps(app, code) if counter > app.data.get(_SPENT, -1)]
        if fresh:
            app.data[_SPENT] = fresh[0]
            app.save(update_fields=["data"])
    return bool(fresh)


class _SingleUseCode(BaseAuthenticateForm):
    """Refuses a used code before the library sees it, because a valid code resets the count of
    wrong ones.
    """

    def clean_code(self) -> str:
        app = _authenticator_of(self.user)
        steps = list(_steps(app, self.cleaned_data["code"])) if app else []
        if app and steps and max(steps) <= app.data.get(_SPENT, -1):
            check_rate_limit(self.user)
            raise ValidationError(
                "This code was already used. Wait for the next one.", code="incorrect_code"
            )
        code: str = super().clean_code()
        if self.authenticator.type == Authenticator.Type.TOTP and not spend(self.user, code):
            raise ValidationError(
                "This code was already used. Wait for the next one.", code="incorrect_code"
            )
        return code


class Authenticate(_SingleUseCode, AuthenticateForm):
    """The form at sign-in. Wrong codes are recorded in the audit log, throttled ones are not."""

    def clean_code(self) -> str:
        try:
            return super().clean_code()
        except ValidationError as error:
            if error.code == "incorrect_code":
                record_failed_sign_in(
                    user=self.user, method=SignInMethod.SECOND_FACTOR, now=now_us()
                )
            raise


class Reauthenticate(_SingleUseCode, ReauthenticateForm):
    """The form before a change of the second factor."""


class Activate(ActivateTOTPView):
    """Activates an app with its first code, which is then used up."""

    def form_valid(self, form: Form) -> HttpResponse:
        response: HttpResponse = super().form_valid(form)
        app = _authenticator_of(self.request.user)
        if app is not None:
            spend(self.request.user, form.cleaned_data["code"])
            record_authentication(
                self.request,
                self.request.user,
                "mfa",
                id=app.pk,
                type=app.type,
                reauthenticated=True,
            )
        return response


class Security(IndexView):
    """Account security: password, second factor, and linked identity."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        page: dict[str, Any] = super().get_context_data(**kwargs)
        used = page["authenticators"].get("recovery_codes")
        mask = used.instance.data["used_mask"] if used else 0
        oidc = settings.ENVIRONMENT.oidc
        links = (
            SocialAccount.objects.filter(user_id=self.request.user.pk, provider=oidc.issuer)
            if oidc.is_enabled
            else []
        )
        page.update(
            codes_left=app_settings.RECOVERY_CODE_COUNT - mask.bit_count() if used else None,
            links=[(link, link.extra_data.get("email") or link.uid) for link in links],
            provider=(oidc.name or urlsplit(oidc.issuer).hostname) if oidc.is_enabled else "",
        )
        return page


activate = Activate.as_view()
security = Security.as_view()
