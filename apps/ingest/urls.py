from django.urls import path

from apps.ingest.api import IngestView

urlpatterns = [path("ingest/", IngestView.as_view(), name="api-ingest")]
