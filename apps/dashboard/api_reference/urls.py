"""Addresses of the API reference."""

from django.urls import path

from apps.dashboard.api_reference import views

urlpatterns = [
    path("api/docs/", views.api_reference, name="api-docs"),
    path("api/docs/<slug:group>/", views.api_group, name="api-docs-group"),
]
