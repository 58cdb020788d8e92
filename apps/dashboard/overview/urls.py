"""Addresses of the overview."""

from django.urls import path

from apps.dashboard.overview import change_views, views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("overview.csv", views.overview_csv, name="overview-csv"),
    path("overview/change/", change_views.change, name="overview-change"),
    path("overview/change.csv", change_views.change_csv, name="overview-change-csv"),
    path("overview/table/", views.overview_table, name="overview-table"),
    path("overview/hardware/", views.hardware_table, name="overview-hardware"),
]
