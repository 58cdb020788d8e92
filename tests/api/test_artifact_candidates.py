"""GET /api/v1/artifacts/<digest>/candidates/: what could be adapted instead, or beside."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import Labs
from tests.artifacts.support import digest, run_jobs, trained_model
from tests.builders import small_lab

Refused = Callable[..., dict[str, Any]]
PATH = f"artifacts/{digest('mine.pt')}/candidates/"


def _told(labs: Labs) -> None:
    trained_model(labs.ours, "mine.pt", data="cats")
    trained_model(
        labs.ours, "cats.pt", data="cats-2025", metrics={"val_acc": 0.5}, licence="MIT", bytes=77
    )
    run_jobs()


def test_what_could_be_adapted(labs: Labs) -> None:
    _told(labs)
    trained_model(small_lab(name="Others"), "theirs.pt", data="cats")
    run_jobs()
    reply = labs.viewer("GET", PATH)
    assert reply.status_code == 200
    told = reply.json()  # type: ignore[attr-defined]
    assert (told["metric"], told["word"]) == ("val_acc", "")
    (one,) = told["results"]
    assert {
        name: one[name]
        for name in ("name", "bytes", "licence", "why", "shares", "words", "metric", "energy_mj")
    } == {
        "name": "cats.pt",
        "bytes": 77,
        "licence": "MIT",
        "why": "the same architecture, data of a like name (cat)",
        "shares": ["the same architecture", "data of a like name"],
        "words": ["cat"],
        "metric": {"name": "val_acc", "value": 0.5},
        "energy_mj": None,
    }
    assert (one["emission_ug"], one["has_same_start"], one["is_made_from_it"]) == (
        None,
        False,
        False,
    )
    assert one["made_by"]


def test_what_nobody_can_share_is_told_with_what_mends_it(labs: Labs) -> None:
    trained_model(labs.ours, "mine.pt")
    told = labs.viewer("GET", PATH).json()  # type: ignore[attr-defined]
    assert told["results"] == []
    assert "Add a tag" in told["word"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=colour", "by"),
        ("metric=%00", "metric"),
        (f"metric={'x' * 201}", "metric"),
        ("sort=by", "sort"),
    ],
)
def test_bad_questions(labs: Labs, refused: Refused, query: str, field: str) -> None:
    _told(labs)
    assert refused(labs.viewer("GET", f"{PATH}?{query}"), 400)["field"] == field


def test_orders(labs: Labs) -> None:
    _told(labs)
    for by in ("likeness", "metric", "bytes", "energy", "licence", ""):
        assert labs.viewer("GET", f"{PATH}?by={by}").status_code == 200, by


def test_who_may_and_how(labs: Labs, refused: Refused) -> None:
    _told(labs)
    refused(labs.nobody("GET", PATH), 401)
    refused(labs.node("GET", PATH), 403)
    refused(labs.outsider("GET", PATH), 404)
    refused(labs.viewer("GET", "artifacts/nothing/candidates/"), 404)
    refused(labs.member("POST", PATH, {}), 405)
