"""Addresses of the runs and duplicates."""

from django.urls import path

from apps.dashboard.redirects import moved
from apps.dashboard.runs import duplicate_views, views

urlpatterns = [
    path("runs/", views.runs, name="runs"),
    path("runs.csv", views.runs_csv, name="runs-csv"),
    path("runs/compare/", views.compare, name="run-comparison"),
    path("runs/compare.csv", views.compare_csv, name="run-comparison-csv"),
    path("runs/duplicates/", duplicate_views.duplicates, name="duplicates"),
    path("runs/duplicates.csv", duplicate_views.duplicates_csv, name="duplicates-csv"),
    path("runs/duplicates/<int:pk>/", duplicate_views.finding, name="duplicate"),
    path("runs/<uuid:uuid>/", views.run, name="run"),
    moved("duplicates/", "duplicates"),
    moved("duplicates.csv", "duplicates-csv"),
    moved("duplicates/<int:pk>/", "duplicate"),
]
