"""Decisions about refused run messages of a node: all messages of a run are applied, or none."""

import uuid
from typing import Any

import pytest

from apps.accounts.models import AuditEntry
from apps.core.errors import Conflict, InvalidInput, LabCarbonError, NotFound
from apps.fleet.models import Node
from apps.fleet.services import register_node
from apps.runs.choices import RunState
from apps.runs.models import RefusedMessage, Run
from apps.runs.services.messages import (
    PATCH,
    PUT,
    accept_messages,
    apply_patch,
    apply_put,
    discard_messages,
    keep_refused,
)
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import SmallLab, small_lab
from tests.shipped_data import T0

pytestmark = pytest.mark.django_db
RUN = uuid.uuid4()
START = {"name": "train.py", "started_at": "2026-11-02T08:00:00Z", "project": "demo"}
END = {"state": "finished", "ended_at": "2026-11-02T09:00:00Z", "exit_code": 0, "energy_mj": 7}


def _send(node: Node, verb: str, body: Any) -> str:
    """Send a message with the token of a node. Returns the code of the error, or ''."""
    call: Any = apply_put if verb == PUT else apply_patch
    options = {"by": None, "reported_by": "collector"} if verb == PUT else {}
    try:
        call(lab=node.lab, uuid=RUN, body=body, bound_node=node.uuid, now=T0, **options)
    except LabCarbonError as error:
        return keep_refused(node=node, run_uuid=RUN, verb=verb, body=body, error=error, now=T0).code
    return ""


def _other_node(small: SmallLab) -> Node:
    return register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=small.site, now=T0
    )


def test_accepted_messages_are_applied_in_order() -> None:
    small = small_lab()
    first, second = small.node, _other_node(small)
    assert _send(first, PUT, START) == ""
    assert _send(second, PUT, {**START, "name": "eval.py"}) == "pending_decision"
    assert _send(second, PATCH, END) == "pending_decision"
    assert Run.objects.get().node == first
    run = accept_messages(node=second, run_uuid=RUN, by=small.owner, now=T0 + 1)
    assert (run.node, run.name, run.state) == (second, "eval.py", RunState.FINISHED)
    assert run.reported_energy_mj == 7
    assert run.user is None  # the manager who decides did not run it
    assert not RefusedMessage.objects.exists()
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.subject) == ("run_messages.accepted", "ws-2")
    assert entry.details["run"] == str(RUN)
    assert [message["verb"] for message in entry.details["messages"]] == [PUT, PATCH]
    assert _send(second, PATCH, END) == ""  # the run belongs to this node now


def test_of_messages_that_cannot_all_be_applied_none_is() -> None:
    small = small_lab()
    first, second = small.node, _other_node(small)
    _send(first, PUT, START)
    _send(second, PUT, {**START, "name": "eval.py"})
    early = {**END, "ended_at": "2026-11-01T00:00:00Z"}
    assert _send(second, PATCH, early) == "pending_decision"
    with pytest.raises(InvalidInput):
        accept_messages(node=second, run_uuid=RUN, by=small.owner, now=T0)
    assert Run.objects.get().name == "train.py"
    assert RefusedMessage.objects.count() == 2


def test_a_body_that_this_server_no_longer_accepts_is_reported() -> None:
    small = small_lab()
    node = _other_node(small)
    keep_refused(
        node=node, run_uuid=RUN, verb=PUT, body={"was": 1}, error=Conflict("Not now."), now=T0
    )
    with pytest.raises(InvalidInput):
        accept_messages(node=node, run_uuid=RUN, by=small.owner, now=T0)
    assert RefusedMessage.objects.count() == 1


def test_discarded_messages_change_nothing() -> None:
    small = small_lab()
    second = _other_node(small)
    _send(small.node, PUT, START)
    _send(second, PATCH, END)
    discard_messages(node=second, run_uuid=RUN, by=small.owner, now=T0)
    assert Run.objects.get().state == RunState.RUNNING
    assert not RefusedMessage.objects.exists()
    assert AuditEntry.objects.latest("sequence").action == "run_messages.discarded"
    with pytest.raises(NotFound):
        discard_messages(node=second, run_uuid=RUN, by=small.owner, now=T0)


def test_the_messages_of_another_node_are_not_touched() -> None:
    small = small_lab()
    second, third = _other_node(small), _other_node(small)
    put_run(
        lab=small.lab,
        uuid=RUN,
        facts=RunFacts(name="train.py", started_us=T0, node_uuid=small.node.uuid),
        by=None,
        bound_node=None,
    )
    _send(second, PATCH, END)
    _send(third, PATCH, END)
    discard_messages(node=second, run_uuid=RUN, by=small.owner, now=T0)
    assert [row.node for row in RefusedMessage.objects.all()] == [third]
