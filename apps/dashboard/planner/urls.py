"""Addresses of the planner."""

from django.urls import include, path

from apps.dashboard.planner import views

urlpatterns = [
    path("planner/estimates/", include("apps.dashboard.planner.estimates.urls")),
    path("planner/sharing/", include("apps.dashboard.planner.sharing.urls")),
    path("planner/sweep/", include("apps.dashboard.planner.sweep.urls")),
    path("planner/", views.planner, name="planner"),
    path("planner/result.csv", views.planner_csv, name="planner-csv"),
    path("planner/layers.csv", views.planner_layers_csv, name="planner-layers-csv"),
]
