"""/nodes/changes/, /nodes/<uuid>/name/, and retired nodes in the list."""

import re
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.choices import Act, CodePurpose
from apps.accounts.models import AuditEntry, OneTimeCode, Token
from apps.accounts.services.labs import issue_node_token
from apps.attribution.models import AttributionRule
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, Node, Placement
from apps.fleet.services import create_site, register_node, retire_node
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    figures_on,
    gpu,
    queries,
    text_of,
)

pytestmark = pytest.mark.django_db
CHANGES = "/nodes/changes/"
LIST = f"/nodes/?{PERIOD}"
TABLE = re.compile(r'data-node-change="([^"]+)"')
FROM = {"from_day": "2026-11-02"}


@pytest.fixture
def nodes(lab: SmallLab) -> list[Node]:
    """Three nodes with a token each."""
    made = [lab.node] + [
        register_node(
            lab=lab.lab, uuid=uuid4(), hostname=f"gpu-{i}", facts={}, site=lab.site, now=T0
        )
        for i in (1, 2)
    ]
    for node in made:
        issue_node_token(lab=lab.lab, node_uuid=node.uuid, now=T0)
    return made


def numbers(nodes: Iterable[Node]) -> str:
    return ".".join(str(node.uuid) for node in nodes)


def acts(act: Act) -> int:
    return AuditEntry.objects.filter(action=act).count()


def post(client: Client, nodes: Iterable[Node], action: str, **values: Any) -> Any:
    return client.post(CHANGES, {"selected": numbers(nodes), "action": action, **values})


def test_a_selection_shows_the_changes(owner: Client, nodes: list[Node]) -> None:
    response = owner.post(CHANGES, {"item": [str(node.uuid) for node in nodes], "action": "select"})
    page = text_of(response)
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    assert 'data-selected="3"' in page
    forms = re.findall(r'data-form="(\w+)"', page)
    assert forms == ["move", "overhead", "rule", "rotate", "retire"]


CHANGE_VALUES: dict[str, dict[str, str]] = {
    "overhead": {"choice": "own", "watts": "45"},
    "rule": {"project": "demo", **FROM},
    "rotate": {},
    "retire": {},
}
ACTS = {
    "overhead": Act.NODE_STATIC_POWER,
    "rule": Act.RULE_CREATED,
    "rotate": Act.NODE_TOKENS_ROTATED,
    "retire": Act.NODE_RETIRED,
    "move": Act.NODE_MOVED,
}


def changed(action: str, nodes: list[Node]) -> int:
    """Return the number of nodes with a change."""
    ids = [node.pk for node in nodes]
    rows = Node.objects.filter(pk__in=ids)
    return {
        "overhead": lambda: rows.filter(static_power_mw=45_000).count(),
        "rule": lambda: AttributionRule.objects.filter(node__in=ids).count(),
        "rotate": lambda: Token.objects.filter(revoked_us__isnull=False).count(),
        "retire": lambda: rows.filter(retired_us__isnull=False).count(),
        "move": lambda: Placement.objects.filter(ACTIVE, from_hour__gt=0, node__in=ids).count(),
    }[action]()


@pytest.mark.parametrize("action", CHANGE_VALUES)
def test_a_change_is_previewed_then_saved_with_one_audit_row_each(
    owner: Client, nodes: list[Node], action: str
) -> None:
    preview = post(owner, nodes, action, **CHANGE_VALUES[action])
    page = text_of(preview)
    assert preview.status_code == 200
    assert len(TABLE.findall(page)) == 3
    assert 'name="record" value="1"' in page
    assert changed(action, nodes) == acts(ACTS[action]) == 0
    saved = post(owner, nodes, action, record="1", **CHANGE_VALUES[action])
    assert saved.status_code == (200 if action == "rotate" else 302)
    assert changed(action, nodes) == acts(ACTS[action]) == 3


def test_a_move_shows_its_effect_on_emissions(
    lab: SmallLab, owner: Client, nodes: list[Node]
) -> None:
    push(lab.node, [W(gpu(), 3_600_000_000)])
    site = create_site(lab=lab.lab, name="Lyon", kind=SiteKind.MACHINE_ROOM, zone="FR")
    values = {"site": str(site.pk), "when": "from", **FROM}
    page = text_of(post(owner, nodes, "move", **values))
    assert "data-change" in page
    assert changed("move", nodes) == 0
    assert post(owner, nodes, "move", record="1", **values).status_code == 302
    assert changed("move", nodes) == acts(Act.NODE_MOVED) == 3


def test_all_or_none(owner: Client, nodes: list[Node], lab: SmallLab) -> None:
    retire_node(node=nodes[1], by=lab.owner, now=T0)
    for record in ("", "1"):
        response = post(owner, nodes, "retire", record=record)
        assert response.status_code == 409
        assert not TABLE.findall(text_of(response))
    assert changed("retire", nodes) == 1
    assert acts(Act.NODE_RETIRED) == 1


def test_a_rotation_shows_one_code_for_all_once(owner: Client, nodes: list[Node]) -> None:
    response = post(owner, nodes, "rotate", record="1")
    assert "no-store" in response["Cache-Control"]
    found = re.search(r'id="code">([A-Z0-9-]+)<', text_of(response))
    assert found
    assert OneTimeCode.objects.get(purpose=CodePurpose.ENROL).uses_left == 3
    page = text_of(post(owner, nodes, "rotate"))
    assert 'id="code"' not in page
    assert OneTimeCode.objects.count() == 1


def test_use_again(owner: Client, nodes: list[Node], lab: SmallLab) -> None:
    retire_node(node=nodes[0], by=lab.owner, now=T0)
    page = text_of(owner.get(f"/nodes/{nodes[0].uuid}/"))
    assert "data-retired" in page
    assert 'value="restore"' in page
    preview = text_of(post(owner, nodes[:1], "restore"))
    assert "data-confirm" in preview
    forms = re.findall(r'data-form="(\w+)"', preview)
    assert "restore" in forms
    assert "retire" not in forms
    response = post(owner, nodes[:1], "restore", record="1")
    assert response["Location"] == f"/nodes/{nodes[0].uuid}/"
    assert "data-no-token" in text_of(owner.get(response["Location"]))


@pytest.mark.parametrize(
    ("action", "values", "field"),
    [
        ("overhead", {"choice": "own", "watts": "-1"}, "watts"),
        ("overhead", {"choice": "own", "watts": HOSTILE}, "watts"),
        ("rule", {"project": "no", **FROM}, "project"),
        ("rule", {"project": "demo", "from_day": "soon"}, "from_day"),
        ("move", {"site": "0", "when": "from", **FROM}, "site"),
        ("move", {}, "when"),
    ],
)
def test_wrong_values_change_nothing(
    owner: Client, nodes: list[Node], action: str, values: dict[str, str], field: str
) -> None:
    for record in ("", "1"):
        response = post(owner, nodes, action, record=record, **values)
        assert response.status_code == 400
        assert field in fields_with_errors(text_of(response))
    assert changed(action, nodes) == 0


@pytest.mark.parametrize("selection", ["", "x", "1.2", "\x00", "0" * 32, "0" * 40])
def test_a_selection_that_is_none(owner: Client, nodes: list[Node], selection: str) -> None:
    response = owner.post(CHANGES, {"selected": selection, "action": "retire", "record": "1"})
    assert response.status_code in {400, 409}
    assert changed("retire", nodes) == 0


def test_declared_use_is_refused(lab: SmallLab, owner: Client) -> None:
    site = create_site(lab=lab.lab, name="Elsewhere", kind=SiteKind.DECLARED, zone="FR")
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname="cloud", facts={}, site=site, now=T0)
    for action in ("retire", "rotate"):
        assert post(owner, [node], action, record="1").status_code == 409
    assert f'value="{node.uuid}"' not in text_of(owner.get(LIST))
    assert 'id="manage"' not in text_of(owner.get(f"/nodes/{node.uuid}/"))


def test_roles(
    lab: SmallLab,
    owner: Client,
    viewer: Client,
    member: Client,
    outsider: Client,
    nodes: list[Node],
) -> None:
    assert_needs_sign_in(f"/nodes/{lab.node.uuid}/live/")
    assert Client().post(CHANGES, {"selected": numbers(nodes)}).status_code == 302
    assert_only(owner, CHANGES, "POST")
    for client in (viewer, member):
        assert post(client, nodes, "retire", record="1").status_code == 403
        assert client.post(f"/nodes/{lab.node.uuid}/name/", {"name": "x"}).status_code == 403
        page = text_of(client.get(LIST))
        assert 'type="checkbox"' not in page
        assert 'id="manage"' not in text_of(client.get(f"/nodes/{lab.node.uuid}/"))
    assert post(outsider, nodes, "retire", record="1").status_code == 409
    assert outsider.post(f"/nodes/{lab.node.uuid}/name/", {"name": "x"}).status_code == 404
    assert changed("retire", nodes) == 0
    assert not Node.objects.exclude(display_name="").exists()


def test_a_retired_node_is_listed_on_request(
    lab: SmallLab, owner: Client, nodes: list[Node]
) -> None:
    for i, node in enumerate(nodes):
        push(node, [W(gpu(i), 50_000 + i)])
    before = figures_on(text_of(owner.get(LIST)).split("<tfoot>")[1])
    retire_node(node=nodes[1], by=lab.owner, now=T0)
    page = text_of(owner.get(LIST))
    address = f"/nodes/{nodes[1].uuid}/"
    assert address not in page
    assert 'data-retired="1"' in page
    assert "data-retired-sum" in page
    assert figures_on(page.split("<tfoot>")[1])[: len(before)] == before
    shown = text_of(owner.get(f"{LIST}&show=retired"))
    assert address in shown
    assert "state-retired" in shown
    assert "data-retired-sum" not in shown
    assert queries(owner, LIST) == queries(owner, f"{LIST}&show=retired")


def test_only_retired_nodes(lab: SmallLab, owner: Client) -> None:
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=1)
    retire_node(node=lab.node, by=lab.owner, now=T0)
    page = text_of(owner.get(LIST))
    assert "data-none-in-use" in page
    assert "state-silent" not in page
    overview = text_of(owner.get("/"))
    assert "silent" not in overview
    assert f"/nodes/{lab.node.uuid}/" not in overview


def test_a_name_is_shown_beside_the_hostname(lab: SmallLab, owner: Client) -> None:
    name = f"/nodes/{lab.node.uuid}/name/"
    assert owner.post(name, {"name": "Microscope"})["Location"].endswith("#manage")
    page = text_of(owner.get(LIST))
    assert ">Microscope</a>" in page
    assert re.search(r"data-hostname>ws-1<", page)
    assert "ws-1" in text_of(owner.get(f"/nodes/{lab.node.uuid}/"))
    owner.post(name, {"name": "x" * 101})
    owner.post(name, {"name": "a\x00"})
    assert Node.objects.get(pk=lab.node.pk).display_name == "Microscope"
    owner.post(name, {"name": HOSTILE[:100]})
    assert "<script>alert" not in text_of(owner.get(LIST))
    owner.post(name, {"name": ""})
    assert "data-hostname" not in text_of(owner.get(LIST))
    assert_only(owner, name, "POST")


def test_the_list_shows_collector_versions(lab: SmallLab, owner: Client) -> None:
    Node.objects.filter(pk=lab.node.pk).update(health={"collector": "0.2.7"})
    assert re.search(r"data-collector>0\.2\.7<", text_of(owner.get(LIST)))
