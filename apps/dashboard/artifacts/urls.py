"""Addresses of the artifacts, holds and cleanup plans."""

from django.urls import path

from apps.dashboard.artifacts import cleanup_views, hold_views, views
from apps.dashboard.redirects import moved

urlpatterns = [
    path("artifacts/", views.artifacts, name="artifacts"),
    path("artifacts.csv", views.artifacts_csv, name="artifacts-csv"),
    path("artifacts/storage/", views.storage, name="artifact-storage"),
    path("artifacts/storage.csv", views.storage_csv, name="artifact-storage-csv"),
    path("artifacts/holds/", hold_views.holds, name="holds"),
    path("artifacts/cleanup/", cleanup_views.plans, name="cleanup-plans"),
    path("artifacts/cleanup/<uuid:uuid>/", cleanup_views.plan, name="cleanup-plan"),
    path("artifacts/cleanup/<uuid:uuid>.csv", cleanup_views.plan_csv, name="cleanup-plan-csv"),
    moved("artifacts/plans/", "cleanup-plans"),
    moved("artifacts/plans/<uuid:uuid>/", "cleanup-plan"),
    moved("artifacts/plans/<uuid:uuid>.csv", "cleanup-plan-csv"),
    path("artifacts/<str:digest>/", views.artifact, name="artifact"),
    path("artifacts/<str:digest>/lineage.csv", views.lineage_csv, name="artifact-lineage-csv"),
    path("artifacts/<str:digest>/card.md", views.card, name="artifact-model-card"),
]
