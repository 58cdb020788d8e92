"""POST /api/v1/enrol/ with a fleet token: new nodes only, and nothing else."""

import uuid
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from django.test import TestCase

from apps.accounts import audit
from apps.accounts.choices import Act, Role
from apps.accounts.credentials import CHECK_LENGTH, SECRET_LENGTH, base62
from apps.accounts.models import AuditEntry, Membership, User
from apps.accounts.services.labs import create_project
from apps.accounts.services.members import remove_member
from apps.attribution.models import AttributionRule
from apps.core.clock import now_us
from apps.core.errors import Conflict, Forbidden, NotFound
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import EnrolmentState
from apps.fleet.fleet_token_selectors import (
    active_fleet_tokens,
    new_nodes,
    refused_enrolments,
    waiting_enrolments,
)
from apps.fleet.models import FleetEnrolment, FleetToken, Node, Placement, RefusedEnrolment
from apps.fleet.services import (
    allow_known_node,
    approve_node,
    create_fleet_token,
    create_site,
    decline_node,
    dismiss_refusal,
    end_fleet_token,
    rotate_fleet_token,
)
from tests.api.conftest import Caller, Labs, add_person
from tests.builders import SmallLab, W, batch_body

Refused = Callable[..., dict[str, Any]]
DAY_US = 24 * US_PER_HOUR


def _token(small: SmallLab, *, uses: int = 5, life_us: int = US_PER_HOUR, **more: Any) -> str:
    options = {"site": small.site, "project": None, "by": small.owner, "now": now_us(), **more}
    return create_fleet_token(lab=small.lab, uses=uses, life_us=life_us, **options)[1]


def _body(code: str, **more: object) -> dict[str, object]:
    return {"code": code, "node": str(uuid.uuid4()), "hostname": "gpu-7", "facts": {}, **more}


def _enrol(labs: Labs, code: str, **more: object) -> Any:
    return labs.nobody("POST", "enrol/", _body(code, **more))


def _left(text: str) -> int:
    return FleetToken.objects.get(public_id=text.split("_")[2]).uses_left


def test_a_new_node_gets_a_token_that_uploads(labs: Labs) -> None:
    site = create_site(lab=labs.ours.lab, name="Room 2", kind="machine_room", zone="FR")
    text = _token(labs.ours, site=site)
    response = _enrol(labs, text)
    assert response.status_code == 201, response.content
    payload = response.json()
    assert payload["waiting"] is False
    node = Node.objects.get(uuid=payload["node"])
    assert Placement.objects.get(node=node).site == site
    pushed = Caller(payload["token"])("POST", "ingest/", batch_body(node, [W("gpu:GPU-1234", 5)]))
    assert pushed.json()["results"] == [["accepted"]]
    assert _left(text) == 4


def test_all_energy_of_the_node_belongs_to_the_project_of_the_token(labs: Labs) -> None:
    project = create_project(lab=labs.ours.lab, slug="vision", name="Vision", now=now_us())
    payload = _enrol(labs, _token(labs.ours, project=project)).json()
    rule = AttributionRule.objects.get(node__uuid=payload["node"])
    assert (rule.project, rule.from_hour, rule.created_by) == (project, 0, labs.ours.owner)


def test_no_live_secret_is_stored(labs: Labs) -> None:
    text = _token(labs.ours)
    _enrol(labs, text)
    stored = [*FleetToken.objects.values_list(), *AuditEntry.objects.values_list("details")]
    assert text not in str(stored)
    assert text.split("_")[3][:43] not in str(stored)


def test_the_audit_log_names_the_token_of_each_node(labs: Labs) -> None:
    text = _token(labs.ours)
    _enrol(labs, text)
    created, enrolled = reversed(
        AuditEntry.objects.filter(lab=labs.ours.lab).order_by("-sequence")[:2]
    )
    assert (created.action, enrolled.action) == (Act.FLEET_TOKEN_CREATED, Act.NODE_ENROLLED)
    assert created.user_id == labs.ours.owner.pk
    assert enrolled.details["fleet_token"] == text.split("_")[2]
    assert audit.verify(labs.ours.lab) is None


def _commits() -> Any:
    """Run the callbacks of commits, which a test in a transaction never reaches."""
    return TestCase.captureOnCommitCallbacks(execute=True)


# A known UUID


def test_a_known_node_is_refused_and_listed(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours)
    known = str(labs.ours.node.uuid)
    before = AuditEntry.objects.count()
    error = refused(_enrol(labs, text, node=known, hostname="clone"), 409, "known_node")
    assert error["field"] == "node"
    refused(_enrol(labs, text, node=known, hostname="clone"), 409, "known_node")
    assert _left(text) == 5, "a refused node must not use up the token"
    row = refused_enrolments(labs.ours.lab, now_us()).get()
    assert (str(row.node_uuid), row.hostname, row.attempts) == (known, "clone", 2)
    assert AuditEntry.objects.count() == before + 1, "the first refusal"
    labs.ours.node.refresh_from_db()
    assert labs.ours.node.hostname == "ws-1"


def test_a_replayed_request_is_refused_and_the_first_token_stays(
    labs: Labs, refused: Refused
) -> None:
    body = _body(_token(labs.ours))
    first = labs.nobody("POST", "enrol/", body).json()["token"]
    refused(labs.nobody("POST", "enrol/", body), 409, "known_node")
    assert Caller(first)("GET", "config/").status_code == 200


def test_a_node_of_another_lab_is_not_taken_over(labs: Labs, refused: Refused) -> None:
    text, theirs = _token(labs.ours), str(labs.theirs.node.uuid)
    refused(_enrol(labs, text, node=theirs), 409, "known_node")
    with pytest.raises(Conflict):
        allow_known_node(
            lab=labs.ours.lab, uuid=uuid.UUID(theirs), by=labs.ours.owner, now=now_us()
        )
    RefusedEnrolment.objects.update(allowed_until_us=now_us() + DAY_US)
    refused(_enrol(labs, text, node=theirs), 409, "known_node")
    assert not RefusedEnrolment.objects.filter(lab=labs.theirs.lab).exists()


def test_a_manager_allows_a_known_node_once(labs: Labs, refused: Refused) -> None:
    text, node = _token(labs.ours), str(uuid.uuid4())
    first = _enrol(labs, text, node=node).json()["token"]
    refused(_enrol(labs, text, node=node), 409)
    allow_known_node(lab=labs.ours.lab, uuid=uuid.UUID(node), by=labs.ours.owner, now=now_us())
    assert not refused_enrolments(labs.ours.lab, now_us()).exists()
    assert Caller(first)("GET", "config/").status_code == 200, "it ends with the enrolment"
    with _commits():
        second = _enrol(labs, text, node=node).json()["token"]
    refused(Caller(first)("GET", "config/"), 401)
    assert Caller(second)("GET", "config/").status_code == 200
    refused(_enrol(labs, text, node=node), 409, "known_node")
    assert Node.objects.filter(uuid=node).count() == 1


def test_a_permission_ends_after_a_day(labs: Labs, refused: Refused) -> None:
    text, known = _token(labs.ours), labs.ours.node.uuid
    refused(_enrol(labs, text, node=str(known)), 409)
    allow_known_node(lab=labs.ours.lab, uuid=known, by=labs.ours.owner, now=now_us() - DAY_US - 1)
    refused(_enrol(labs, text, node=str(known)), 409)
    assert refused_enrolments(labs.ours.lab, now_us()).count() == 1


def test_a_refusal_can_be_dismissed(labs: Labs, refused: Refused) -> None:
    text, known = _token(labs.ours), labs.ours.node.uuid
    refused(_enrol(labs, text, node=str(known)), 409)
    dismiss_refusal(lab=labs.ours.lab, uuid=known, by=labs.ours.owner, now=now_us())
    assert not RefusedEnrolment.objects.exists()
    refused(_enrol(labs, text, node=str(known)), 409)


# Uses, expiry, end


def test_a_token_works_as_often_as_it_says(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours, uses=2)
    assert [_enrol(labs, text).status_code for _ in range(3)] == [201, 201, 400]
    error = refused(_enrol(labs, text), 400, "bad_code")
    assert "/nodes/add/" in error["hint"]
    assert Node.objects.filter(hostname="gpu-7").count() == 2


def test_expired_ended_and_rotated_tokens_enrol_nothing(labs: Labs, refused: Refused) -> None:
    ours, now = labs.ours, now_us()
    expired = _token(ours, now=now - 2 * US_PER_HOUR)
    ended, rotated = _token(ours), _token(ours, uses=3)
    end_fleet_token(lab=ours.lab, public_id=ended.split("_")[2], by=ours.owner, now=now)
    new, text = rotate_fleet_token(
        lab=ours.lab, public_id=rotated.split("_")[2], by=ours.owner, now=now
    )
    for dead in (expired, ended, rotated):
        refused(_enrol(labs, dead), 400, "bad_code")
    assert not Node.objects.filter(hostname="gpu-7").exists()
    assert (new.uses_left, new.site) == (3, ours.site)
    assert _enrol(labs, text).status_code == 201
    assert [row.public_id for row in active_fleet_tokens(ours.lab, now)] == [new.public_id]
    with pytest.raises(Conflict):
        rotate_fleet_token(lab=ours.lab, public_id=ended.split("_")[2], by=ours.owner, now=now)


@pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER, None])
def test_a_token_ends_with_the_role_of_its_creator(
    labs: Labs, refused: Refused, role: Role | None
) -> None:
    ours = labs.ours
    pi = User.objects.create_user(username="pi")
    membership = Membership.objects.create(lab=ours.lab, user=pi, role=Role.PI)
    text = _token(ours, by=pi)
    if role is None:
        remove_member(lab=ours.lab, person=pi, by=ours.owner, now=now_us())
    else:
        membership.role = role
        membership.save()
    refused(_enrol(labs, text), 400, "bad_code")


def test_forged_tokens_get_one_answer(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours)
    other_secret = _token(labs.theirs)
    body = f"lc_fleet_{text.split('_')[2]}_{other_secret.split('_')[3][:SECRET_LENGTH]}"
    spliced = body + base62(zlib.crc32(body.encode()), CHECK_LENGTH)
    answers = [
        refused(_enrol(labs, code), 400, "bad_code")
        for code in (text[:-1] + ("a" if text[-1] != "a" else "b"), spliced, "lc_fleet_")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert Node.objects.filter(hostname="gpu-7").count() == 0


def test_guesses_are_slowed_down_and_a_cluster_is_not(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours, uses=40)
    assert {_enrol(labs, text).status_code for _ in range(40)} == {201}
    guesses = [_enrol(labs, f"lc_fleet_{i}").status_code for i in range(31)]
    assert guesses == [400] * 30 + [429]


# Approval


def test_longer_tokens_need_approval_by_default(labs: Labs) -> None:
    days = {
        life_us: _enrol(labs, _token(labs.ours, life_us=life_us)).json()["waiting"]
        for life_us in (DAY_US, DAY_US + 1)
    }
    assert list(days.values()) == [False, True]
    text = _token(labs.ours, life_us=7 * DAY_US, needs_approval=False)
    assert _enrol(labs, text).json()["waiting"] is False


def test_a_waiting_node_uploads_after_its_approval(labs: Labs, refused: Refused) -> None:
    ours = labs.ours
    project = create_project(lab=ours.lab, slug="vision", name="Vision", now=now_us())
    payload = _enrol(labs, _token(ours, needs_approval=True, project=project)).json()
    node_uuid, caller = uuid.UUID(payload["node"]), Caller(payload["token"])
    assert not Node.objects.filter(uuid=node_uuid).exists()
    assert waiting_enrolments(ours.lab).get().node_uuid == node_uuid
    assert [row.state for row in new_nodes(ours.lab, now_us())] == ["approval"]
    draft = Node(uuid=node_uuid)
    body = batch_body(draft, [W("gpu:GPU-1234", 5)])
    refused(caller("POST", "ingest/", body), 403, "waiting_for_approval")
    with _commits():
        approve_node(lab=ours.lab, uuid=node_uuid, by=ours.owner, now=now_us())
    assert caller("POST", "ingest/", body).json()["results"] == [["accepted"]]
    assert AttributionRule.objects.filter(node__uuid=node_uuid, project=project).count() == 1
    assert [row.state for row in new_nodes(ours.lab, now_us())] == ["ready"]


def test_a_declined_node_stays_out(labs: Labs, refused: Refused) -> None:
    ours = labs.ours
    text = _token(ours, needs_approval=True)
    payload = _enrol(labs, text).json()
    node_uuid = uuid.UUID(payload["node"])
    with _commits():
        decline_node(lab=ours.lab, uuid=node_uuid, by=ours.owner, now=now_us())
    refused(Caller(payload["token"])("GET", "config/"), 401)
    refused(_enrol(labs, text, node=str(node_uuid)), 409, "known_node")
    with pytest.raises(NotFound):
        approve_node(lab=ours.lab, uuid=node_uuid, by=ours.owner, now=now_us())
    assert not Node.objects.filter(uuid=node_uuid).exists()
    assert FleetEnrolment.objects.get().state == EnrolmentState.DECLINED


def test_a_waiting_node_cannot_be_claimed_by_a_second_machine(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours, needs_approval=True)
    payload = _enrol(labs, text).json()
    refused(_enrol(labs, text, node=payload["node"], hostname="evil"), 409, "known_node")
    approve_node(
        lab=labs.ours.lab, uuid=uuid.UUID(payload["node"]), by=labs.ours.owner, now=now_us()
    )
    assert Node.objects.get(uuid=payload["node"]).hostname == "gpu-7"


# Who may


@pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER])
def test_only_managers_act(labs: Labs, role: Role) -> None:
    ours = labs.ours
    person = add_person(ours, role)
    text = _token(ours)
    now, node = now_us(), ours.node.uuid
    for act in (
        lambda: _token(ours, by=person),
        lambda: end_fleet_token(lab=ours.lab, public_id=text.split("_")[2], by=person, now=now),
        lambda: rotate_fleet_token(lab=ours.lab, public_id=text.split("_")[2], by=person, now=now),
        lambda: approve_node(lab=ours.lab, uuid=node, by=person, now=now),
        lambda: decline_node(lab=ours.lab, uuid=node, by=person, now=now),
        lambda: allow_known_node(lab=ours.lab, uuid=node, by=person, now=now),
        lambda: dismiss_refusal(lab=ours.lab, uuid=node, by=person, now=now),
    ):
        with pytest.raises(Forbidden):
            act()


def test_a_manager_of_another_lab_acts_on_nothing_of_ours(labs: Labs, refused: Refused) -> None:
    text = _token(labs.ours)
    refused(_enrol(labs, text, node=str(labs.ours.node.uuid)), 409)
    theirs = {"lab": labs.theirs.lab, "by": labs.theirs.owner, "now": now_us()}
    with pytest.raises(NotFound):
        end_fleet_token(public_id=text.split("_")[2], **theirs)
    with pytest.raises(NotFound):
        allow_known_node(uuid=labs.ours.node.uuid, **theirs)
    with pytest.raises(NotFound):
        _token(labs.theirs, site=labs.ours.site)
