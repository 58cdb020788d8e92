from django.urls import path

from apps.catalog.api import CatalogueView, ModelView

urlpatterns = [
    path("catalog/", CatalogueView.as_view(), name="api-catalog"),
    path("catalog/<int:model>/", ModelView.as_view(), name="api-catalog-model"),
]
