"""Addresses of explanations and scopes."""

from django.urls import path

from apps.dashboard.explain import scope_views, views

urlpatterns = [
    path("explain/", views.explain, name="explain"),
    path("explain/ledger.csv", views.ledger_csv, name="explain-ledger-csv"),
    path("explain/charges.csv", views.charges_csv, name="explain-charges-csv"),
    path("scopes/", scope_views.scopes, name="scopes"),
    path("scopes.csv", scope_views.scopes_csv, name="scopes-csv"),
]
