"""Addresses of attribution rules, claims and the idle energy policy."""

from django.urls import path

from apps.dashboard.attribution import views
from apps.dashboard.redirects import moved

urlpatterns = [
    path("unattributed/", views.unattributed, name="unattributed"),
    path("claims/<uuid:act>/", views.claim_change, name="claim"),
    path("rules/", views.rules, name="attribution-rules"),
    path("rules/import/", views.rules_import, name="attribution-rules-import"),
    path("rules/<int:pk>/", views.rule, name="attribution-rule"),
    path("settings/idle/", views.idle, name="idle-policy"),
    moved("idle/", "idle-policy"),
]
