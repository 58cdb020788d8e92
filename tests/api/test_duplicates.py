"""/api/v1/duplicates/: findings are listed, read and decided as on the page."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.models import AuditEntry
from apps.fleet.models import Node
from apps.preflight.models import DuplicateFinding
from tests.api.conftest import Labs
from tests.builders import SmallLab
from tests.preflight.support import judged, spend, stored

Refused = Callable[..., dict[str, Any]]


def _finding(small: SmallLab, **facts: Any) -> DuplicateFinding:
    stored(small, user=small.owner, name="first.py")
    second = stored(small, minutes=5, user=small.owner, name="second.py", **facts)
    spend(small, second, 5_000, minute=5)
    finding = judged(second)
    assert finding is not None
    return finding


@pytest.fixture
def finding(labs: Labs) -> DuplicateFinding:
    return _finding(labs.ours)


def _read(reply: Any) -> Any:
    assert reply.status_code == 200, reply.content
    return reply.json()


def test_a_finding_has_both_runs_and_their_energy(labs: Labs, finding: DuplicateFinding) -> None:
    [row] = _read(labs.viewer("GET", "duplicates/"))["results"]
    assert (row["verdict"], row["certainty"], row["state"]) == ("duplicate", "verified", "open")
    assert (row["run"]["name"], row["run"]["energy_mj"]) == ("second.py", 5_000)
    assert row["run"]["uuid"] == str(finding.run.uuid)
    assert (row["original"]["name"], row["original"]["energy_mj"]) == ("first.py", None)
    assert (row["run"]["energy_state"], row["original"]["energy_state"]) == (
        "counted",
        "not_measured",
    )
    Node.objects.filter(pk=labs.ours.node.pk).update(last_push_us=finding.original.ended_us)
    [row] = _read(labs.viewer("GET", "duplicates/"))["results"]
    assert row["original"]["energy_state"] == "not_counted_yet"
    assert (row["decided_at"], row["decided_by"], row["reason"]) == (None, None, "")
    detail = _read(labs.viewer("GET", f"duplicates/{finding.pk}/"))
    assert {name: detail.pop(name) for name in ("differs", "ignored")} == {
        "differs": [],
        "ignored": [],
    }
    assert detail == row


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("", 1),
        ("state=open", 1),
        ("state=dismissed", 0),
        ("verdict=duplicate", 1),
        ("verdict=near", 0),
        ("certainty=verified", 1),
        ("certainty=possible", 0),
        ("text=second", 1),
        ("text=other", 0),
        ("project=~unattributed", 1),
        ("project=demo", 0),
        ("run=7f1d3b52-2222-4333-8444-555566667777", 0),
    ],
)
def test_filters(labs: Labs, finding: DuplicateFinding, query: str, number: int) -> None:
    assert len(_read(labs.viewer("GET", f"duplicates/?{query}"))["results"]) == number


def test_pages(labs: Labs, finding: DuplicateFinding) -> None:
    for minutes in (10, 15):
        assert judged(stored(labs.ours, minutes=minutes, user=labs.ours.owner)) is not None
    seen, path = [], "duplicates/?page_size=2"
    while path:
        page = _read(labs.viewer("GET", path))
        seen += [row["id"] for row in page["results"]]
        path = (page["next"] or "").partition("/api/v1/")[2]
    assert len(seen) == 3
    assert seen == sorted(set(seen), reverse=True)


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=x", "state"), ("verdict=none", "verdict"), ("color=red", "color"), ("run=7", "run")],
)
def test_invalid_filters(labs: Labs, refused: Refused, query: str, field: str) -> None:
    error = refused(labs.viewer("GET", f"duplicates/?{query}"), 400)
    assert error["field"] == field


def test_a_decision_and_its_undo(labs: Labs, finding: DuplicateFinding) -> None:
    path = f"duplicates/{finding.pk}/decision/"
    body = {"state": "dismissed", "reason": "other preprocessing"}
    decided = _read(labs.admin("POST", path, body))
    assert (decided["state"], decided["reason"]) == ("dismissed", "other preprocessing")
    assert decided["decided_by"] == labs.ours.owner.username
    assert decided["decided_at"] is not None
    assert _read(labs.admin("POST", path, body))["state"] == "dismissed"
    opened = _read(labs.admin("POST", path, {"state": "open"}))
    assert (opened["state"], opened["decided_by"], opened["reason"]) == ("open", None, "")
    actions = AuditEntry.objects.filter(action__startswith="repeat").values_list(
        "action", flat=True
    )
    assert set(actions) == {"repeat.decided", "repeat.reopened"}


def test_another_decision_needs_an_undo(
    labs: Labs, finding: DuplicateFinding, refused: Refused
) -> None:
    path = f"duplicates/{finding.pk}/decision/"
    _read(labs.admin("POST", path, {"state": "intentional"}))
    refused(labs.admin("POST", path, {"state": "confirmed"}), 409)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "state"),
        ({"state": "maybe"}, "state"),
        ({"state": "dismissed"}, "reason"),
        ({"state": "confirmed", "reason": "x" * 401}, "reason"),
        ({"state": "open", "reason": "x"}, "reason"),
        ({"state": "confirmed", "by": "me"}, "by"),
    ],
)
def test_invalid_decisions(
    labs: Labs, finding: DuplicateFinding, refused: Refused, body: Any, field: str
) -> None:
    error = refused(labs.admin("POST", f"duplicates/{finding.pk}/decision/", body), 400)
    assert error["field"] == field
    finding.refresh_from_db()
    assert finding.state == "open"


def test_who_may_decide(labs: Labs, finding: DuplicateFinding, refused: Refused) -> None:
    path, body = f"duplicates/{finding.pk}/decision/", {"state": "confirmed"}
    refused(labs.viewer("POST", path, body), 403)
    refused(labs.node("POST", path, body), 403)
    refused(labs.nobody("POST", path, body), 401)
    refused(labs.outsider("POST", path, body), 404)
    refused(labs.member("POST", path, body), 409)  # runs of other people
    finding.refresh_from_db()
    assert finding.state == "open"


def test_who_may_read(labs: Labs, finding: DuplicateFinding, refused: Refused) -> None:
    for path in ("duplicates/", f"duplicates/{finding.pk}/"):
        refused(labs.node("GET", path), 403)
        refused(labs.nobody("GET", path), 401)
        refused(labs.admin("POST", path, {}), 405)
    assert _read(labs.outsider("GET", "duplicates/"))["results"] == []
    refused(labs.outsider("GET", f"duplicates/{finding.pk}/"), 404)
    refused(labs.admin("GET", f"duplicates/{10**30}/"), 404)
