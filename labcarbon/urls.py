"""All addresses: pages at the root, the API below /api/v1/."""

from allauth.account import views as account
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

api = [
    path("", include("apps.fleet.urls")),
    path("", include("apps.ingest.urls")),
    path("", include("apps.runs.urls")),
    path("", include("apps.carbon.urls")),
]

# Of allauth only what works without mail: no address promises a letter that nobody sends.
accounts = [
    path("login/", account.login, name="account_login"),
    path("logout/", account.logout, name="account_logout"),
    path("signup/", account.signup, name="account_signup"),  # says that it is closed
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("password/change/", account.password_change, name="account_change_password"),
    path("password/set/", account.password_set, name="account_set_password"),
]

urlpatterns = [
    path("api/v1/", include(api)),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("accounts/", include(accounts)),
    path("", include("apps.dashboard.urls")),
]
