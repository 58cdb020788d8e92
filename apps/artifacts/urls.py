from django.urls import path

from apps.artifacts.api import (
    ArtifactsView,
    ArtifactView,
    CandidatesView,
    CopiesView,
    CopySpacesView,
    LineageView,
)
from apps.artifacts.cleanup.api import OutcomesView, PlanView

urlpatterns = [
    path("artifacts/", ArtifactsView.as_view(), name="api-artifacts"),
    path("artifacts/copies/", CopiesView.as_view(), name="api-artifact-copies"),
    path("artifacts/copies/space/", CopySpacesView.as_view(), name="api-artifact-copy-spaces"),
    path("artifacts/plans/<uuid:uuid>/", PlanView.as_view(), name="api-artifact-plan"),
    path(
        "artifacts/plans/<uuid:uuid>/outcomes/",
        OutcomesView.as_view(),
        name="api-artifact-plan-outcomes",
    ),
    path("artifacts/<str:digest>/", ArtifactView.as_view(), name="api-artifact"),
    path(
        "artifacts/<str:digest>/candidates/",
        CandidatesView.as_view(),
        name="api-artifact-candidates",
    ),
    path("artifacts/<str:digest>/lineage/", LineageView.as_view(), name="api-artifact-lineage"),
]
