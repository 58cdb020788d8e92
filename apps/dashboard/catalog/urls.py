"""URLs of the hardware catalogue."""

from django.urls import path

from apps.dashboard.catalog import views

urlpatterns = [
    path("catalog/", views.catalog, name="catalog"),
    path("catalog.csv", views.catalog_csv, name="catalog-csv"),
    path("catalog/new/", views.new, name="catalog-model-new"),
    path("catalog/<int:pk>/", views.model, name="catalog-model"),
    path("catalog/figures/<int:figure>/evidence/", views.evidence, name="catalog-evidence"),
]
