"""The MLflow runs of a process: ranks, nested ones, later ones, those below ``run`` and
``track``.
"""

from __future__ import annotations

import os
import socket
import sys

import pytest
from labcarbon_collect.runs import process_facts

from tests.collector.mlflow_scripts import ONE_RUN, PART, RUN, SKIPPED_CHECK, Scripts, questions
from tests.collector.preflight_responses import DUPLICATE
from tests.fakes import labcarbon_server as fakes


@pytest.mark.parametrize(
    "rank", ["RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "NODE_RANK"]
)
def test_other_ranks_send_and_tag_nothing(
    scripts: Scripts, server: fakes.FakeServer, rank: str
) -> None:
    done = scripts.run(environ={rank: "1"})
    assert (done.code, done.created, done.messages, server.requests) == (0, [{}], "", [])
    scripts.run(environ={rank: "0"})
    assert len(questions(server)) == 1


def test_nested_runs_are_parts_and_quiet(scripts: Scripts, server: fakes.FakeServer) -> None:
    server.preflight = DUPLICATE
    done = scripts.run(
        f"with mlflow.start_run():\n    {ONE_RUN.replace(chr(10), chr(10) + '    ')}"
    )
    outer, inner = done.created
    assert {name: text for name, text in inner.items() if name.startswith("labcarbon")} == {
        PART: outer[RUN]
    }
    assert len(questions(server)) == len(server.runs) == 1
    assert done.messages.count("Ben did exactly this") == 1


def test_a_run_whose_parent_is_named_is_quiet(scripts: Scripts, server: fakes.FakeServer) -> None:
    done = scripts.run("mlflow.start_run(parent_run_id='abc')")
    assert done.created == [{"mlflow.parentRunId": "abc"}]
    assert server.requests == []


def test_later_runs_of_a_process_are_reported_without_a_duplicate_check(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    """The command line does not describe them. Otherwise three runs of a loop would be duplicates
    of each other.
    """
    server.preflight = DUPLICATE
    done = scripts.run("for number in range(3):\n    with mlflow.start_run():\n        pass")
    runs = [tags[RUN] for tags in done.created]
    assert len(set(runs)) == 3
    assert [tags["labcarbon.verdict_at_start"] for tags in done.created] == [
        "duplicate",
        "not_asked",
        "not_asked",
    ]
    assert len(questions(server)) == 1
    first, second, third = (server.runs[run] for run in runs)
    assert first["fingerprint"]["params"]
    for later in (second, third):
        assert not {"params", "seeds", "told"} & later["fingerprint"].keys()
        assert later["fingerprint"]["code"]["hash"] == first["fingerprint"]["code"]["hash"]
        assert later["params"] == {}
    assert [each["state"] for each in (first, second, third)] == ["finished"] * 3
    assert "params=unknown" in done.created[1]["labcarbon.fingerprint"]


def test_runs_of_further_threads_are_parts(scripts: Scripts, server: fakes.FakeServer) -> None:
    body = (
        "import threading\nwith mlflow.start_run():\n    thread = "
        "threading.Thread(target=mlflow.start_run)\n"
        "    thread.start(); thread.join()"
    )
    outer, beside = scripts.run(body).created
    assert beside == {PART: outer[RUN]}
    assert len(server.runs) == 1


def test_below_run_the_wrapped_run_is_used(scripts: Scripts, server: fakes.FakeServer) -> None:
    before = (sys.executable, "-m", "labcarbon_collect", "run", "--name", "outer", "--")
    done = scripts.run(f"{ONE_RUN}\n{ONE_RUN}", before=before)
    ((run, facts),) = server.runs.items()
    assert [tags.get(RUN) or tags.get(PART) for tags in done.created] == [run, run]
    assert RUN in done.created[0]
    assert PART in done.created[1]
    assert facts["name"] == "outer"
    assert len(questions(server)) == 1


def test_a_further_rank_below_run_is_a_part_of_it(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    before = (sys.executable, "-m", "labcarbon_collect", "run", "--")
    done = scripts.run(before=before, environ={"RANK": "1"})
    assert done.created == [{PART: next(iter(server.runs))}]


def test_the_ranks_of_a_machine_descend_from_torchruns_agent() -> None:
    assert process_facts.root_pid({}) == os.getpid()
    assert process_facts.root_pid({"TORCHELASTIC_RUN_ID": "none"}) == os.getppid()


def test_interactive_sessions_get_no_duplicate_check(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    """The code of a notebook is unknown, and its cells run repeatedly."""
    prompt = "import sys\nsys.ps1 = '>>> '\nmlflow.start_run()\nmlflow.end_run()"
    uuid = "55555555-5555-4555-8555-555555555555"
    loaded = (
        f"from labcarbon_collect.runs import active_runs\nactive_runs.activate('{uuid}', "
        "active_runs.NOTEBOOK)\nmlflow.start_run()"
    )
    done = scripts.run(f"{prompt}\n{loaded}")
    assert (done.created, done.messages, server.requests) == ([{}, {PART: uuid}], "", [])


def test_warnings_of_the_server_are_printed_a_single_time(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    three = "for number in range(3):\n    with mlflow.start_run():\n        pass"
    done = scripts.run(three, environ={"LABCARBON_PROJECT": "nowhere"})
    assert done.ours == ["labcarbon: There is no project 'nowhere'."]
    away = scripts.run(three, environ={"LABCARBON_URL": "http://127.0.0.1:9"})
    assert [SKIPPED_CHECK in line for line in away.ours] == [True, False]
    assert "The server does not know 3 of this process's 3 runs" in away.ours[1]


def test_with_track_around_or_within_it_is_one_run(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    around = scripts.run(
        "import labcarbon_collect\nwith labcarbon_collect.track():\n    mlflow.start_run()"
    )
    ((run, _),) = server.runs.items()
    assert around.created == [{RUN: run, "labcarbon.host": socket.gethostname()}]
    server.runs.clear()
    within = scripts.run(
        "import labcarbon_collect\nwith mlflow.start_run():\n    with labcarbon_collect.track() "
        "as run:\n"
        "        run.log(1, loss=0.5)"
    )
    assert list(server.runs) == [within.created[0][RUN]]
    (metrics,) = server.sent("POST", "/metrics/")
    assert within.created[0][RUN] in metrics.path


def test_mlflow_objects_without_a_run_send_nothing(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    done = scripts.run("from mlflow.tracing import trace\ntrace()")
    assert (done.output, server.requests) == ("TRACED {}", [])


def test_a_logger_that_is_not_mlflows_begins_a_run(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    done = scripts.run("import a_logger\na_logger.begin()")
    assert done.created[0][RUN] in server.runs


def test_forks_and_workers_are_parts_and_end_nothing(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    body = (
        "import os, sys, multiprocessing\nif __name__ == '__main__':\n"
        "    mlflow.start_run()\n    mlflow.end_run()\n"
        "    if os.fork() == 0:\n        mlflow.start_run()\n        sys.exit(0)\n    os.wait()\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=mlflow.start_run)\n"
        "    worker.start(); worker.join()"
    )
    done = scripts.run(body)
    own, fork, worker = done.created
    assert (fork, worker) == ({PART: own[RUN]}, {})
    assert list(server.runs) == [own[RUN]]
    assert len(server.sent("PATCH", "runs/")) == 1
