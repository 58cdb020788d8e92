"""Addresses of the nodes, devices and sites."""

from django.urls import path

from apps.dashboard.nodes import site_views, views

urlpatterns = [
    path("nodes/", views.nodes, name="nodes"),
    path("nodes/enrol/", views.enrol, name="node-enrol"),
    path("nodes/<uuid:uuid>/", views.node, name="node"),
    path("nodes/<uuid:uuid>/move/", views.move, name="node-move"),
    path("devices/<path:key>/", views.device, name="device"),
    path("sites/", site_views.sites, name="sites"),
    path("sites/<int:pk>/", site_views.site, name="site"),
]
