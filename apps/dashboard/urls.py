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
    path("overview.csv", overview.overview_csv, name="overview-csv"),
    path("overview/table/", overview.overview_table, name="overview-table"),
    path("overview/hardware/", overview.hardware_table, name="overview-hardware"),
    path("explain/", explain.explain, name="explain"),
    path("explain/ledger.csv", explain.ledger_csv, name="explain-ledger-csv"),
    path("explain/charges.csv", explain.charges_csv, name="explain-charges-csv"),
    path("projects/", projects.projects, name="projects"),
    path("projects/<slug:slug>/", projects.project, name="project"),
    path("projects/<slug:slug>/table/", projects.project_table, name="project-table"),
    path("projects/<slug:slug>/energy.csv", projects.project_csv, name="project-csv"),
    path("runs/", runs.runs, name="runs"),
    path("runs.csv", runs.runs_csv, name="runs-csv"),
    path("runs/compare/", runs.compare, name="run-comparison"),
    path("runs/compare.csv", runs.compare_csv, name="run-comparison-csv"),
    path("runs/<uuid:uuid>/", runs.run, name="run"),
    path("duplicates/", duplicate_views.duplicates, name="duplicates"),
    path("duplicates.csv", duplicate_views.duplicates_csv, name="duplicates-csv"),
    path("duplicates/<int:pk>/", duplicate_views.finding, name="duplicate"),
    path("assets/", assets.assets, name="assets"),
    path("assets/new/", assets.new, name="asset-new"),
    path("assets/new/offers/", assets.new_offers, name="asset-model-search"),
    path("assets/fleet/", assets.fleet, name="asset-fleet"),
    path("assets/<int:pk>/", assets.asset, name="asset"),
    path("assets/<int:pk>/life.csv", assets.asset_csv, name="asset-lifecycle-csv"),
    path("assets.csv", import_views.assets_csv, name="assets-csv"),
    path("assets/import/", import_views.assets_import, name="asset-imports"),
    path("assets/import/<uuid:uuid>/", import_views.assets_import_read, name="asset-import"),
    path("assets/discovered/", import_views.assets_discovered, name="discovered-assets"),
    path("assets/labels/", import_views.assets_labels, name="asset-labels"),
    path("artifacts/", views.artifacts, name="artifacts"),
    path("artifacts.csv", views.artifacts_csv, name="artifacts-csv"),
    path("artifacts/storage/", storage.storage, name="artifact-storage"),
    path("artifacts/storage.csv", storage.storage_csv, name="artifact-storage-csv"),
    path("artifacts/plans/", cleanup_views.plans, name="cleanup-plans"),
    path("artifacts/holds/", hold_views.holds, name="holds"),
    path("artifacts/plans/<uuid:uuid>/", cleanup_views.plan, name="cleanup-plan"),
    path("artifacts/plans/<uuid:uuid>.csv", cleanup_views.plan_csv, name="cleanup-plan-csv"),
    path("artifacts/<str:digest>/", views.artifact, name="artifact"),
    path("artifacts/<str:digest>/lineage.csv", views.lineage_csv, name="artifact-lineage-csv"),
    path("artifacts/<str:digest>/card.md", views.card, name="artifact-model-card"),
    path("nodes/", nodes.nodes, name="nodes"),
    path("nodes/enrol/", nodes.enrol, name="node-enrol"),
    path("nodes/<uuid:uuid>/", nodes.node, name="node"),
    path("nodes/<uuid:uuid>/move/", nodes.move, name="node-move"),
    path("devices/<path:key>/", devices.device, name="device"),
    path("sites/", site_views.sites, name="sites"),
    path("sites/<int:pk>/", site_views.site, name="site"),
    path("catalog/", catalog.catalog, name="catalog"),
    path("catalog.csv", catalog.catalog_csv, name="catalog-csv"),
    path("catalog/new/", catalog.new, name="catalog-model-new"),
    path("catalog/<int:pk>/", catalog.model, name="catalog-model"),
    path("catalog/figures/<int:figure>/evidence/", catalog.evidence, name="catalog-evidence"),
    path("scopes/", scope_views.scopes, name="scopes"),
    path("scopes.csv", scope_views.scopes_csv, name="scopes-csv"),
    path("unattributed/", attribution.unattributed, name="unattributed"),
    path("claims/<uuid:act>/", attribution.claim_change, name="claim"),
    path("rules/", attribution.rules, name="attribution-rules"),
    path("rules/import/", attribution.rules_import, name="attribution-rules-import"),
    path("rules/<int:pk>/", attribution.rule, name="attribution-rule"),
    path("idle/", idle.idle, name="idle-policy"),
    path("assets/ranking/", replacement_views.fleet_ranking, name="replacement-ranking"),
    path("assets/ranking.csv", replacement_views.ranking_csv, name="replacement-ranking-csv"),
    path("assets/<int:pk>/keep/", replacement_views.keep, name="asset-replacement"),
    path("assets/<int:pk>/keep.csv", replacement_views.keep_table, name="asset-replacement-csv"),
    path("people/", people.people, name="people"),
    path("people/<int:person>/", people.person, name="person"),
    path("people/<int:person>/role/", people.person_role, name="person-role"),
    path("people/<int:person>/remove/", people.person_remove, name="person-remove"),
    path("invitations/<int:invitation>/revoke/", people.invitation_revoke, name="invitation-revoke"),
    path("invite/", people.invitation, name="invitation"),
    path("labs/switch/", people.switch_lab, name="lab-switch"),
    path("tokens/", settings.tokens, name="tokens"),
    path("tokens/codecarbon/", codecarbon_views.codecarbon, name="codecarbon-tokens"),
    path("trackers/mlflow/", mlflow_views.servers, name="mlflow-servers"),
    path("trackers/mlflow/<int:pk>/", mlflow_views.server, name="mlflow-server"),
    path("tokens/<str:token>/revoke/", settings.token_revoke, name="token-revoke"),
    path("lab/", settings.lab, name="lab-settings"),
    path("audit/", settings.audit, name="audit-log"),
    path("audit.csv", settings.audit_csv, name="audit-log-csv"),
    path("setup/", entry.setup, name="setup"),
    path("signin/", entry.signin, name="sign-in"),
    path("login-code/", entry.login_code, name="login-code"),
    path("livez", entry.livez, name="livez"),
    path("readyz", entry.readyz, name="readyz"),
]
