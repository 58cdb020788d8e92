"""Addresses of tokens, lab settings and the audit log."""

from django.urls import path

from apps.dashboard.redirects import moved
from apps.dashboard.settings import views

urlpatterns = [
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<str:token>/revoke/", views.token_revoke, name="token-revoke"),
    path("settings/", views.lab, name="lab-settings"),
    moved("lab/", "lab-settings"),
    path("audit/", views.audit, name="audit-log"),
    path("audit.csv", views.audit_csv, name="audit-log-csv"),
]
