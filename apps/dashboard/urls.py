"""Addresses of the pages."""

from django.urls import path

from apps.dashboard.pages import explain, overview

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview.csv", overview.overview_csv),
    path("overview/table/", overview.overview_table),
    path("explain/", explain.explain, name="explain"),
    path("explain/ledger.csv", explain.ledger_csv),
]
