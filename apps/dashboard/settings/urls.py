"""Addresses of the tokens, lab settings and audit log."""

from django.urls import path

from apps.dashboard.settings import views

urlpatterns = [
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<str:token>/revoke/", views.token_revoke, name="token-revoke"),
    path("lab/", views.lab, name="lab-settings"),
    path("audit/", views.audit, name="audit-log"),
    path("audit.csv", views.audit_csv, name="audit-log-csv"),
]
