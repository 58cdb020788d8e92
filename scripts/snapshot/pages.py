"""All pages and CSV exports of the lab, as its admins, by literal addresses."""

import csv
import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from scripts.snapshot.fixed_clock import reseed
from scripts.snapshot.former_addresses import former_address, with_current_parameters
from scripts.snapshot.html_facts import facts_of, folded

# Addresses from which all others are linked, and some that no page links to; of moved pages the
# former ones.
PAGES = """
    / /?period=30d /?period=24h /?period=never /?from=2026-11-01T00:00Z&to=2026-11-10T00:00Z
    /overview/table/ /overview/hardware/ /overview.csv /projects/ /runs/ /runs.csv
    /runs/?state=failed /runs/?text=unet /duplicates/ /duplicates.csv /assets/ /assets/new/
    /assets/new/offers/?q=a100 /assets/fleet/ /assets.csv /assets/import/ /assets/discovered/
    /assets/labels/ /assets/ranking/ /assets/ranking.csv /artifacts/ /artifacts.csv
    /artifacts/?kind=model /artifacts/?text=unet /artifacts/storage/ /artifacts/storage.csv
    /artifacts/plans/ /artifacts/holds/ /nodes/ /nodes/enrol/ /sites/ /catalog/ /catalog.csv
    /catalog/?q=a100 /catalog/new/ /scopes/ /scopes.csv /unattributed/ /unattributed/?period=30d
    /rules/ /rules/import/ /idle/ /people/ /people/?period=30d /invite/ /tokens/ /tokens/codecarbon/
    /trackers/mlflow/ /lab/ /audit/ /audit.csv /setup/ /signin/ /login-code/ /livez /readyz
    /accounts/security/ /accounts/password/change/ /accounts/login/ /accounts/signup/
    /accounts/inactive/ /accounts/reauthenticate/ /no/such/page/
"""
# Addresses of things: a form, and what fills it in. %s is the lab.
THINGS = (
    ("/projects/{}/", "SELECT slug FROM accounts_project WHERE lab_id = %s ORDER BY id"),
    ("/projects/{}/table/", "SELECT slug FROM accounts_project WHERE lab_id = %s ORDER BY id"),
    ("/projects/{}/energy.csv", "SELECT slug FROM accounts_project WHERE lab_id = %s ORDER BY id"),
    ("/runs/{}/", "SELECT uuid FROM runs_run WHERE lab_id = %s ORDER BY id"),
    ("/duplicates/{}/", "SELECT id FROM preflight_repeat WHERE lab_id = %s ORDER BY id"),
    ("/assets/{}/", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("/assets/{}/life.csv", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("/assets/{}/keep/", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("/assets/{}/keep.csv", "SELECT id FROM assets_asset WHERE lab_id = %s ORDER BY id"),
    ("/assets/import/{}/", "SELECT uuid FROM assets_registerimport WHERE lab_id = %s ORDER BY id"),
    ("/artifacts/plans/{}/", "SELECT uuid FROM artifacts_plan WHERE lab_id = %s ORDER BY id"),
    ("/artifacts/plans/{}.csv", "SELECT uuid FROM artifacts_plan WHERE lab_id = %s ORDER BY id"),
    (
        "/artifacts/{}/",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    (
        "/artifacts/{}/lineage.csv",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    (
        "/artifacts/{}/card.md",
        "SELECT digest FROM artifacts_artifact WHERE lab_id = %s ORDER BY kind DESC, id",
    ),
    ("/nodes/{}/", "SELECT uuid FROM fleet_node WHERE lab_id = %s ORDER BY id"),
    ("/nodes/{}/move/", "SELECT uuid FROM fleet_node WHERE lab_id = %s ORDER BY id"),
    ("/devices/{}/", "SELECT key FROM fleet_device WHERE lab_id = %s ORDER BY id"),
    ("/sites/{}/", "SELECT id FROM fleet_site WHERE lab_id = %s ORDER BY id"),
    (
        "/catalog/{}/",
        (
            "SELECT DISTINCT model_id FROM assets_asset WHERE model_id IS NOT NULL AND lab_id = "
            "%s ORDER BY 1"
        ),
    ),
    ("/catalog/{}/", "SELECT id FROM catalog_hardwaremodel WHERE lab_id = %s ORDER BY id"),
    (
        "/catalog/figures/{}/evidence/",
        "SELECT id FROM catalog_embodiedfigure WHERE lab_id = %s ORDER BY id",
    ),
    ("/claims/{}/", "SELECT DISTINCT act FROM attribution_claim WHERE lab_id = %s ORDER BY 1"),
    ("/rules/{}/", "SELECT id FROM attribution_attributionrule WHERE lab_id = %s ORDER BY id"),
    ("/people/{}/", "SELECT user_id FROM accounts_membership WHERE lab_id = %s ORDER BY user_id"),
    ("/trackers/mlflow/{}/", "SELECT id FROM trackers_mlflowsource WHERE lab_id = %s ORDER BY id"),
)
MOST_OF_A_THING = 40
MOST_OF_OTHERS = 5  # of visitors who are no admins
MOST_OF_A_FORM = 3  # of linked addresses that differ in ids and values only
MOST_EXPLAINED = 6  # the same for explanations of figures
_NOT_FOLLOWED = re.compile(r"^/(api|static)/|^/accounts/logout/")
_UNFIT = re.compile(r"[^\w.=&-]+")  # for the name of a file
_ID = re.compile(r"(?<=/)[^/]*\d[^/]*(?=[/.]|$)")


@dataclass
class Visits:
    """Facts of all visited pages."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    pages: dict[str, Any] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)
    forms: dict[str, Any] = field(default_factory=dict)
    csv: dict[str, Any] = field(default_factory=dict)
    headings: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    html: dict[str, str] = field(default_factory=dict)
    queries: dict[str, list[str]] = field(default_factory=dict)


def visitors() -> dict[str, tuple[int, Client]]:
    """Return (lab's number, client) of the first admin of each lab by the lab's slug, and of
    other roles by both.
    """
    clients: dict[str, tuple[int, Client]] = {}
    query = (
        "SELECT l.slug, l.id, m.role, m.user_id FROM accounts_membership m JOIN accounts_lab l ON "
        "l.id = m.lab_id "
        "ORDER BY m.id"
    )
    for slug, lab, role, user in rows(query):
        name = slug if role == "admin" else f"{slug}/{role}"
        if name not in clients:
            clients[name] = (lab, client_of(user))
    return dict(sorted(clients.items()))


def client_of(user: int) -> Client:
    """Return a client that is signed in as a person."""
    client = Client(raise_request_exception=False)
    person = get_user_model().objects.get(pk=user)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def rows(query: str, *values: object) -> list[Any]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def things(lab: int, form: str, query: str, most: int = MOST_OF_A_THING) -> list[str]:
    """Return addresses of a lab's things."""
    keys = [row[0] for row in rows(query, lab)]
    step = max(1, -(-len(keys) // most))
    return [form.format(as_in_address(key)) for key in keys[::step]]


def as_in_address(key: object) -> str:
    """Return a key as it is written in an address; SQLite stores a UUID as 32 letters."""
    text = str(key)
    return str(UUID(text)) if re.fullmatch(r"[0-9a-f]{32}", text) else text


def visit_all(addresses: dict[str, list[str]] | None, progress: Callable[[str], None]) -> Visits:
    """Visit these addresses of each lab; without, all that its pages link to."""
    visits = Visits()
    reseed("visitors")
    for slug, (lab, client) in visitors().items():
        if addresses is not None:
            for address in addresses.get(slug, []):
                _visit(visits, slug, client, address)
        else:
            _crawl(visits, slug, lab, client)
        visits.addresses[slug] = [
            key.partition(" ")[2] for key in visits.pages if key.startswith(f"{slug} ")
        ]
        progress(f"{slug}: {len(visits.addresses[slug])} pages")
    return visits


def _crawl(visits: Visits, slug: str, lab: int, client: Client) -> None:
    is_admin = "/" not in slug
    waiting = PAGES.split()
    for form, query in THINGS:
        waiting += things(lab, form, query, MOST_OF_A_THING if is_admin else MOST_OF_OTHERS)
    own_addresses = len(waiting)
    pairs = rows(
        "SELECT r.uuid, o.uuid FROM preflight_repeat p JOIN runs_run r ON r.id = p.run_id "
        "JOIN runs_run o ON o.id = p.of_id WHERE p.lab_id = %s ORDER BY p.id",
        lab,
    )
    for pair in pairs:
        runs = "&".join(f"run={as_in_address(key)}" for key in pair)
        waiting += [f"/runs/compare/?{runs}", f"/runs/compare.csv?{runs}"]
    counts: dict[str, int] = {}
    visited: set[str] = set()
    number = 0
    while number < len(waiting):
        address = waiting[number]
        number += 1
        form = _form_of(address)
        most = MOST_EXPLAINED if address.startswith("/explain/?") else MOST_OF_A_FORM
        if address in visited or (number > own_addresses and counts.get(form, 0) >= most):
            continue
        visited.add(address)
        counts[form] = counts.get(form, 0) + 1
        linked = _visit(visits, slug, client, address)
        waiting += [link for link in linked if link not in visited] if is_admin else []


def _form_of(address: str) -> str:
    """Return an address without ids, and with the names of its parameters only."""
    path, _, query = address.partition("?")
    names = {part.partition("=")[0] for part in query.split("&")} - {"profile"}
    return f"{_ID.sub('#', path)}?{'&'.join(sorted(names))}"


def _visit(visits: Visits, slug: str, client: Client, address: str) -> list[str]:
    """Request an address, note what it shows, and return the addresses it links to."""
    reseed(address)
    key = f"{slug} {address}"
    response = client.get(with_current_parameters(address), follow=True)
    content = b"".join(response.streaming_content) if response.streaming else response.content
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    visits.pages[key] = {"status": response.status_code, "type": kind, "values": []}
    if kind == "text/csv":
        table = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
        visits.headings[key], visits.csv[key] = table[:1], table[1:]
        return []
    if kind != "text/html":
        visits.pages[key]["content"] = (
            content.decode(errors="replace")
            if kind.startswith(("text", "application/j"))
            else len(content)
        )
        return []
    html = content.decode()
    facts = facts_of(html)
    visits.pages[key]["values"] = facts.values
    if facts.charts:
        visits.charts[key] = facts.charts
    visits.forms[key] = facts.forms
    queries = visits.queries.setdefault(slug, [])
    queries += [query for query in dict.fromkeys(facts.queries) if query not in queries]
    name = (
        f"{slug}/"
        f"{_UNFIT.sub('_', address.strip('/'))[:90] or 'overview'}-"
        f"{zlib.crc32(address.encode()):08x}"
    )
    visits.texts[f"{name}.txt"] = "\n".join(facts.text)
    visits.html[f"{name}.html"] = folded(html)
    at = response.redirect_chain[-1][0] if response.redirect_chain else address
    linked = [
        urlsplit(urljoin(at, link))
        for link in facts.links
        if not link.startswith(("#", "mailto:", "data:"))
    ]
    paths = [
        part.path + (f"?{part.query}" if part.query else "")
        for part in linked
        if part.netloc in ("", "testserver")
    ]
    former = map(former_address, paths)
    return [
        path
        for path in dict.fromkeys(former)
        if path.startswith("/") and not _NOT_FOLLOWED.match(path)
    ]
