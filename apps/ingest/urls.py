from django.urls import path

from apps.ingest.api import IngestView, NodeProblemView

urlpatterns = [
    path("ingest/", IngestView.as_view(), name="api-ingest"),
    path("nodes/problem/", NodeProblemView.as_view(), name="api-node-problem"),
]
