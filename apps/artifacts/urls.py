from django.urls import path

from apps.artifacts.api import ArtifactsView, ArtifactView, CopiesView, LineageView

urlpatterns = [
    path("artifacts/", ArtifactsView.as_view(), name="api-artifacts"),
    path("artifacts/copies/", CopiesView.as_view(), name="api-artifact-copies"),
    path("artifacts/<str:digest>/", ArtifactView.as_view(), name="api-artifact"),
    path("artifacts/<str:digest>/lineage/", LineageView.as_view(), name="api-artifact-lineage"),
]
