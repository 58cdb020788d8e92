from django.urls import path

from apps.preflight.api import OutcomeView, PreflightView
from apps.preflight.api_findings import DecisionView, FindingsView, FindingView

urlpatterns = [
    path("duplicates/", FindingsView.as_view(), name="api-duplicates"),
    path("duplicates/<int:finding>/", FindingView.as_view(), name="api-duplicate"),
    path(
        "duplicates/<int:finding>/decision/", DecisionView.as_view(), name="api-duplicate-decision"
    ),
    path("preflight/", PreflightView.as_view(), name="api-preflight"),
    path("preflight/<uuid:uuid>/outcome/", OutcomeView.as_view(), name="api-preflight-outcome"),
]
