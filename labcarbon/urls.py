"""All URLs: pages at the root, the API under /api/v1/."""

from typing import Any

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from django.urls import include, path
from django.views.decorators.cache import never_cache
from drf_spectacular.views import SpectacularAPIView

from apps.accounts import mfa as second_factor
from apps.accounts import schema  # noqa: F401 - names tokens in the API schema
from apps.accounts.oidc import provider
from apps.dashboard.decorators import framed

# Public views ignore any token.
PUBLIC: dict[str, list[Any]] = {"authentication_classes": [], "permission_classes": []}

api = [
    path("", include("apps.catalog.urls")),
    path("", include("apps.fleet.urls")),
    path("", include("apps.ingest.urls")),
    path("", include("apps.runs.urls")),
    path("", include("apps.assets.urls")),
    path("", include("apps.carbon.urls")),
    path("", include("apps.replacement.urls")),
    path("", include("apps.activity.urls")),
    path("", include("apps.artifacts.urls")),
    path("", include("apps.trackers.api_urls")),
    path("", include("apps.planner.urls")),
    path("", include("apps.preflight.urls")),
]

# Only the allauth views that work without mail. Those of signed-in people have the navigation.
accounts = [
    path("login/", account.login, name="account_login"),
    path("logout/", framed(account.logout), name="account_logout"),
    path("signup/", account.signup, name="account_signup"),  # shows that sign-up is closed
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("password/change/", framed(account.password_change), name="account_change_password"),
    path("password/set/", framed(account.password_set), name="account_set_password"),
    path("reauthenticate/", framed(account.reauthenticate), name="account_reauthenticate"),
    path("security/", framed(second_factor.security), name="mfa_index"),
    path("security/code/", mfa.authenticate, name="mfa_authenticate"),
    path("security/code/again/", framed(mfa.reauthenticate), name="mfa_reauthenticate"),
    path("security/app/", framed(second_factor.activate), name="mfa_activate_totp"),
    path("security/app/remove/", framed(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path(
        "security/recovery-codes/",
        framed(never_cache(recovery.view_recovery_codes)),
        name="mfa_view_recovery_codes",
    ),
    path(
        "security/recovery-codes/new/",
        framed(recovery.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("oidc/login/", provider.login, name="oidc_login"),
    path("oidc/callback/", provider.callback, name="oidc_callback"),
    path("oidc/unlink/", provider.unlink, name="oidc_unlink"),
]

urlpatterns = [
    path("api/v1/", include(api)),
    path("api/schema/", SpectacularAPIView.as_view(**PUBLIC), name="schema"),
    path("accounts/", include(accounts)),
    path("install/", include("apps.fleet.install.urls")),
    path("", include("apps.trackers.urls")),
    path("", include("apps.dashboard.urls")),
]

handler400 = "labcarbon.error_handlers.bad_request"
handler403 = "labcarbon.error_handlers.forbidden"
handler404 = "labcarbon.error_handlers.not_found"
handler500 = "labcarbon.error_handlers.server_error"
