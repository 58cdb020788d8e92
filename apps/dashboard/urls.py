"""Addresses of the pages."""

from django.urls import path

from apps.dashboard.artifacts import cleanup_views, hold_views, views
from apps.dashboard.artifacts import views as storage
from apps.dashboard.assets import import_views, replacement_views
from apps.dashboard.assets import views as assets
from apps.dashboard.attribution import views as attribution
from apps.dashboard.attribution import views as idle
from apps.dashboard.catalog import views as catalog
from apps.dashboard.explain import scope_views
from apps.dashboard.explain import views as explain
from apps.dashboard.nodes import site_views
from apps.dashboard.nodes import views as devices
from apps.dashboard.nodes import views as nodes
from apps.dashboard.overview import views as overview
from apps.dashboard.people import views as people
from apps.dashboard.projects import views as projects
from apps.dashboard.runs import duplicate_views
from apps.dashboard.runs import views as runs
from apps.dashboard.settings import views as settings
from apps.dashboard.setup import views as entry
from apps.dashboard.trackers import codecarbon_views, mlflow_views

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview.csv", overview.overview_csv),
    path("overview/table/", overview.overview_table),
    path("overview/hardware/", overview.hardware_table),
    path("explain/", explain.explain, name="explain"),
    path("explain/ledger.csv", explain.ledger_csv),
    path("explain/charges.csv", explain.charges_csv),
    path("projects/", projects.projects, name="projects"),
    path("projects/<slug:slug>/", projects.project, name="project"),
    path("projects/<slug:slug>/table/", projects.project_table),
    path("projects/<slug:slug>/energy.csv", projects.project_csv),
    path("runs/", runs.runs, name="runs"),
    path("runs.csv", runs.runs_csv),
    path("runs/compare/", runs.compare, name="compare"),
    path("runs/compare.csv", runs.compare_csv),
    path("runs/<uuid:uuid>/", runs.run, name="run"),
    path("duplicates/", duplicate_views.duplicates, name="duplicates"),
    path("duplicates.csv", duplicate_views.duplicates_csv),
    path("duplicates/<int:pk>/", duplicate_views.finding, name="duplicate"),
    path("assets/", assets.assets, name="assets"),
    path("assets/new/", assets.new, name="asset-new"),
    path("assets/new/offers/", assets.new_offers),
    path("assets/fleet/", assets.fleet, name="fleet"),
    path("assets/<int:pk>/", assets.asset, name="asset"),
    path("assets/<int:pk>/life.csv", assets.asset_csv),
    path("assets.csv", import_views.assets_csv),
    path("assets/import/", import_views.assets_import, name="assets-import"),
    path("assets/import/<uuid:uuid>/", import_views.assets_import_read, name="asset-import"),
    path("assets/discovered/", import_views.assets_discovered, name="assets-discovered"),
    path("assets/labels/", import_views.assets_labels, name="assets-labels"),
    path("artifacts/", views.artifacts, name="artifacts"),
    path("artifacts.csv", views.artifacts_csv),
    path("artifacts/storage/", storage.storage, name="storage"),
    path("artifacts/storage.csv", storage.storage_csv),
    path("artifacts/plans/", cleanup_views.plans, name="plans"),
    path("artifacts/holds/", hold_views.holds, name="holds"),
    path("artifacts/plans/<uuid:uuid>/", cleanup_views.plan, name="plan"),
    path("artifacts/plans/<uuid:uuid>.csv", cleanup_views.plan_csv),
    path("artifacts/<str:digest>/", views.artifact, name="artifact"),
    path("artifacts/<str:digest>/lineage.csv", views.lineage_csv),
    path("artifacts/<str:digest>/card.md", views.card),
    path("nodes/", nodes.nodes, name="nodes"),
    path("nodes/enrol/", nodes.enrol, name="enrol"),
    path("nodes/<uuid:uuid>/", nodes.node, name="node"),
    path("nodes/<uuid:uuid>/move/", nodes.move, name="move"),
    path("devices/<path:key>/", devices.device, name="device"),
    path("sites/", site_views.sites, name="sites"),
    path("sites/<int:pk>/", site_views.site, name="site"),
    path("catalog/", catalog.catalog, name="catalog"),
    path("catalog.csv", catalog.catalog_csv),
    path("catalog/new/", catalog.new, name="catalog-new"),
    path("catalog/<int:pk>/", catalog.model, name="catalog-model"),
    path("catalog/figures/<int:figure>/evidence/", catalog.evidence, name="evidence"),
    path("scopes/", scope_views.scopes, name="scopes"),
    path("scopes.csv", scope_views.scopes_csv),
    path("unattributed/", attribution.unattributed, name="unattributed"),
    path("claims/<uuid:act>/", attribution.claim_change, name="claim"),
    path("rules/", attribution.rules, name="rules"),
    path("rules/import/", attribution.rules_import, name="rules-import"),
    path("rules/<int:pk>/", attribution.rule, name="rule"),
    path("idle/", idle.idle, name="idle"),
    path("assets/ranking/", replacement_views.fleet_ranking, name="ranking"),
    path("assets/ranking.csv", replacement_views.ranking_csv),
    path("assets/<int:pk>/keep/", replacement_views.keep, name="keep"),
    path("assets/<int:pk>/keep.csv", replacement_views.keep_table),
    path("people/", people.people, name="people"),
    path("people/<int:person>/", people.person, name="person"),
    path("people/<int:person>/role/", people.person_role),
    path("people/<int:person>/remove/", people.person_remove),
    path("invitations/<int:invitation>/revoke/", people.invitation_revoke),
    path("invite/", people.invitation, name="invite"),
    path("labs/switch/", people.switch_lab, name="switch-lab"),
    path("tokens/", settings.tokens, name="tokens"),
    path("tokens/codecarbon/", codecarbon_views.codecarbon, name="codecarbon-tokens"),
    path("trackers/mlflow/", mlflow_views.servers, name="mlflow"),
    path("trackers/mlflow/<int:pk>/", mlflow_views.server, name="mlflow-server"),
    path("tokens/<str:token>/revoke/", settings.token_revoke),
    path("lab/", settings.lab, name="lab"),
    path("audit/", settings.audit, name="audit"),
    path("audit.csv", settings.audit_csv),
    path("setup/", entry.setup, name="setup"),
    path("signin/", entry.signin, name="signin"),
    path("login-code/", entry.login_code, name="login-code"),
    path("livez", entry.livez, name="livez"),
    path("readyz", entry.readyz, name="readyz"),
]
