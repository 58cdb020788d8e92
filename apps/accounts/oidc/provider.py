"""Sign-in by OpenID Connect: allauth's flow, with checks that the standard requires and allauth
lacks.

allauth stores the state in the session, does PKCE and exchanges the code. By default it

- sends no nonce,
- does not check the signature of an ID token that it fetched itself,
- uses the facts of the userinfo endpoint without a comparison of the subject,
- accepts any text in email_verified as true,
- passes query parameters on to the provider.
"""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import requests
import urllib3
from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.account.models import EmailAddress
from allauth.core import ratelimit
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import Provider
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.oidc.id_token import Expected, InvalidIdToken, verified_claims
from apps.core.text import replace_unstorable

log = logging.getLogger(__name__)

TIMEOUT_S = 5
ANSWER_BYTES = 1 << 20
DISCOVERY = "/.well-known/openid-configuration"
_KEPT = ("email", "name", "preferred_username")  # stored claims: they identify the owner of a link


def configured_app() -> SocialApp:
    """Return the provider of the environment. Links are bound to its issuer, because a `sub` is
    unique only there.
    """
    oidc = settings.ENVIRONMENT.oidc
    if not oidc.is_enabled:
        raise SocialApp.DoesNotExist
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=oidc.issuer,
        name=oidc.name or str(urlsplit(oidc.issuer).hostname),
        client_id=oidc.client_id,
        secret=oidc.client_secret,
        settings={"oauth_pkce_enabled": True},
    )


class CarefulSession(requests.Session):
    """Sends requests to the provider: short timeout, no redirects, responses of at most 1 MiB."""

    def request(
        self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any
    ) -> requests.Response:
        kwargs.update(timeout=TIMEOUT_S, allow_redirects=False, stream=True)
        until_s = time.monotonic() + TIMEOUT_S
        response = super().request(method, url, *args, **kwargs)
        with response:
            body = b""
            while chunk := _read_part(response):
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise requests.RequestException("The provider's answer is too long.")
                if time.monotonic() > until_s:  # the timeout of requests is per read
                    raise requests.Timeout("The provider's answer takes too long.")
        response._content = body  # noqa: SLF001  # requests caches the body of a response here
        return response


def _read_part(response: requests.Response) -> bytes:
    """Return the bytes that arrived, b"" at the end. Raises requests.RequestException."""
    try:
        part: bytes = response.raw.read1(65_536, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise requests.ConnectionError(error) from error
    return part


def _fetch_json(url: str, **headers: str) -> dict[str, Any]:
    """Return the JSON object at ``url``."""
    try:
        with CarefulSession() as session:
            response = session.get(url, headers={"Accept": "application/json", **headers})
        document = response.json() if response.status_code == 200 else None
    except requests.RequestException as error:
        log.warning("The identity provider is not reachable at %s: %s", url, error)
        raise InvalidIdToken("The identity provider is not reachable.") from error
    if not isinstance(document, dict):
        log.warning(
            "The identity provider returned %s at %s, not a JSON object", response.status_code, url
        )
        raise InvalidIdToken("The response of the identity provider is invalid.")
    return document


def _checked_config(config: dict[str, Any], issuer: str) -> dict[str, Any]:
    """Return the discovery document. It must be that of the issuer, with endpoints as secure as
    the issuer's URL.
    """
    if str(config.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise InvalidIdToken("The issuer of the provider differs from LABCARBON_OIDC_ISSUER.")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
        address = urlsplit(str(config.get(name, "")))
        if name == "userinfo_endpoint" and name not in config:
            continue
        if not address.hostname or address.scheme not in {"https", urlsplit(issuer).scheme}:
            raise InvalidIdToken(f"The provider's {name} is not an https:// URL.")
    return config


class StrictOidc(OpenIDConnectOAuth2Adapter):
    """One sign-in with the provider."""

    def __init__(self, request: HttpRequest) -> None:
        self.app = configured_app()
        self.nonce = ""
        super().__init__(request, self.app.provider_id)

    @property
    def openid_config(self) -> dict[str, Any]:
        if not hasattr(self, "_openid_config"):
            issuer = self.app.provider_id
            self._openid_config = _checked_config(
                _fetch_json(issuer.rstrip("/") + DISCOVERY), issuer
            )
        return self._openid_config

    @property
    def basic_auth(self) -> bool:
        """Whether the client secret is sent in a header, which is the default of the standard."""
        methods = self.openid_config.get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        return "client_secret_basic" in methods and "client_secret_post" not in methods

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Return the callback URL registered with the provider, independent of the Host header."""
        return str(settings.SITE_URL) + reverse("oidc_callback")

    def get_access_token_data(
        self,
        request: HttpRequest,
        app: SocialApp,
        client: OAuth2Client,
        pkce_code_verifier: str | None = None,
    ) -> dict[str, Any]:
        """Exchange the code for tokens. Error details of the provider are kept out of pages and
        logs.
        """
        try:
            answer = super().get_access_token_data(request, app, client, pkce_code_verifier)
            return {"access_token": str(answer["access_token"]), "id_token": answer.get("id_token")}
        except (
            OAuth2Error,
            requests.RequestException,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise InvalidIdToken(
                "The provider rejected the code: it was already used or has expired."
            ) from error

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        config = self.openid_config
        expected = Expected(issuer=config["issuer"], client_id=app.client_id, nonce=self.nonce)
        claims = verified_claims(
            kwargs["response"]["id_token"], _fetch_json(config["jwks_uri"]), expected
        )
        facts = claims
        if not {"email", "email_verified"} <= claims.keys() and "userinfo_endpoint" in config:
            facts = _fetch_json(config["userinfo_endpoint"], Authorization=f"Bearer {token.token}")
            if facts.get("sub") != claims["sub"]:
                raise InvalidIdToken("The userinfo of the provider belongs to another person.")
        return self.get_provider().sociallogin_from_response(request, facts)


class StrictProvider(OpenIDConnectProvider):
    """The provider of the environment."""

    def get_oauth2_adapter(self, request: HttpRequest) -> StrictOidc:
        return StrictOidc(request)

    def get_login_url(self, request: HttpRequest, **kwargs: str) -> str:
        return reverse("oidc_login")

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Return the next URL and a new nonce. Other query parameters are not sent to the
        provider.
        """
        redirect_options = Provider.get_redirect_from_request_kwargs(self, request)
        process = (
            AuthProcess.CONNECT
            if redirect_options.pop("process") == AuthProcess.CONNECT
            else AuthProcess.LOGIN
        )
        nonce = secrets.token_urlsafe(32)
        return {
            **redirect_options,
            "process": process,
            "nonce": nonce,
            "auth_params": {"nonce": nonce},
        }

    def extract_uid(self, data: Mapping[str, Any]) -> str:
        return str(data["sub"])

    def extract_extra_data(self, data: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: replace_unstorable(data[name])[:200]
            for name in _KEPT
            if isinstance(data.get(name), str)
        }

    def extract_common_fields(self, data: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = super().extract_common_fields(data)
        return {name: value for name, value in fields.items() if isinstance(value, str)}

    def extract_email_addresses(self, data: Mapping[str, Any]) -> list[EmailAddress]:
        """Return the e-mail address. Verified is true or (with some providers) the text "true",
        nothing else.
        """
        mail, verified = data.get("email"), data.get("email_verified")
        if not isinstance(mail, str):
            return []
        return [
            EmailAddress(email=mail, verified=verified is True or verified == "true", primary=True)
        ]


class _Callback(OAuth2CallbackView):
    def _get_state(
        self, request: HttpRequest, provider: StrictProvider
    ) -> tuple[Any, HttpResponse | None]:
        state, response = super()._get_state(request, provider)
        self.adapter.nonce = (state or {}).get("nonce", "")
        return state, response


@never_cache
def login(request: HttpRequest) -> HttpResponse:
    """Confirm (GET) or start the sign-in (POST). A page redirects to the provider: the CSP
    permits no form to.
    """
    limited: HttpResponse | None = ratelimit.consume_or_429(
        request, action="login"
    )  # each attempt sends a request to the provider
    if limited is not None:
        return limited
    try:
        response: HttpResponse = OAuth2LoginView.adapter_view(StrictOidc)(request)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    except OAuth2Error as error:
        provider = get_adapter(request).get_provider(request, OpenIDConnectProvider.id)
        response = render_authentication_error(request, provider, exception=error)
    if isinstance(response, HttpResponseRedirect):
        return render(
            request,
            "socialaccount/redirect.html",
            {"url": response.url, "name": configured_app().name},
        )
    return response


@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    """Handle the redirect back from the provider."""
    try:
        response: HttpResponse = _Callback.adapter_view(StrictOidc)(request)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    return response


@require_POST
@login_required
def unlink(request: HttpRequest) -> HttpResponse:
    """Unlink the identity at the provider, unless the person has no other sign-in method."""
    person = cast("User", request.user)
    links = SocialAccount.objects.filter(user=person)
    if not links.exists():
        raise Http404
    raise_if_reauthentication_required(request, app="allauth.socialaccount")
    if person.has_usable_password():
        links.delete()
        messages.success(request, "Account unlinked. Sign in with your password from now on.")
    else:
        messages.error(
            request,
            (
                "Not unlinked: without a password this is your only sign-in method. Set a "
                "password first."
            ),
        )
    return HttpResponseRedirect(reverse("mfa_index"))
