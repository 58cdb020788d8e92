from django.urls import path

from apps.runs.api import RunsView, RunView

urlpatterns = [
    path("runs/", RunsView.as_view(), name="api-runs"),
    path("runs/<uuid:uuid>/", RunView.as_view(), name="api-run"),
]
