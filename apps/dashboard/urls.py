"""Addresses of the pages, by area."""

from django.urls import include, path

urlpatterns = [
    path("", include("apps.dashboard.overview.urls")),
    path("", include("apps.dashboard.change.urls")),
    path("", include("apps.dashboard.explain.urls")),
    path("", include("apps.dashboard.projects.urls")),
    path("", include("apps.dashboard.runs.urls")),
    path("", include("apps.dashboard.assets.urls")),
    path("", include("apps.dashboard.asset_sources.urls")),
    path("", include("apps.dashboard.grid_providers.urls")),
    path("", include("apps.dashboard.activities.urls")),
    path("", include("apps.dashboard.billing.urls")),
    path("", include("apps.dashboard.budgets.urls")),
    path("", include("apps.dashboard.costs.urls")),
    path("", include("apps.dashboard.factors.urls")),
    path("", include("apps.dashboard.greener_hours.urls")),
    path("", include("apps.dashboard.market.urls")),
    path("", include("apps.dashboard.statements.urls")),
    path("", include("apps.dashboard.artifacts.urls")),
    path("", include("apps.dashboard.nodes.urls")),
    path("", include("apps.dashboard.prices.urls")),
    path("", include("apps.dashboard.catalog.urls")),
    path("", include("apps.dashboard.attribution.urls")),
    path("", include("apps.dashboard.people.urls")),
    path("", include("apps.dashboard.settings.urls")),
    path("", include("apps.dashboard.trackers.urls")),
    path("", include("apps.dashboard.setup.urls")),
    path("", include("apps.dashboard.search.urls")),
    path("", include("apps.dashboard.help.urls")),
    path("", include("apps.dashboard.api_reference.urls")),
]
