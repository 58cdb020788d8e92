"""Addresses of the trackers."""

from django.urls import path

from apps.dashboard.trackers import codecarbon_views, mlflow_views

urlpatterns = [
    path("tokens/codecarbon/", codecarbon_views.codecarbon, name="codecarbon-tokens"),
    path("trackers/mlflow/", mlflow_views.servers, name="mlflow-servers"),
    path("trackers/mlflow/<int:pk>/", mlflow_views.server, name="mlflow-server"),
]
