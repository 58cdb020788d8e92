"""Addresses of the page Plan a sweep."""

from django.urls import path

from apps.dashboard.planner.sweep import views

urlpatterns = [
    path("", views.sweep, name="planner-sweep"),
    path("points.csv", views.sweep_csv, name="planner-sweep-csv"),
]
