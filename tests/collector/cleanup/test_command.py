"""The command as it is typed: which plan, which machine, who, and a server that is away or talks
nonsense.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect import cli
from labcarbon_collect.cleanup import client as plan_server
from labcarbon_collect.cleanup.client import parse_plan_id
from labcarbon_collect.commands import apply_plan
from labcarbon_collect.locks import lock_cleanup

from tests.collector.cleanup.support import AWAY, NODE, PLAN, FakeTransport, World, snapshot

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Type a command; return exit code, output, messages."""
    monkeypatch.setenv("LABCARBON_URL", FakeTransport.url)
    monkeypatch.setenv("LABCARBON_TOKEN", "lc_user_fake")
    monkeypatch.setenv("LABCARBON_DATA", str(world.root / "data"))
    monkeypatch.setenv("LABCARBON_NODE_ID", NODE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.root / "config"))
    monkeypatch.setattr(plan_server, "full_jitter", lambda failures: 0.0)

    def transport(*words: object, **options: object) -> FakeTransport:
        made = world.transport
        made.faults, made.before = world.faults, world.before
        made.close = lambda: None  # type: ignore[attr-defined]
        return made

    monkeypatch.setattr(apply_plan, "Transport", transport)

    def typed(*words: str) -> tuple[int, str, str]:
        code = cli.main(["apply-plan", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


@pytest.fixture
def file(world: World) -> Any:
    path = world.put("step1.pt", b"one")
    world.plan("step1.pt")
    return path


def test_by_its_number_or_its_pages_address(call: Call, world: World, file: Any) -> None:
    assert call(PLAN, "--dry-run")[0] == 0
    code, out, _ = call(f"{FakeTransport.url}/artifacts/plans/{PLAN.upper()}/", "--yes")
    assert (code, file.exists()) == (0, False)
    assert "approved by pi on 2026-11-01" in out
    assert call(PLAN, "--restore", "1", "--yes")[0] == 0
    assert file.read_bytes() == b"one"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"https://elsewhere.example.org/artifacts/plans/{PLAN}/", "belongs to another server"),
        ("https://lab.example.org/artifacts/plans/", "is not a plan: pass its UUID"),
        ("7", "is not a plan"),
        ("../../x", "is not a plan"),
    ],
)
def test_what_is_no_plan_of_this_server(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_plan_id(text, "https://lab.example.org")


def test_help_describes_the_safety_rules(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["apply-plan", "--help"])
    said = capsys.readouterr().out
    assert "after the plan's retention period" in said
    assert "--restore" in said


def test_without_a_terminal_nothing_begins_unasked(call: Call, file: Any) -> None:
    code, _, said = call(PLAN)
    assert (code, file.exists()) == (1, True)
    assert "--yes" in said


@pytest.mark.parametrize(
    ("answer", "goes"), [("y", True), ("YES", True), ("", False), ("no", False)]
)
def test_confirmation_is_required(
    call: Call, file: Any, monkeypatch: pytest.MonkeyPatch, answer: str, goes: bool
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert call(PLAN)[0] == (0 if goes else 1)
    assert file.exists() != goes


def test_a_plan_of_another_machine(
    call: Call, world: World, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCARBON_NODE_ID", PLAN)
    code, _, said = call(PLAN, "--yes")
    assert (code, file.exists()) == (1, True)
    assert "this plan is for gpu1" in said


@pytest.mark.parametrize("state", ["draft", "told", "withdrawn"])
def test_a_plan_that_is_not_approved(call: Call, world: World, state: str) -> None:
    path = world.put("step1.pt")
    world.plan("step1.pt", state=state)
    code, _, said = call(PLAN, "--yes")
    assert (code, path.exists()) == (1, True)
    assert "is not approved" in said


def test_a_machines_own_token_does_not_do(
    call: Call, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LABCARBON_TOKEN")
    assert "labcarbon-collect login URL" in call(PLAN, "--yes")[2]


def test_concurrent_calls_are_refused(call: Call, file: Any) -> None:
    with lock_cleanup(NODE):
        code, _, said = call(PLAN, "--yes")
    assert (code, file.exists()) == (1, True)
    assert "another labcarbon-collect apply-plan is running" in said
    assert call(PLAN, "--yes")[0] == 0


@pytest.mark.parametrize("request_", range(3))
def test_a_server_that_is_away_at_any_request(
    call: Call, world: World, file: Any, request_: int
) -> None:
    """Nothing moves on its word that did not come; what moved is told by the next call."""
    other = world.put("other/a.pt", b"one")  # the same content, so that it is asked in between
    world.plan("step1.pt", "other/a.pt")
    healthy = [None] * request_
    world.faults = [*healthy, *[AWAY] * 5]
    code, _, said = call(PLAN, "--yes")
    assert code == 1
    assert "nothing answers there" in said
    assert other.exists() or file.exists()
    assert ("not reported to the server: 1 item" in said) == (request_ == 1)
    world.faults = []
    assert call(PLAN, "--yes")[0] == 0
    assert world.outcomes() == ["trashed", "trashed"]


def test_a_server_that_is_busy_is_waited_for(call: Call, world: World, file: Any) -> None:
    world.faults = [(503, None, 0), AWAY, (429, None, 0), None, (500, None)]
    code, _, said = call(PLAN, "--yes")
    assert (code, world.outcomes()) == (0, ["trashed"])
    assert said.count("retrying in") == 4


@pytest.mark.parametrize("status", [302, 401, 403, 404])
def test_a_server_that_refuses(call: Call, world: World, file: Any, status: int) -> None:
    world.faults = [(status, {"error": {"message": "no \x1b[31m"}}, None, "https://x")]
    code, _, said = call(PLAN, "--yes")
    assert (code, file.exists()) == (1, True)
    assert "\x1b" not in said


def _lines(*changes: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda plan: {**plan, "lines": [{**plan["lines"][0], **change} for change in changes]}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda plan: None,
        lambda plan: [],
        lambda plan: {},
        lambda plan: "approved",
        lambda plan: {**plan, "lines": None},
        lambda plan: {**plan, "lines": [7]},
        lambda plan: {**plan, "plan": NODE},
        lambda plan: {**plan, "state": "yes"},
        lambda plan: {**plan, "trash_days": 0},
        lambda plan: {**plan, "trash_days": "14"},
        _lines({"goes": 1}),
        _lines({"goes": False}),
        _lines({"stays": "pinned"}),
        _lines({"digest": "../x"}),
        _lines({"digest": None}),
        _lines({"form": "link"}),
        _lines({"bytes": -1}),
        _lines({"bytes": 3.0}),
        _lines({"line": True}),
        _lines({"line": 0}),
        _lines({"path": 7}),
        _lines({}, {}),
        _lines({}, {"line": 2}),
        _lines({"outcome": "gone"}),
    ],
)
def test_answers_that_are_no_plan_move_nothing(
    call: Call, world: World, file: Any, wrong: Callable[[Any], Any]
) -> None:
    world.faults = [(200, wrong(world.transport.read()))]
    before = snapshot(world.disk)
    code, _, said = call(PLAN, "--yes")
    assert (code, snapshot(world.disk)) == (1, before)
    assert "an invalid plan" in said
    assert "Traceback" not in said


def test_an_invalid_response_leaves_outcomes_unreported(
    call: Call, world: World, file: Any
) -> None:
    world.faults = [None, (200, "<html>")]
    code, _, said = call(PLAN, "--yes")
    assert code == 1
    assert "not reported to the server: 1 item" in said
    assert call(PLAN, "--yes")[0] == 0
    assert world.outcomes() == ["trashed"]


def test_outcomes_are_reported_in_several_requests(call: Call, world: World) -> None:
    names = [f"many/{n}.pt" for n in range(1003)]
    for name in names:
        world.put(name)
    world.plan(*names)
    assert call(PLAN, "--yes")[0] == 0
    assert set(world.outcomes()) == {"trashed"}
    assert len(list((world.disk / "many").glob("*-tombstone.json"))) == 1003


def test_server_text_has_no_control_characters_on_the_terminal(
    call: Call, world: World, file: Any
) -> None:
    world.change(1, retention_class="\x1b[2J", path=str(file) + "\x1b[2J")
    _, out, said = call(PLAN, "--yes")
    assert "\x1b" not in out + said


def test_the_journal_is_private_and_records_each_step(call: Call, world: World, file: Any) -> None:
    assert call(PLAN, "--yes")[0] == 0
    (journal,) = (world.root / "data/collector/plans").iterdir()
    assert journal.stat().st_mode & 0o777 == 0o600
    rows = [json.loads(row) for row in journal.read_text().splitlines()]
    assert [row["state"] for row in rows] == ["moving", "trashed"]
    assert rows[0]["path"] == str(file)
    assert len(rows[0]["digest"]) == 64


def test_an_interrupted_call_prints_its_summary(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.pt", "b.pt"):
        world.put(name)
    world.plan("a.pt", "b.pt")
    world.threads = 1
    rename, gone = os.rename, []

    def once(*words: Any, **more: Any) -> None:
        if words[0] == "b.pt":
            raise KeyboardInterrupt
        gone.append(words[0])
        rename(*words, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", once)
        with pytest.raises(KeyboardInterrupt):
            world.carry_out()
    said = capsys.readouterr()
    assert "moved to the trash: 1 item" in said.out
    assert "run the same command" in said.err
    assert "not reported to the server: 1 item" in said.err
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed", "trashed"]


def test_items_inside_a_folder_are_located_without_copying_all_paths(tmp_path: Path) -> None:
    class Counted(list):  # type: ignore[type-arg]
        def __getitem__(self, index: Any) -> Any:
            assert not isinstance(index, slice)
            return super().__getitem__(index)

    world = World(tmp_path)
    for name in ("a/1", "a/2", "a0", "b"):
        world.put(name)
    world.plan("a", "a/1", "a/2", "a0", "b")
    plan = plan_server.CleanupPlan(
        "",
        "",
        "",
        "",
        "",
        1,
        "",
        "",
        [plan_server._parse_item(row) for row in world.transport.read()["lines"]],
    )
    plan._paths = Counted(plan._paths)
    assert [line.number for line in plan.items_inside(str(world.disk / "a"))] == [2, 3]
