"""A retired node keeps its history, is not expected to report, and cannot upload."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest
from django.test import Client

from apps.accounts.choices import Act, CodePurpose
from apps.accounts.models import AuditEntry, OneTimeCode, Token
from apps.accounts.services.labs import issue_node_token
from apps.carbon.coverage import device_times, expected_between, time_shares
from apps.carbon.figures.energy import figure
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import US_PER_HOUR
from apps.dashboard.periods import lab_query
from apps.fleet.models import Node
from apps.fleet.selectors import (
    measured_nodes,
    node_statuses,
    nodes_with_device_problems,
    silent_nodes,
)
from apps.fleet.services import (
    enrol_node,
    issue_enrolment_code,
    register_node,
    rename_node,
    restore_node,
    retire_node,
    rotate_tokens,
)
from apps.ingest.models import EnergyWindow
from tests.builders import MINUTE, T0, SmallLab, W, batch_body, push, small_lab

pytestmark = pytest.mark.django_db
GPU = "gpu:GPU-0000-0001"


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def upload(node: Node, token: str, path: str = "/api/v1/ingest/") -> Any:
    body = msgspec.json.encode(batch_body(node, [W(GPU, 60_000)]))
    headers = {"authorization": f"Bearer {token}"}
    return Client().post(path, body, content_type="application/json", headers=headers)


def test_an_upload_of_a_retired_node_states_what_to_do(small: SmallLab) -> None:
    token = issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=T0)
    assert upload(small.node, token).status_code == 200
    retire_node(node=small.node, by=small.owner, now=T0 + 1)
    assert Token.objects.get(node_uuid=small.node.uuid).revoked_us == T0 + 1
    response = upload(small.node, token)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (401, "node_retired")
    assert f"/nodes/{small.node.uuid}/" in error["hint"]
    assert "labcarbon-collect enrol" in error["hint"]
    assert EnergyWindow.objects.count() == 1


def test_a_token_that_another_process_still_accepts_does_not_upload(small: SmallLab) -> None:
    token = issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=T0)
    Node.objects.filter(pk=small.node.pk).update(retired_us=T0)
    response = upload(small.node, token)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "node_retired")


def test_a_rotated_token_is_not_called_retired(small: SmallLab) -> None:
    token = issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=T0)
    rotate_tokens(nodes=[small.node], by=small.owner, now=T0 + 1)
    response = upload(small.node, token)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "bad_token")


def test_a_retired_node_is_not_silent_and_not_counted(small: SmallLab) -> None:
    health = {"devices": [{"device": GPU, "name": "x", "state": "lost", "since_us": 1}]}
    Node.objects.filter(pk=small.node.pk).update(last_push_us=1, health=health)
    assert [node.is_silent(T0) for node in node_statuses(small.lab)] == [True]
    retire_node(node=small.node, by=small.owner, now=T0)
    assert node_statuses(small.lab) == []
    assert not silent_nodes(small.lab, T0).exists()
    assert not nodes_with_device_problems(small.lab).exists()
    assert measured_nodes(small.lab).exists()  # its runs and figures still know it


def test_energy_stays_and_nothing_is_expected_after_retirement(small: SmallLab) -> None:
    push(small.node, [W(GPU, 60_000)])
    hour = T0 // US_PER_HOUR
    period: Any = type("P", (), {"from_hour": hour, "to_hour": hour + 24})()
    before = figure(small.lab, lab_query(small.lab, period))
    retire_node(node=small.node, by=small.owner, now=T0 + 2 * MINUTE)
    assert figure(small.lab, lab_query(small.lab, period)) == before
    times = device_times(small.lab, hour, hour + 24, T0 + 20 * US_PER_HOUR)
    shares = time_shares(times)
    assert (shares.measured_us, shares.unknown_us) == (MINUTE, MINUTE)
    assert expected_between(times, hour + 1, hour + 24, T0 + 20 * US_PER_HOUR) == 0


def test_use_again_needs_a_new_enrolment(small: SmallLab) -> None:
    retire_node(node=small.node, by=small.owner, now=T0)
    code = issue_enrolment_code(lab=small.lab, site=None, by=small.owner, now=T0)
    enrol = {"code": code, "uuid": small.node.uuid, "hostname": "ws-1", "facts": {}, "now": T0 + 1}
    with pytest.raises(Conflict) as refused:
        enrol_node(**enrol)
    assert refused.value.code == "node_retired"
    assert OneTimeCode.objects.get(purpose=CodePurpose.ENROL).uses_left == 1
    restore_node(node=small.node, by=small.owner, now=T0 + 2)
    assert not Token.objects.filter(revoked_us__isnull=True).exists()
    node, token = enrol_node(**enrol)
    assert upload(node, token).status_code == 200
    acts = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert acts.count(Act.NODE_RETIRED) == acts.count(Act.NODE_RESTORED) == 1


def test_a_node_is_retired_once_and_restored_once(small: SmallLab) -> None:
    with pytest.raises(Conflict):
        restore_node(node=small.node, by=small.owner, now=T0)
    retire_node(node=small.node, by=small.owner, now=T0)
    with pytest.raises(Conflict):
        retire_node(node=small.node, by=small.owner, now=T0)
    with pytest.raises(Conflict):
        rotate_tokens(nodes=[small.node], by=small.owner, now=T0)


def test_one_code_enrols_all_rotated_nodes(small: SmallLab) -> None:
    other = register_node(
        lab=small.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=small.site, now=T0
    )
    nodes = [small.node, other]
    for node in nodes:
        issue_node_token(lab=small.lab, node_uuid=node.uuid, now=T0)
    code = rotate_tokens(nodes=nodes, by=small.owner, now=T0)
    assert not Token.objects.filter(revoked_us__isnull=True).exists()
    for node in nodes:
        enrol_node(code=code, uuid=node.uuid, hostname="x", facts={}, now=T0 + 1)
    with pytest.raises(InvalidInput):
        enrol_node(code=code, uuid=uuid4(), hostname="x", facts={}, now=T0 + 1)
    assert AuditEntry.objects.filter(action=Act.NODE_TOKENS_ROTATED).count() == 2


def test_a_name_is_kept_apart_from_the_hostname(small: SmallLab) -> None:
    node = rename_node(node=small.node, name=" Microscope ", by=small.owner, now=T0)
    assert (node.name, node.hostname) == ("Microscope", "ws-1")
    register_node(
        lab=small.lab, uuid=node.uuid, hostname="ws-new", facts={}, site=small.site, now=T0
    )
    node.refresh_from_db()
    assert (node.name, node.hostname) == ("Microscope", "ws-new")
    assert rename_node(node=node, name="", by=small.owner, now=T0).name == "ws-new"
    with pytest.raises(InvalidInput):
        rename_node(node=node, name="x" * 101, by=small.owner, now=T0)
    assert AuditEntry.objects.filter(action=Act.NODE_RENAMED).count() == 2
