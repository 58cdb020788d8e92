"""The section of the help for each page."""

from django.http import HttpRequest
from django.urls import reverse

from apps.trackers.registry import trackers

# The name of a page → document, or document#anchor.
TOPICS = {
    "overview": "methodology",
    "overview-change": "methodology#comparison-of-periods",
    "change": "change",
    "explain": "methodology",
    "scopes": "scopes",
    "market": "market-based",
    "factors": "factors",
    "factor-zone": "factors#which-factor-applies",
    "lab-basis": "factors#basis",
    "grid-providers": "factor-providers",
    "greener-hours": "greener-hours",
    "grid-provider": "factor-providers#schedule",
    "projects": "attribution",
    "project": "attribution",
    "unattributed": "attribution#claims",
    "claim": "attribution#claims",
    "runs": "runs#list-runs",
    "run": "runs",
    "run-comparison": "duplicates#verdicts",
    "duplicates": "duplicates#duplicate-findings",
    "duplicate": "duplicates#verdicts",
    "assets": "assets#pages",
    "asset": "assets",
    "asset-new": "assets#model-and-kind",
    "assets-events": "assets#lifecycle-events",
    "asset-fleet": "assets#inventory-and-allocation",
    "asset-imports": "assets#import-from-a-file",
    "asset-import": "assets#import-from-a-file",
    "asset-import-history": "assets#import-from-a-file",
    "asset-import-undo": "assets#import-from-a-file",
    "asset-import-redo": "assets#import-from-a-file",
    "asset-import-mapping": "assets#own-columns",
    "asset-remove": "assets#lifecycle-events",
    "discovered-assets": "assets#discovered-devices",
    "asset-labels": "assets#labels",
    "replacement-ranking": "replacement#ranking",
    "asset-replacement": "replacement",
    "asset-sources": "asset-sources#add-a-source",
    "asset-source": "asset-sources#what-a-poll-does",
    "activities": "activities",
    "activity": "activities#equations-and-factors",
    "activity-add": "activities#kinds",
    "artifacts": "artifacts#pages",
    "artifact": "artifacts",
    "artifact-storage": "artifacts#storage-cost",
    "holds": "artifacts#holds",
    "cleanup-plans": "artifacts#cleanup-plans",
    "cleanup-plan": "artifacts#plan-items",
    "nodes": "nodes",
    "node": "nodes",
    "node-add": "collector#install-on-many-nodes",
    "node-live": "nodes#last-15-minutes",
    "node-name": "nodes#name",
    "nodes-changes": "nodes#changes-of-several-nodes",
    "node-enrol": "collector#commands",
    "node-move": "sites",
    "node-run-messages": "collector#upload",
    "quarantine": "collector#windows",
    "quarantined-window": "collector#windows",
    "device-move": "collector#meters",
    "device": "collector#meters",
    "sites": "sites",
    "site": "sites",
    "catalog": "catalog",
    "catalog-model": "catalog#fields-of-a-figure",
    "catalog-model-new": "catalog#add-models-and-figures",
    "attribution-rules": "attribution#rules",
    "attribution-rules-import": "attribution#rules",
    "attribution-rule": "attribution#rules",
    "idle-policy": "attribution#idle-energy",
    "people": "people#roles",
    "person": "attribution#visibility",
    "person-erase": "people#remove-erase-and-export-a-person",
    "invitation": "people#invitations",
    "tokens": "people#tokens",
    "search": "glossary",
    "lab-settings": "people#visibility",
    "audit-log": "people#audit-log",
    "login-code": "sign-in#login-codes-and-one-time-links",
    "mfa_index": "sign-in#second-factor",
    "mfa_activate_totp": "sign-in#second-factor",
    "mfa_deactivate_totp": "sign-in#second-factor",
    "mfa_view_recovery_codes": "sign-in#second-factor",
    "mfa_generate_recovery_codes": "sign-in#second-factor",
    "mfa_reauthenticate": "sign-in#second-factor",
    "account_reauthenticate": "sign-in",
    "account_change_password": "sign-in",
    "account_set_password": "sign-in",
    "account_logout": "sign-in",
    **{
        page: f"{tracker.name}#{section}"
        for tracker in trackers()
        for page, section in tracker.help_topics.items()
    },
}


def help_href(request: HttpRequest) -> str:
    """Return the address of the help for the page of a request."""
    name = request.resolver_match.url_name if request.resolver_match else None
    document, hash_, anchor = TOPICS.get(name or "", "").partition("#")
    if not document:
        return reverse("help")
    return reverse("help-document", args=[document]) + hash_ + anchor
