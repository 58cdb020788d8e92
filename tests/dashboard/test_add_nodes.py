"""/nodes/add/: fleet tokens, decisions about nodes, the commands, and the list of new nodes."""

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR
from apps.dashboard.overview.alerts import alerts_of
from apps.fleet.models import FleetEnrolment, FleetToken, Node, RefusedEnrolment
from tests.builders import SmallLab

PAGE = "/nodes/add/"


def _create(client: Client, small: SmallLab, **changes: str) -> Any:
    data = {"action": "create", "site": str(small.site.pk), "project": "", "uses": "3"}
    data |= {"hours": "1", "approval": "automatic", **changes}
    return client.post(PAGE, data)


def _text(page: Any) -> str:
    return page.content.decode()


def _secret(page: Any) -> str:
    match = re.search(r'id="new-token">(lc_fleet_\w+)<', _text(page))
    assert match, _text(page)
    return match[1]


def _enrol(code: str, node: object = None, hostname: str = "gpu-7") -> Any:
    body = {"code": code, "node": str(node or uuid.uuid4()), "hostname": hostname}
    return Client().post("/api/v1/enrol/", body, content_type="application/json")


def test_a_token_is_shown_once_and_works(lab: SmallLab, owner: Client) -> None:
    create_project(lab=lab.lab, slug="vision", name="Vision", now=now_us())
    response = _create(owner, lab, project="vision", hours="168")
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    text = _secret(response)
    token = FleetToken.objects.get()
    assert (token.site, token.uses_left, token.needs_approval) == (lab.site, 3, True)
    assert token.project is not None
    assert token.expires_us - token.created_us == 168 * US_PER_HOUR
    assert _enrol(text).status_code == 201
    again = _text(owner.get(PAGE))
    assert text not in again
    assert f'data-fleet-token="{token.public_id}"' in again


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"uses": "0"}, "uses"),
        ({"uses": "1001"}, "uses"),
        ({"uses": "x"}, "uses"),
        ({"site": "0"}, "site"),
        ({"site": ""}, "site"),
        ({"hours": "9999"}, "hours"),
        ({"approval": "x"}, "approval"),
        ({"project": "none-such"}, "project"),
    ],
)
def test_errors_are_shown_at_their_fields(
    lab: SmallLab, owner: Client, changes: dict[str, str], field: str
) -> None:
    response = _create(owner, lab, **changes)
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in _text(response)
    assert not FleetToken.objects.exists()


def test_rotating_shows_a_new_token_and_ends_the_old_one(lab: SmallLab, owner: Client) -> None:
    old = _secret(_create(owner, lab))
    response = owner.post(PAGE, {"action": "rotate", "token": old.split("_")[2]})
    new = _secret(response)
    assert new != old
    assert [_enrol(old).status_code, _enrol(new).status_code] == [400, 201]
    ended = owner.post(PAGE, {"action": "end", "token": new.split("_")[2]})
    assert ended.status_code == 302
    assert _enrol(new).status_code == 400
    repeated = owner.post(PAGE, {"action": "end", "token": new.split("_")[2]})
    assert (repeated.status_code, "data-form-errors" in _text(repeated)) == (409, True)


def test_a_waiting_node_is_approved_or_declined(lab: SmallLab, owner: Client) -> None:
    text = _secret(_create(owner, lab, approval="always"))
    first, second = (_enrol(text).json()["node"] for _ in range(2))
    page = _text(owner.get(PAGE))
    assert page.count("data-waiting=") == 2
    assert page.count('data-state="approval"') == 2
    owner.post(PAGE, {"action": "approve", "node": first})
    owner.post(PAGE, {"action": "decline", "node": second})
    assert Node.objects.filter(uuid=first).exists()
    assert not Node.objects.filter(uuid=second).exists()
    page = _text(owner.get(PAGE))
    assert "data-waiting=" not in page
    assert page.count('data-state="reading"') == 1


def test_a_known_node_is_allowed_or_dismissed(lab: SmallLab, owner: Client) -> None:
    text, known = _secret(_create(owner, lab)), str(lab.node.uuid)
    assert _enrol(text, known).status_code == 409
    assert f'data-refused="{known}"' in _text(owner.get(PAGE))
    owner.post(PAGE, {"action": "dismiss", "node": known})
    assert "data-refused=" not in _text(owner.get(PAGE))
    assert _enrol(text, known).status_code == 409
    owner.post(PAGE, {"action": "allow", "node": known})
    assert f'data-allowed="{known}"' in _text(owner.get(PAGE))
    assert _enrol(text, known).status_code == 201
    assert _enrol(text, known).status_code == 409


def test_decisions_are_alerts_of_managers(lab: SmallLab, owner: Client) -> None:
    text = _secret(_create(owner, lab, approval="always"))
    _enrol(text)
    _enrol(text, lab.node.uuid)
    kinds = {
        can_manage: {
            alert.kind for alert in alerts_of(lab.lab, [], [], now_us(), can_manage=can_manage)
        }
        & {"node-waiting", "node-refused"}
        for can_manage in (True, False)
    }
    assert kinds == {True: {"node-waiting", "node-refused"}, False: set()}


def test_new_nodes_appear_with_their_first_reading(
    lab: SmallLab, owner: Client, viewer: Client
) -> None:
    assert "data-node=" not in _text(viewer.get("/nodes/add/live/"))
    node = _enrol(_secret(_create(owner, lab))).json()["node"]
    live = viewer.get("/nodes/add/live/")
    assert live.status_code == 200
    assert 'hx-trigger="every 5s"' in _text(live)
    assert 'data-state="reading"' in _text(live)
    Node.objects.filter(uuid=node).update(last_push_us=now_us())
    assert 'data-state="ready"' in _text(viewer.get("/nodes/add/live/"))


@pytest.mark.parametrize("kind", ["workstation", "server", "slurm", "ansible", "container"])
def test_each_tab_has_commands_with_the_digest_and_no_token(
    lab: SmallLab, owner: Client, kind: str
) -> None:
    text = _secret(_create(owner, lab))
    page = _text(owner.get(PAGE, {"kind": kind}))
    match = re.search(r"data-sha256>([0-9a-f]{64})<", page)
    assert match
    commands = re.findall(r"<pre id=[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert any(match[1] in command for command in commands)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "a tab replaces the element with its id"
    assert not any("lc_fleet_" in command or text in command for command in commands)
    assert re.search(rf'href="/nodes/add/\?kind={kind}#install"[^>]*aria-current', page)


def test_without_wheels_the_page_names_the_command(
    lab: SmallLab, owner: Client, settings: Any, tmp_path: Path
) -> None:
    settings.WHEELS_DIR = tmp_path / "none"
    page = _text(owner.get(PAGE))
    assert "data-not-installable" in page
    assert "manage.py collect_wheels" in page
    assert "data-sha256" not in page


def test_only_managers_see_tokens_and_decide(
    lab: SmallLab, owner: Client, member: Client, viewer: Client
) -> None:
    text = _secret(_create(owner, lab, approval="always"))
    node = _enrol(text).json()["node"]
    _enrol(text, lab.node.uuid)
    public_id = text.split("_")[2]
    for client in (member, viewer):
        page = _text(client.get(PAGE))
        assert public_id not in page
        assert "data-read-only" in page
        assert _create(client, lab).status_code == 403
        for action in ("rotate", "end"):
            assert client.post(PAGE, {"action": action, "token": public_id}).status_code == 403
        for action in ("approve", "decline", "allow", "dismiss"):
            assert client.post(PAGE, {"action": action, "node": node}).status_code == 403
    assert FleetToken.objects.get().revoked_us is None
    assert FleetEnrolment.objects.get().state == "waiting"


def test_another_lab_sees_and_changes_nothing(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    text = _secret(_create(owner, lab))
    known = str(lab.node.uuid)
    _enrol(text, known)
    assert known not in _text(outsider.get(PAGE))
    for data in (
        {"action": "end", "token": text.split("_")[2]},
        {"action": "allow", "node": known},
        {"action": "dismiss", "node": known},
    ):
        assert outsider.post(PAGE, data).status_code == 404
    assert RefusedEnrolment.objects.get().allowed_until_us is None


def test_the_audit_page_names_what_happened(lab: SmallLab, owner: Client) -> None:
    _enrol(_secret(_create(owner, lab)), lab.node.uuid)
    page = _text(owner.get("/audit/"))
    assert "Fleet token created" in page
    assert "Enrolment of a known node refused" in page
