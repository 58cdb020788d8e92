"""Addresses of market-based emissions."""

from django.urls import path

from apps.dashboard.market import views

urlpatterns = [
    path("market/", views.market, name="market"),
    path("market/lines.csv", views.market_csv, name="market-csv"),
]
