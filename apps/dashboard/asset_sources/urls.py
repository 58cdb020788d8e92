"""URLs of asset sources."""

from django.urls import path

from apps.dashboard.asset_sources import views

urlpatterns = [
    path("assets/sources/", views.sources, name="asset-sources"),
    path("assets/sources/<int:source>/", views.source, name="asset-source"),
]
