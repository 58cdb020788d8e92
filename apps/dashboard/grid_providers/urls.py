"""URLs of grid providers."""

from django.urls import path

from apps.dashboard.grid_providers import views

urlpatterns = [
    path("factors/providers/", views.providers, name="grid-providers"),
    path("factors/providers/<int:pk>/", views.provider, name="grid-provider"),
]
