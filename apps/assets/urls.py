from django.urls import path

from apps.assets.api.assets import (
    AssetsView,
    AssetView,
    BulkEventsView,
    EventReversalView,
    EventsView,
)
from apps.assets.api.attachments import AttachmentsView, AttachmentView
from apps.assets.api.imports import ImportMappingView, ImportsView, ImportView
from apps.assets.api.undo import (
    AssetRemovalView,
    AssetRestorationView,
    ImportRedoView,
    ImportUndoView,
)

urlpatterns = [
    path("assets/", AssetsView.as_view(), name="api-assets"),
    path("assets/import/", ImportsView.as_view(), name="api-assets-import"),
    path("assets/import/<uuid:uuid>/", ImportView.as_view(), name="api-asset-import"),
    path("assets/import/<uuid:uuid>/undo/", ImportUndoView.as_view(), name="api-asset-import-undo"),
    path("assets/import/<uuid:uuid>/redo/", ImportRedoView.as_view(), name="api-asset-import-redo"),
    path("assets/<int:asset>/remove/", AssetRemovalView.as_view(), name="api-asset-remove"),
    path("assets/<int:asset>/restore/", AssetRestorationView.as_view(), name="api-asset-restore"),
    path(
        "assets/import/<uuid:uuid>/mapping/",
        ImportMappingView.as_view(),
        name="api-asset-import-mapping",
    ),
    path("assets/events/", BulkEventsView.as_view(), name="api-assets-events"),
    path("assets/<int:asset>/", AssetView.as_view(), name="api-asset"),
    path(
        "assets/<int:asset>/attachments/", AttachmentsView.as_view(), name="api-asset-attachments"
    ),
    path(
        "assets/<int:asset>/attachments/<uuid:attachment>/",
        AttachmentView.as_view(),
        name="api-asset-attachment",
    ),
    path("assets/<int:asset>/events/", EventsView.as_view(), name="api-asset-events"),
    path(
        "assets/<int:asset>/events/<int:event>/reverse/",
        EventReversalView.as_view(),
        name="api-asset-event-reverse",
    ),
]
