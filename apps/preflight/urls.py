from django.urls import path

from apps.preflight.api import OutcomeView, PreflightView

urlpatterns = [
    path("preflight/", PreflightView.as_view(), name="api-preflight"),
    path("preflight/<uuid:uuid>/outcome/", OutcomeView.as_view(), name="api-preflight-outcome"),
]
