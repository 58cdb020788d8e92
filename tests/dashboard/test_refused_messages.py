"""/nodes/<uuid>/run-messages/ and the refused run messages on the page of a node."""

import re
import uuid
from typing import Any

import pytest
from django.test import Client

from apps.core.errors import Forbidden
from apps.fleet.models import Node
from apps.runs.models import RefusedMessage, Run
from apps.runs.services.messages import keep_refused
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

RUN = uuid.uuid4()
START = {"name": "train.py", "started_at": "2026-11-02T08:00:00Z", "project": "demo"}


def _refuse(lab: SmallLab, run: uuid.UUID = RUN, verb: str = "PUT", body: Any = None) -> None:
    keep_refused(
        node=lab.node,
        run_uuid=run,
        verb=verb,
        body=START if body is None else body,
        error=Forbidden("This run belongs to another node."),
        now=T0,
    )


def _page(lab: SmallLab) -> str:
    return f"/nodes/{lab.node.uuid}/"


def _decide(client: Client, lab: SmallLab, decision: str, run: object = RUN) -> Any:
    return client.post(f"{_page(lab)}run-messages/", {"decision": decision, "run": str(run)})


def test_the_page_of_the_node_lists_refused_messages_by_run(lab: SmallLab, owner: Client) -> None:
    assert "data-refused-run" not in text_of(owner.get(_page(lab)))
    _refuse(lab)
    _refuse(lab, verb="PATCH", body={"state": "failed"})
    _refuse(lab, run=uuid.uuid4(), body={**START, "name": HOSTILE})
    page = text_of(owner.get(_page(lab)))
    assert len(re.findall(r"data-refused-run=", page)) == 2
    assert f'data-refused-run="{RUN}" data-messages="2"' in page
    assert "This run belongs to another node." in page
    assert HOSTILE not in page


def test_a_manager_accepts(lab: SmallLab, owner: Client) -> None:
    _refuse(lab)
    answer = _decide(owner, lab, "accept")
    assert answer.status_code == 302
    assert answer["Location"] == f"{_page(lab)}#refused-messages"
    assert Run.objects.get(uuid=RUN).node == lab.node
    assert not RefusedMessage.objects.exists()


def test_a_manager_discards(lab: SmallLab, owner: Client) -> None:
    _refuse(lab)
    assert _decide(owner, lab, "discard").status_code == 302
    assert not Run.objects.exists()
    assert not RefusedMessage.objects.exists()


def test_a_message_that_cannot_be_applied_stays_and_the_page_says_why(
    lab: SmallLab, owner: Client
) -> None:
    _refuse(lab, verb="PATCH", body={"state": "failed"})
    answer = owner.post(
        f"{_page(lab)}run-messages/", {"decision": "accept", "run": str(RUN)}, follow=True
    )
    assert RefusedMessage.objects.count() == 1
    assert "There is no such run" in text_of(answer)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"decision": "accept"},
        {"decision": "x", "run": str(RUN)},
        {"run": "7", "decision": "accept"},
    ],
)
def test_a_wrong_form_changes_nothing(lab: SmallLab, owner: Client, data: dict[str, str]) -> None:
    _refuse(lab)
    assert owner.post(f"{_page(lab)}run-messages/", data).status_code == 302
    assert RefusedMessage.objects.count() == 1


def test_only_managers_decide(lab: SmallLab, viewer: Client, member: Client) -> None:
    _refuse(lab)
    for client in (viewer, member):
        assert _decide(client, lab, "accept").status_code == 403
        assert "decision" not in text_of(client.get(_page(lab)))
    assert RefusedMessage.objects.count() == 1


def test_outsiders_find_nothing(lab: SmallLab, outsider: Client) -> None:
    _refuse(lab)
    assert _decide(outsider, lab, "accept").status_code == 404
    assert RefusedMessage.objects.count() == 1


def test_needs_sign_in_and_post(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in(f"{_page(lab)}run-messages/")
    assert_only(owner, f"{_page(lab)}run-messages/", "POST")


def test_the_number_of_queries_does_not_depend_on_the_messages(
    lab: SmallLab, owner: Client
) -> None:
    _refuse(lab)
    few = queries(owner, _page(lab))
    for _ in range(20):
        _refuse(lab, run=uuid.uuid4())
    assert queries(owner, _page(lab)) == few


def test_messages_that_the_node_keeps_are_counted(lab: SmallLab, owner: Client) -> None:
    Node.objects.filter(pk=lab.node.pk).update(health={"spool": {"refused_run_messages": 3}})
    assert 'data-kept-messages="3"' in text_of(owner.get(_page(lab)))
    for health in ([1], {"spool": []}, {"spool": {"refused_run_messages": HOSTILE}}):
        Node.objects.filter(pk=lab.node.pk).update(health=health)
        assert "data-kept-messages" not in text_of(owner.get(_page(lab)))


def test_the_overview_names_nodes_with_refused_messages(lab: SmallLab, owner: Client) -> None:
    assert 'data-alert="refused-messages"' not in text_of(owner.get("/"))
    _refuse(lab)
    page = text_of(owner.get("/"))
    assert f"{_page(lab)}#refused-messages" in page
