from django.urls import path

from apps.assets.api import AssetsView, AssetView, BulkEventsView, EventReversalView, EventsView
from apps.assets.api_import import ImportsView, ImportView

urlpatterns = [
    path("assets/", AssetsView.as_view(), name="api-assets"),
    path("assets/import/", ImportsView.as_view(), name="api-assets-import"),
    path("assets/import/<uuid:uuid>/", ImportView.as_view(), name="api-asset-import"),
    path("assets/events/", BulkEventsView.as_view(), name="api-assets-events"),
    path("assets/<int:asset>/", AssetView.as_view(), name="api-asset"),
    path("assets/<int:asset>/events/", EventsView.as_view(), name="api-asset-events"),
    path(
        "assets/<int:asset>/events/<int:event>/reverse/",
        EventReversalView.as_view(),
        name="api-asset-event-reverse",
    ),
]
