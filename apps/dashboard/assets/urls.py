"""URLs of assets, their import and their replacement analysis."""

from django.urls import path

from apps.dashboard.assets import (
    bulk_views,
    import_views,
    replacement_views,
    undo_views,
    views,
)
from apps.dashboard.redirects import moved

urlpatterns = [
    path("assets/", views.assets, name="assets"),
    path("assets/new/", views.new, name="asset-new"),
    path("assets/new/offers/", views.new_offers, name="asset-model-search"),
    path("assets/events/", bulk_views.assets_events, name="assets-events"),
    path("assets/fleet/", views.fleet, name="asset-fleet"),
    path("assets/<int:pk>/", views.asset, name="asset"),
    path(
        "assets/<int:pk>/attachments/<uuid:attachment>/",
        views.attachment,
        name="asset-attachment",
    ),
    path("assets/<int:pk>/life.csv", views.asset_csv, name="asset-lifecycle-csv"),
    path("assets.csv", import_views.assets_csv, name="assets-csv"),
    path("assets/import/", import_views.assets_import, name="asset-imports"),
    path("assets/import/<uuid:uuid>/", import_views.assets_import_read, name="asset-import"),
    path("assets/imports/", undo_views.import_history, name="asset-import-history"),
    path("assets/import/<uuid:uuid>/undo/", undo_views.import_undo, name="asset-import-undo"),
    path("assets/import/<uuid:uuid>/redo/", undo_views.import_redo, name="asset-import-redo"),
    path("assets/<int:pk>/remove/", undo_views.asset_remove, name="asset-remove"),
    path(
        "assets/import/<uuid:uuid>/mapping/",
        import_views.assets_import_mapping,
        name="asset-import-mapping",
    ),
    path("assets/discovered/", import_views.assets_discovered, name="discovered-assets"),
    path("assets/labels/", import_views.assets_labels, name="asset-labels"),
    path("assets/ranking/", replacement_views.fleet_ranking, name="replacement-ranking"),
    path("assets/ranking.csv", replacement_views.ranking_csv, name="replacement-ranking-csv"),
    path("assets/<int:pk>/replacement/", replacement_views.replacement, name="asset-replacement"),
    path(
        "assets/<int:pk>/replacement.csv",
        replacement_views.scenarios_csv,
        name="asset-replacement-csv",
    ),
    moved("assets/<int:pk>/keep/", "asset-replacement"),
    moved("assets/<int:pk>/keep.csv", "asset-replacement-csv"),
]
