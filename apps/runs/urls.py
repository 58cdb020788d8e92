from django.urls import path

from apps.runs.api import BulkRunsView, RunsView, RunView
from apps.runs.api_metrics import MetricsView

urlpatterns = [
    path("runs/", RunsView.as_view(), name="api-runs"),
    path("runs/bulk/", BulkRunsView.as_view(), name="api-runs-bulk"),
    path("runs/<uuid:uuid>/", RunView.as_view(), name="api-run"),
    path("runs/<uuid:uuid>/metrics/", MetricsView.as_view(), name="api-run-metrics"),
]
