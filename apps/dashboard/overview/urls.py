"""Addresses of the overview."""

from django.urls import path

from apps.dashboard.overview import views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("overview.csv", views.overview_csv, name="overview-csv"),
    path("overview/table/", views.overview_table, name="overview-table"),
    path("overview/hardware/", views.hardware_table, name="overview-hardware"),
]
