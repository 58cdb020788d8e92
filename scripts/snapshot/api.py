"""Requests to the API that read the lab, and their responses."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from django.test import Client

from scripts.snapshot.fixed_clock import reseed
from scripts.snapshot.pages import rows, things, visitors

READS = """
    runs/ runs/?page_size=5&sort=-started runs/?state=failed runs/?text=unet runs/?project=vision
    artifacts/ artifacts/?kind=model artifacts/?text=unet artifacts/?copies=present assets/
    assets/?kind=gpu assets/?state=disposed catalog/ catalog/?q=a100 catalog/?kind=gpu&offset=50
    config/
"""
THINGS = (
    ("runs/{}/", "SELECT uuid FROM runs_run WHERE lab_id = %s ORDER BY id"),
    ("runs/{}/metrics/", "SELECT r.uuid FROM runs_run r WHERE r.lab_id = %s ORDER BY r.id"),
    (
        "runs/{}/metrics/?name=val/dice&shape=csv",
        (
            "SELECT r.uuid FROM runs_run r JOIN runs_metric m ON m.run_id = r.id WHERE r.lab_id = "
            "%s ORDER BY r.id"
        ),
    ),
    (
        "artifacts/{}/",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    (
        "artifacts/{}/candidates/",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    (
        "artifacts/{}/lineage/",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    ("artifacts/plans/{}/", "SELECT uuid FROM artifacts_plan WHERE lab_id = %s ORDER BY id"),
    ("assets/{}/", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("assets/{}/events/", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("assets/{}/keep/", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    (
        "assets/{}/keep/?hours=4000&by=fp32&g_per_kwh=300",
        "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id",
    ),
    ("assets/import/{}/", "SELECT uuid FROM assets_registerimport WHERE lab_id = %s ORDER BY id"),
    ("catalog/{}/", "SELECT id FROM catalog_hardwaremodel WHERE lab_id = %s ORDER BY id"),
    (
        "catalog/{}/",
        (
            "SELECT DISTINCT model_id FROM assets_asset WHERE model_id IS NOT NULL AND lab_id = "
            "%s ORDER BY 1"
        ),
    ),
)
FROM_TO = "from=2026-10-25T00:00Z&to=2026-11-20T10:00Z"
USE_GROUPS = (
    "charge",
    "consumer",
    "device",
    "factor",
    "hour",
    "node",
    "project",
    "pue",
    "quality",
    "run",
    "way",
)
HARDWARE_GROUPS, BOTH_GROUPS = ("asset", "charge", "kind", "project"), ("charge", "project")
GROUPS = {
    "energy_mj": USE_GROUPS, "facility_energy_mj": USE_GROUPS, "emission_ug": USE_GROUPS,
    "embodied_ug": HARDWARE_GROUPS, "embodied_inventory_ug": HARDWARE_GROUPS,
    "carbon_ug": BOTH_GROUPS, "carbon_inventory_ug": BOTH_GROUPS,
}  # fmt: skip
PARAMETERS = frozenset({
    "accounting", "basis", "consumer", "from", "metric", "os_user", "profile", "program", "project",
    "quality", "scope", "subject", "to", "use",
})  # fmt: skip
MOST_QUERIES = 150
JSON = "application/json"
WORDS = frozenset({"description", "summary", "operationId"})


@dataclass
class Requests:
    """Responses of the API."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    responses: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, Any] = field(default_factory=dict)
    schema: Any = None


def request_all(
    addresses: dict[str, list[str]] | None,
    queries: dict[str, list[str]],
    progress: Callable[[str], None],
) -> Requests:
    """Request everything that can be read, then write."""
    requests = Requests()
    reseed("api")
    for slug, (lab, client) in visitors().items():
        requests.addresses[slug] = (
            addresses.get(slug, [])
            if addresses
            else _addresses(lab, queries.get(slug, []), 5 if "/" in slug else 40)
        )
        for address in requests.addresses[slug]:
            note(requests, slug, client, "GET", address)
        progress(f"{slug}: {len(requests.addresses[slug])} API responses")
    text = Client().get("/api/schema/").content.decode()
    requests.schema = without_words(yaml.safe_load(text))
    return requests


def _addresses(lab: int, queries: list[str], most: int) -> list[str]:
    paths = [f"/api/v1/{path}" for path in READS.split()]
    for form, query in THINGS:
        paths += [f"/api/v1/{path}" for path in things(lab, form, query, most)]
    projects = [
        row[0]
        for row in rows("SELECT slug FROM accounts_project WHERE lab_id = %s ORDER BY id", lab)
    ]
    for metric, groups in GROUPS.items():
        paths.append(f"/api/v1/figures/?metric={metric}&{FROM_TO}")
        paths += [
            f"/api/v1/figures/?metric={metric}&{FROM_TO}&group_by={group}" for group in groups
        ]
        paths += [
            f"/api/v1/figures/?metric={metric}&{FROM_TO}&subject=project:{slug}"
            for slug in projects
        ]
        paths += [
            f"/api/v1/explain/?metric={metric}&{FROM_TO}&subject=project:{slug}"
            for slug in projects
        ]
    queries = [
        query
        for query in queries
        if {part.partition("=")[0] for part in query.split("&")} <= PARAMETERS
    ]
    step = max(1, -(-len(queries) // MOST_QUERIES))
    for query in queries[::step]:
        paths += [f"/api/v1/figures/?{query}", f"/api/v1/explain/?{query}"]
    return list(dict.fromkeys(paths))


def note(
    requests: Requests,
    slug: str,
    client: Client,
    method: str,
    address: str,
    body: Any = None,
    kind: str = JSON,
) -> Any:
    """Request an address and note the response, the words of an error apart; return its body."""
    key = f"{slug} {method} {address}"
    while key in requests.responses:
        key += "'"
    reseed(key)
    response = requests.responses[key] = response_of(client, method, address, body, kind)
    error = response["body"].get("error") if isinstance(response["body"], dict) else None
    if isinstance(error, dict):
        requests.messages[key] = [error.pop(name, None) for name in ("message", "hint")]
    return response["body"]


def response_of(client: Client, method: str, address: str, body: Any, kind: str) -> dict[str, Any]:
    """Return status and content of a response."""
    data = "" if body is None else json.dumps(body) if kind == JSON else body
    response = client.generic(method, address, data, content_type=kind, follow=True)
    content = b"".join(response.streaming_content) if response.streaming else response.content
    is_json = response.headers.get("Content-Type", "").startswith(JSON)
    return {
        "status": response.status_code,
        "body": json.loads(content) if is_json else content.decode(errors="replace"),
    }


def without_words(value: Any) -> Any:
    """Return a schema without texts and names of operations."""
    if isinstance(value, dict):
        return {
            str(key): without_words(part)
            for key, part in value.items()
            if key not in WORDS or isinstance(part, dict)
        }
    return [without_words(part) for part in value] if isinstance(value, list) else value
