"""Addresses of the nodes, devices and sites."""

from django.urls import path

from apps.dashboard.nodes import (
    bulk_views,
    fleet_views,
    live_views,
    quarantine_views,
    site_views,
    views,
)

urlpatterns = [
    path("nodes/", views.nodes, name="nodes"),
    path("nodes/add/", fleet_views.add_nodes, name="node-add"),
    path("nodes/add/live/", fleet_views.live, name="node-add-live"),
    path("nodes/enrol/", views.enrol, name="node-enrol"),
    path("nodes/changes/", bulk_views.nodes_changes, name="nodes-changes"),
    path("nodes/quarantine/", quarantine_views.quarantine, name="quarantine"),
    path("nodes/quarantine/<int:pk>/", quarantine_views.window, name="quarantined-window"),
    path("nodes/device-moves/<int:pk>/", quarantine_views.device_move, name="device-move"),
    path("nodes/<uuid:uuid>/", views.node, name="node"),
    path("nodes/<uuid:uuid>/live/", live_views.live, name="node-live"),
    path("nodes/<uuid:uuid>/name/", bulk_views.name, name="node-name"),
    path("nodes/<uuid:uuid>/move/", views.move, name="node-move"),
    path("nodes/<uuid:uuid>/run-messages/", views.run_messages, name="node-run-messages"),
    path("devices/<path:key>/", views.device, name="device"),
    path("sites/", site_views.sites, name="sites"),
    path("sites/<int:pk>/", site_views.site, name="site"),
]
