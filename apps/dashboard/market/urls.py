"""Addresses of market-based emissions."""

from django.urls import path

from apps.dashboard.market import instrument_views, views

urlpatterns = [
    path("market/", views.market, name="market"),
    path("market/lines.csv", views.market_csv, name="market-csv"),
    path("market/instruments/", instrument_views.instruments, name="instruments"),
    path("market/instruments/add/", instrument_views.add, name="instrument-add"),
    path("market/instruments/<int:pk>/", instrument_views.instrument, name="instrument"),
    path(
        "market/instruments/<int:pk>/evidence/",
        instrument_views.evidence,
        name="instrument-evidence",
    ),
]
