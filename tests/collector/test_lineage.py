"""``run.used`` and ``run.produced``, and ``run --used --produced``: read beside the work, told
once, never in its way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from labcarbon_collect.api.transport import Transport
from labcarbon_collect.lineage.messages import declaration, forwardable_rows, title
from labcarbon_collect.lineage.reporters import ServerReporter

from apps.accounts.services.labs import issue_user_token
from apps.artifacts.models import Artifact, LineageEdge
from apps.core.clock import now_us
from apps.runs.models import Run
from tests.builders import small_lab
from tests.collector.cleanup.support import read_digest
from tests.collector.collector_process import DEFAULT_TIMEOUT, Collector, wait_for
from tests.collector.scan.support import safetensors, torch
from tests.collector.test_sent_data import VARYING, documented, keys
from tests.collector.test_tracking import track
from tests.fakes import labcarbon_server as fakes
from tests.serialized_server import serialize_requests


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def work(person: Collector) -> Path:
    folder = person.root / "work"
    folder.mkdir()
    return folder


def told(server: fakes.FakeServer) -> set[tuple[str, str]]:
    """(role, name) of what the server knows of the only run."""
    (run,) = server.runs
    assert {edge[0] for edge in server.edges} <= {run}
    return {(role, server.artifacts[digest]["name"]) for _, role, digest in server.edges}


def test_inputs_and_outputs_of_a_script_are_registered(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    (work / "cats").mkdir()
    (work / "cats" / "a.jpg").write_bytes(b"cat")
    (work / "base.safetensors").write_bytes(safetensors())
    (work / "ckpt.bytes").write_bytes(torch())
    body = (
        "import os, pathlib\n"
        "run.used('cats', name='all cats', kind='dataset')\n"
        "run.initialised_from(pathlib.Path('base.safetensors'))\n"
        "run.distilled_from('base.safetensors')\nos.rename('ckpt.bytes', 'epoch=3.ckpt')\n"
        "run.produced('epoch=3.ckpt', epoch=3, best=True, val_acc=0.5, api_token='x', "
        "licence='MIT')\n"
        "os.mkdir('final')\nopen('final/w.bin', 'wb').write(b'w')\nrun.produced('final')\n"
        "print('done')"
    )
    done = track(person, body)
    assert (done.returncode, done.stdout, done.stderr.count("not recorded")) == (0, "done\n", 0), (
        done.stderr
    )
    assert told(server) == {
        ("used", "all cats"),
        ("initialised_from", "base.safetensors"),
        ("distilled_from", "base.safetensors"),
        ("produced", "epoch=3.ckpt"),
        ("produced", "final"),
    }
    rows = {row["name"]: row for row in server.artifacts.values()}
    for name, path in (("all cats", "cats"), ("epoch=3.ckpt", "epoch=3.ckpt"), ("final", "final")):
        form, expected, size, files = read_digest(work / path)
        row = rows[name]
        assert (row["form"], row["digest"], row["bytes"], row["files"]) == (
            form,
            expected,
            size,
            files,
        )
        assert row["copies"][0]["path"] == str(work / path)
    checkpoint = rows["epoch=3.ckpt"]
    assert (checkpoint["kind"], checkpoint["format"], checkpoint["licence"]) == (
        "checkpoint",
        "lightning",
        "MIT",
    )
    assert checkpoint["facts"] == {"epoch": 3, "best": True, "val_acc": 0.5}
    assert rows["all cats"]["kind"] == "dataset"
    assert rows["base.safetensors"]["payload"] == digest(safetensors()[-32:])
    assert {place[0] for place in server.copies} == {person.node_id}
    assert len(server.sent("POST", "artifacts/")) == 1


def test_an_artifact_by_its_digest(person: Collector, server: fakes.FakeServer) -> None:
    one = digest(b"known")
    server.artifacts[one] = {
        "digest": one,
        "name": "base.pt",
        "bytes": 5,
        "form": "file",
        "files": 1,
    }
    done = track(person, f"run.used('{one}')\nrun.initialised_from('{'0' * 64}')")
    assert told(server) == {("used", "base.pt")}
    assert "000000000000: the server has no artifact with this digest" in done.stderr


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            (
                "open('a.pt', 'wb').write(b'1')\nrun.produced('a.pt', step=1)\nopen('a.pt', "
                "'wb').write(b'22')"
            ),
            "it changed",
        ),
        (
            "open('a.pt', 'wb').write(b'1')\nrun.produced('a.pt')\nimport os; os.unlink('a.pt')",
            "a.pt: it does not exist",
        ),
        ("run.used('nowhere')", "nowhere: it does not exist"),
        ("import os; os.mkdir('e'); run.produced('e')", "e: the folder has no files to hash"),
        ("import os; os.mkfifo('f'); run.used('f')", "f: it is neither a file nor a folder"),
        ("run.used('/dev/zero')", "zero: it is neither a file nor a folder"),
        ("import os; os.symlink('l', 'l'); run.used('l')", "l: it cannot be read"),
        (
            "open('a.safetensors', 'wb').write(b'x' * 20); run.produced('a.safetensors')",
            "a.safetensors: ",
        ),
        (
            "open(b'\\xff.pt', 'wb').write(b'1'); run.produced('\\udcff.pt')",
            "its path is not UTF-8",
        ),
        ("run.used(7)", "7 not recorded: expected str, bytes or os.PathLike object, not int"),
        ("run.used('')", "'' not recorded: it is neither a path nor a digest"),
        ("run.used('a\\0b')", "a path cannot contain NUL"),
        ("run.used('x', kind='magic')", "'magic' is not a kind"),
    ],
)
def test_an_invalid_declaration_prints_one_line(
    person: Collector, server: fakes.FakeServer, work: Path, body: str, words: str
) -> None:
    done = track(person, f"{body}\nprint('done')")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert words in done.stderr
    assert len(re.findall("labcarbon: .*not recorded", done.stderr)) == 1
    assert server.artifacts == {}


def test_outputs_of_a_killed_script_are_registered(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    body = (
        "import os, time\nopen('a.pt', 'wb').write(b'1')\nrun.produced('a.pt')\nopen('pid', "
        "'w').write(str(os.getpid()))\n"
        "time.sleep(30)"
    )
    script = threading.Thread(target=track, args=(person, body))
    script.start()
    wait_for(lambda: server.sent("PUT", "runs/") and (work / "pid").exists())
    os.kill(int((work / "pid").read_text()), signal.SIGKILL)
    script.join()
    wait_for(lambda: server.edges)
    assert told(server) == {("produced", "a.pt")}


def test_a_server_that_hangs_delays_no_call_and_the_end_by_seconds(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    server.faults = [fakes.trickle_response] * 50
    body = (
        "import time\nfor name in ('a.pt', 'b.pt', 'c.pt'):\n    open(name, 'wb').truncate(1 << "
        "28)\n"
        "    begun = time.monotonic()\n    run.produced(name)\n    print(time.monotonic() - begun)"
    )
    begun = time.monotonic()
    done = track(person, body, **DEFAULT_TIMEOUT)
    took_s = [float(line) for line in done.stdout.split()]
    assert max(took_s) < 8, "ten seconds if it waited for the server"
    assert min(took_s) < 1, (
        "more, each time, if it read the file at the pace of who reads beside the work"
    )
    assert time.monotonic() - begun < 25
    assert "3 artifacts of this run: still being processed" in done.stderr
    server.faults.clear()


@contextmanager
def teller(server: fakes.FakeServer, node: str = "") -> Iterator[ServerReporter]:
    transport = Transport(server.url, "t")
    made = ServerReporter(transport, "r", node)
    edge = {"run": "r", "role": "used"}
    made.add(
        {
            "digest": digest(b"1"),
            "name": "a.pt",
            "bytes": 1,
            "copies": [{"path": "/a.pt"}],
            "runs": [edge],
        }
    )
    yield made
    transport.close()


def test_artifacts_wait_for_their_run(server: fakes.FakeServer) -> None:
    with teller(server) as made:
        assert (made.send(5), made.pending_count, made.error) == (
            False,
            1,
            "the server does not have this run",
        )
        server.runs["r"] = {}
        assert (made.send(5), made.pending_count, made.sent_count) == (True, 0, 1)
    assert server.edges == {("r", "used", digest(b"1"))}


def test_a_node_that_the_lab_does_not_know_costs_only_the_places(server: fakes.FakeServer) -> None:
    server.runs["r"], server.nodes = {}, ()
    with teller(server, "node-1") as made:
        assert made.send(5)
    assert (made.sent_count, made.failed) == (1, [])
    assert "There is no such node in this lab." in made.notes[0]
    assert "copies" not in server.artifacts[digest(b"1")]


def test_a_server_that_is_away_is_given_up_in_time(server: fakes.FakeServer) -> None:
    server.faults = [fakes.error_response(503)] * 20
    begun = time.monotonic()
    with teller(server) as made:
        assert not made.send(0.0)
    assert time.monotonic() - begun < 10
    assert len(server.requests) == 1
    made.give_up()
    assert made.failed == [("a.pt", f"{server.url} does not respond")]


def test_no_process_of_ours_is_waited_for_in_its_place(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    body = (
        "import os, time\nopen('a.pt', 'wb').write(b'1')\nrun.produced('a.pt')\ntime.sleep(3)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    run.produced('nothing-of-a-fork')\n    os._exit(0)\nassert "
        "os.wait()[0] == pid\n"
        "try:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    )
    done = track(person, body)
    assert done.stdout == "none\n", done.stderr
    assert told(server) == {("produced", "a.pt")}


def test_other_ranks_and_processes_register_nothing(
    person: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    body = "open('a.pt', 'wb').write(b'1')\nrun.produced('a.pt')\nrun.used('a.pt')\nprint('done')"
    assert track(person, body, RANK="3").stdout == "done\n"
    assert server.requests == []
    (tmp_path / "alone").mkdir()
    done = track(Collector(tmp_path / "alone"), body)
    assert (done.stdout, done.stderr.count("you are not logged in, and no daemon answers")) == (
        "done\n",
        1,
    )


def test_without_a_login_the_daemon_forwards_artifacts_without_paths(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    person.enrol(server.url)
    person.start()
    try:
        stranger = Collector(
            person.root, {"XDG_CONFIG_HOME": str(person.root / "nobody")}, node_id=person.node_id
        )
        body = (
            "open('a.pt', 'wb').write(b'1')\nrun.produced('a.pt', step=3)\n"
            f"run.used('{'0' * 64}')\nrun.used('a.pt')"
        )
        done = track(stranger, body)
        assert done.returncode == 0
        assert "000000000000: a digest needs a personal login" in done.stderr
        wait_for(lambda: len(server.edges) == 2)
        assert told(server) == {("produced", "a.pt"), ("used", "a.pt")}
        assert (
            server.copies,
            {request.token for request in server.sent("POST", "artifacts/")},
        ) == ({}, {"lc_node_fake"})
        rows = [
            row
            for request in server.sent("POST", "artifacts/")
            for row in request.body["artifacts"]
        ]
        assert [row.get("facts") for row in rows] == [{"step": 3}, None]
        done = run_(stranger, work, "--output", "b.pt", script="echo 1 > b.pt; exit 4")
        assert done.returncode == 4
        wait_for(lambda: len(server.edges) == 3)
    finally:
        person.stop()


@pytest.mark.parametrize("artifacts", [7, {}, [7], [{}] * 101])
def test_a_daemon_refuses_what_are_no_artifacts(artifacts: Any) -> None:
    with pytest.raises(ValueError, match="artifact"):
        forwardable_rows(artifacts, "r")


def test_a_daemon_forwards_of_ones_own_run_alone_and_no_place() -> None:
    row = {
        "digest": "d",
        "copies": [{"path": "/x"}],
        "project": "p",
        "user": "u",
        "tags": {},
        "name": "n",
        "runs": [{"run": "other", "role": "used"}, {"run": "r", "role": "magic"}, {"role": []}, 7],
    }
    assert forwardable_rows([row, {"runs": 7}], "r") == [
        {"digest": "d", "name": "n", "runs": [{"run": "r", "role": "used"}]},
        {"runs": []},
    ]


def run_(
    person: Collector, work: Path, *options: str, script: str
) -> subprocess.CompletedProcess[str]:
    return person.call("run", "--name", "r", *options, "--", "sh", "-c", script, cwd=work)


def test_the_command_names_what_it_reads_and_writes(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    (work / "cats.tar").write_bytes(b"cats")
    (work / "old.pt").write_bytes(b"old")
    os.utime(work / "cats.tar", (1, 1))
    time.sleep(2.1)
    options = (
        "--input",
        "cats.tar",
        "--input",
        "written.txt",
        "--output",
        "best.pt",
        "--output",
        "out",
        "--output",
        "old.pt",
    )
    done = run_(
        person,
        work,
        *options,
        script="echo 1 > best.pt; mkdir out; echo 2 > out/a; echo 3 > written.txt; exit 7",
    )
    assert done.returncode == 7
    assert told(server) == {("used", "cats.tar"), ("produced", "best.pt"), ("produced", "out")}
    assert "written.txt: it changed during the run" in done.stderr
    assert "(and 1 more)" in done.stderr


def test_without_a_login_the_command_ends_as_it_ends(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    alone = Collector(tmp_path)
    done = run_(alone, tmp_path / "work", "--output", "x", script="exit 5")
    assert done.returncode == 5
    assert "were not registered: " in done.stderr
    assert "you are not logged in" in done.stderr


def test_a_signal_ends_the_waiting_and_not_the_exit_code(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    script = "echo 1 > best.pt; touch begun; while [ ! -e go ]; do sleep 0.05; done; exit 9"
    process = person.popen(
        "run",
        "--name",
        "r",
        "--output",
        "best.pt",
        "--",
        "sh",
        "-c",
        script,
        cwd=work,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: (work / "begun").exists() and server.sent("PUT", "runs/"))
    register, asked, over = server.register, [], threading.Event()

    def hangs(body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body)
        over.wait(30)
        if len(asked) == 1:
            raise ConnectionError
        return register(body)

    server.register = hangs  # type: ignore[method-assign]
    (work / "go").touch()
    wait_for(lambda: asked)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 9
    assert time.monotonic() - begun < 10
    over.set()
    assert process.stderr is not None
    with process.stderr:
        assert "still being processed" in process.stderr.read()
    wait_for(lambda: server.edges, seconds=60)  # it goes on without us, and asks again


def test_what_leaves_is_what_the_page_lists(
    person: Collector, server: fakes.FakeServer, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VARYING, "artifacts[].facts", "<name>")
    (work / "a.safetensors").write_bytes(safetensors(license="mit"))
    track(person, "run.used('a.safetensors', loss=0.5)")
    sent = {key for request in server.sent("POST", "artifacts/") for key in keys(request.body)}
    extra = documented("### `POST artifacts/` of a run")
    assert extra <= sent
    assert sent <= documented("### `POST artifacts/`") | extra


def test_what_is_declared_is_plain() -> None:
    assert declaration("used", "0" * 64) == {"role": "used", "name": "", "digest": "0" * 64}
    found = declaration(
        "produced",
        "a/b.pt",
        name="n\nx\x1b[2J",
        facts={"a": float("nan"), "b": "x" * 400, "token": "t", "c": [1]},
    )
    assert found["path"] == str(Path.cwd() / "a/b.pt")
    assert "\n" not in found["name"]
    assert "\x1b" not in found["name"]
    assert set(found["facts"]) == {"b"}
    assert json.loads(json.dumps(found)) == found
    assert [title(each) for each in (found, {"path": "/"}, {"digest": "ab" * 32})] == [
        found["name"],
        "/",
        "ab" * 6,
    ]


def test_the_package_holds_all_its_folders() -> None:
    root = Path(__file__).resolve().parents[2] / "collector"
    told_ = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        ".".join(path.parent.relative_to(root).parts)
        for path in (root / "labcarbon_collect").rglob("*.*")
        if path.suffix in (".py", ".csv")
    }
    assert set(told_) == there


@pytest.mark.django_db(transaction=True)
def test_the_real_server_is_told(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize_requests(monkeypatch)
    lab = small_lab()
    Client().get("/api/v1/preflight/")  # the first request of a process reads its code
    token = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )
    work = tmp_path / "work"
    work.mkdir()
    (work / "cats.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes(20))
    (work / "made").write_bytes(safetensors(7))
    body = (
        "import os\nrun.used('cats.npy')\nos.rename('made', 'best.safetensors')\n"
        "run.produced('best.safetensors', step=9)"
    )
    done = track(machine, body)
    assert done.returncode == 0, done.stderr
    run = Run.objects.get()
    rows = LineageEdge.objects.values_list("run", "artifact__name", "role", "source")
    assert set(rows) == {
        (run.pk, "cats.npy", "used", "told"),
        (run.pk, "best.safetensors", "produced", "told"),
    }
    best = Artifact.objects.get(name="best.safetensors")
    assert (best.format, best.facts["step"], best.project == run.charged_project) == (
        "safetensors",
        9,
        True,
    )
    copy = best.copies.get()
    assert (copy.path, copy.node) == (str(work / "best.safetensors"), lab.node)
    time.sleep(2.1)
    assert (
        "0 created, 2 changed, 0 unchanged" in machine.call("scan", str(work)).stdout
    )  # whose they are
    again = track(machine, f"run.initialised_from('{best.digest}')")
    assert again.returncode == 0, again.stderr
    assert best.run_edges.filter(role="initialised_from").exists()
    assert "not recorded" not in again.stderr


def test_it_is_a_process_of_lowest_priority_and_ends(
    person: Collector, server: fakes.FakeServer, work: Path
) -> None:
    body = (
        "import os, time\nopen('a.pt', 'wb').write(b'1')\nrun.produced('a.pt')\n"
        "while not os.path.exists('stop'): time.sleep(0.05)"
    )
    done = threading.Thread(target=track, args=(person, body))
    done.start()
    try:
        (pid,) = wait_for(lambda: ours(work))
        wait_for(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 19)
    finally:
        (work / "stop").touch()
        done.join()
    wait_for(lambda: server.edges)
    assert told(server) == {("produced", "a.pt")}
    wait_for(lambda: not ours(work))


def ours(work: Path) -> list[int]:
    """The processes that read what is declared in a folder; the shell that starts one has its
    words, but is none.
    """
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program, *words = (each / "cmdline").read_bytes().split(b"\0")
            if (
                program != b"sh"
                and b"labcarbon_collect.lineage.worker" in words
                and (each / "cwd").readlink() == work
            ):
                found.append(int(each.name))
    return found
