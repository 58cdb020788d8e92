"""All addresses: pages at the root, the API below /api/v1/."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

api = [
    path("", include("apps.fleet.urls")),
    path("", include("apps.ingest.urls")),
    path("", include("apps.runs.urls")),
    path("", include("apps.carbon.urls")),
]

urlpatterns = [
    path("api/v1/", include(api)),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("accounts/", include("allauth.account.urls")),
    path("", include("apps.dashboard.urls")),
]
