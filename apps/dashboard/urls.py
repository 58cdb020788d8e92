"""Addresses of the pages."""

from django.urls import path

from apps.dashboard.pages import attribution, entry, explain, nodes, overview, people, projects, runs, settings

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview.csv", overview.overview_csv),
    path("overview/table/", overview.overview_table),
    path("explain/", explain.explain, name="explain"),
    path("explain/ledger.csv", explain.ledger_csv),
    path("projects/", projects.projects, name="projects"),
    path("projects/<slug:slug>/", projects.project, name="project"),
    path("projects/<slug:slug>/table/", projects.project_table),
    path("projects/<slug:slug>/energy.csv", projects.project_csv),
    path("runs/", runs.runs, name="runs"),
    path("runs.csv", runs.runs_csv),
    path("runs/<uuid:uuid>/", runs.run, name="run"),
    path("nodes/", nodes.nodes, name="nodes"),
    path("nodes/enrol/", nodes.enrol, name="enrol"),
    path("nodes/<uuid:uuid>/", nodes.node, name="node"),
    path("sites/<int:pk>/", nodes.site, name="site"),
    path("unattributed/", attribution.unattributed, name="unattributed"),
    path("claims/<uuid:act>/", attribution.claim_change, name="claim"),
    path("rules/", attribution.rules, name="rules"),
    path("rules/<int:pk>/", attribution.rule, name="rule"),
    path("people/", people.people, name="people"),
    path("people/<int:person>/role/", people.person_role),
    path("people/<int:person>/remove/", people.person_remove),
    path("invitations/<int:invitation>/revoke/", people.invitation_revoke),
    path("invite/", people.invitation, name="invite"),
    path("labs/switch/", people.switch_lab, name="switch-lab"),
    path("tokens/", settings.tokens, name="tokens"),
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
