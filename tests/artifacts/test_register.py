"""What is told of artifacts is kept once, completed and never made less; runs that name the same
content are joined.
"""

from typing import Any

import msgspec
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.artifacts.choices import CopyState
from apps.artifacts.models import Alias, Artifact, Copy, LineageEdge
from apps.artifacts.parsing import parse_copy_states
from apps.artifacts.services.copies import record_copy_states
from apps.artifacts.storage_model import data_match_key, start_match_key
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.runs.services.fingerprints import put_fingerprint
from tests.artifacts.support import create_run, digest, edge, register_artifact, register_rows, row
from tests.builders import SmallLab
from tests.examples import examples
from tests.runs.fingerprints import parsed as fingerprint


def _on(*paths: str) -> list[dict[str, str]]:
    return [{"path": path, "medium": "ssd"} for path in paths]


def test_told_again_changes_nothing(lab: SmallLab) -> None:
    rows = [
        row("a", copies=_on("/a"), aliases={"md5": "0" * 32}),
        row("b", runs=[edge(create_run(lab))]),
    ]
    assert register_rows(lab, *rows) == [["created"], ["created"]]
    before = [list(kind.objects.order_by("pk").values()) for kind in (Artifact, Alias, LineageEdge)]
    assert register_rows(lab, *rows) == [["unchanged"], ["unchanged"]]
    assert [
        list(kind.objects.order_by("pk").values()) for kind in (Artifact, Alias, LineageEdge)
    ] == before
    assert Copy.objects.count() == 1


def test_of_the_same_content_one_artifact_with_two_copies(lab: SmallLab) -> None:
    assert register_rows(lab, row("a", copies=_on("/a")), row("a", copies=_on("/b"))) == [
        ["created"],
        ["changed"],
    ]
    assert register_rows(lab, row("a", copies=_on("/c", "s3://bucket/c"))) == [["changed"]]
    copies = Copy.objects.order_by("pk").values_list("path", "node", "medium")
    assert list(copies) == [
        ("/a", lab.node.pk, "ssd"),
        ("/b", lab.node.pk, "ssd"),
        ("/c", lab.node.pk, "ssd"),
        ("s3://bucket/c", None, "ssd"),
    ]


def test_a_path_holds_one_artifact_at_a_time(lab: SmallLab) -> None:
    register_rows(lab, row("a", copies=_on("/last.pt")))
    assert register_rows(lab, row("b", copies=_on("/last.pt"))) == [["created"]]
    assert list(Copy.objects.values_list("artifact__name", "path")) == [("b", "/last.pt")]
    assert register_rows(lab, row("a", copies=_on("/last.pt"))) == [["changed"]]


def test_what_is_known_is_completed_and_never_made_less(lab: SmallLab) -> None:
    first = register_artifact(lab, "a", kind="other", facts={"parameters": 5})
    assert first.state == "registered"
    register_artifact(
        lab,
        "a",
        kind="model",
        format="safetensors",
        licence="MIT",
        facts={"arch": "resnet"},
        copies=_on("/a"),
    )
    last = register_artifact(lab, "a", kind="dataset", format="torch", facts={"parameters": 6})
    assert (last.pk, last.kind, last.format, last.licence, last.state) == (
        first.pk,
        "model",
        "safetensors",
        "MIT",
        "stored",
    )
    assert last.facts == {"parameters": 6, "arch": "resnet"}


def test_a_medium_is_news_and_an_unknown_one_takes_none_away(lab: SmallLab) -> None:
    register_rows(lab, row("a", copies=[{"path": "/a"}]))
    for medium, answer, kept in (
        ("hdd", "changed", "hdd"),
        ("unknown", "unchanged", "hdd"),
        ("ssd", "changed", "ssd"),
    ):
        assert register_rows(lab, row("a", copies=[{"path": "/a", "medium": medium}])) == [[answer]]
        assert Copy.objects.get().medium == kept
    register_rows(lab, row("b", copies=[{"path": "/a"}]))
    assert Copy.objects.get().medium == "ssd", "it is the disk's, whatever lies there"


def test_project_and_owner_are_those_of_the_run_that_made_it(lab: SmallLab) -> None:
    run = create_run(lab)
    made = register_artifact(lab, "a", runs=[edge(run)])
    assert (made.project, made.owner) == (run.charged_project, lab.owner)
    read = register_artifact(lab, "b", runs=[edge(run, "used")])
    assert (read.project, read.owner) == (None, None)
    assert register_artifact(lab, "c", project="demo").project == run.charged_project


@pytest.mark.parametrize(
    ("more", "words"),
    [
    ({"digest": "A" * 64}, "matching regex"), ({"digest": "abc"}, "matching regex"),
    ({"digest": digest("a") + "\n"}, "matching regex"), ({"bytes": -1}, ">= 0"),
    ({"bytes": 2**63}, "<="), ({"name": ""}, "length"), ({"kind": "thing"}, "Invalid enum"),
    ({"name": "a\x00"}, "invalid character"), ({"facts": {"a": "x\x00"}}, "invalid character"),
    ({"colour": "red"}, "unknown field"), ({"aliases": {"md5": "xyz"}}, "32 lower-case hex digits"),
    ({"aliases": {"crc": "1"}}, "Invalid enum"), ({"files": 2}, "must be 1 for a file"),
    ({"copies": [{"path": "/" * 4097}]}, "length"),
    ({"bytes": 9}, "registered as a file of 1 bytes"), ({"facts": {"a": {"b": 1}}}, "Expected"),
],
)  # fmt: skip
def test_a_bad_row_is_refused_alone(lab: SmallLab, more: dict[str, Any], words: str) -> None:
    register_rows(lab, row("a"))
    answers = register_rows(lab, row("b"), {**row("a"), **more}, row("c"))
    assert [answer[0] for answer in answers] == ["created", "refused", "created"]
    assert words in answers[1][1]


def test_what_cannot_be_noted_is_said_and_the_rest_kept(lab: SmallLab) -> None:
    unknown = "7f1d3b52-2222-4333-8444-555566667777"
    (answer,) = register_rows(
        lab,
        row("a", project="nope", runs=[edge(create_run(lab)), {"run": unknown, "role": "used"}]),
    )
    assert answer[0] == "created"
    assert "There is no project 'nope' (projects: demo)" in answer[1]
    assert f"There is no run {unknown}" in answer[2]
    assert LineageEdge.objects.count() == 1


def test_a_scan_tells_what_is_gone_and_what_came_back(lab: SmallLab) -> None:
    register_rows(lab, row("a", copies=_on("/a", "/b")), row("b", copies=_on("/c")))
    Copy.objects.filter(path="/c").update(state=CopyState.DELETED)

    def say(state: str, *paths: str) -> int:
        body = {"copies": [{"path": path, "state": state} for path in paths]}
        rows = parse_copy_states(msgspec.json.encode(body)).copies
        return record_copy_states(lab=lab.lab, node=lab.node, rows=rows, now=now_us())

    assert say("missing", "/a", "/nowhere", "/c") == 1
    assert say("missing", "/a") == 0
    assert say("corrupt", "/b") == 1
    assert say("present", "/a") == 1
    assert dict(Copy.objects.values_list("path", "state")) == {
        "/a": "present",
        "/b": "corrupt",
        "/c": "deleted",
    }


def test_runs_are_joined_by_content_whichever_comes_first(lab: SmallLab) -> None:
    early, late = create_run(lab), create_run(lab)
    start, data = start_match_key("file", digest("w"), 1), data_match_key("folder", digest("d"), 1)
    part = {"start": {"verified": start, "name": "w"}, "data": {"verified": data, "items": []}}
    put_fingerprint(run=early, payload=fingerprint(**part))
    register_rows(
        lab,
        row("w", kind="checkpoint"),
        row("d", kind="dataset", form="folder", files=3),
        row("other"),
    )
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")
    put_fingerprint(run=late, payload=fingerprint(**part))
    run_until_idle(worker="test")
    found = LineageEdge.objects.values_list("run", "artifact__name", "role", "source")
    assert set(found) == {
        (run.pk, name, role, "fingerprint")
        for run in (early, late)
        for name, role in (("w", "initialised_from"), ("d", "used"))
    }
    assert not Artifact.objects.filter(is_linked=False).exists()


def test_the_number_of_statements_does_not_grow(lab: SmallLab) -> None:
    def statements(count: int, start: int) -> int:
        run = create_run(lab)
        rows = [
            row(f"{i}", copies=_on(f"/{i}"), runs=[edge(run)], aliases={"md5": f"{i:032x}"})
            for i in range(start, start + count)
        ]
        with CaptureQueriesContext(connection) as captured:
            register_rows(lab, *rows)
        return len(captured)

    assert statements(2, 0) == statements(40, 100)


_words = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["other", "model", "dataset"]),
        "format": st.sampled_from(["", "torch"]),
        "copies": st.lists(st.sampled_from(["/a", "/b", "/c"]), max_size=2).map(
            lambda paths: _on(*paths)
        ),
    }
)


def test_in_one_request_or_several_it_comes_to_the_same(lab: SmallLab) -> None:
    @settings(max_examples=examples(30))
    @given(st.lists(st.tuples(st.sampled_from("xyz"), _words), max_size=6), st.integers(1, 5))
    def check(rows: list[tuple[str, dict[str, Any]]], size: int) -> None:
        assert kept(rows, size) == kept(rows, 100)

    def kept(rows: list[tuple[str, dict[str, Any]]], step: int) -> list[Any]:
        with transaction.atomic():
            listed = [row(name, **more) for name, more in rows]
            for start in range(0, len(listed), step):
                register_rows(lab, *listed[start : start + step])
            found = [
                list(
                    Artifact.objects.order_by("digest").values_list(
                        "name", "kind", "format", "state"
                    )
                ),
                list(Copy.objects.order_by("path").values_list("path", "artifact__name")),
            ]
            transaction.set_rollback(True)
        return found

    check()
