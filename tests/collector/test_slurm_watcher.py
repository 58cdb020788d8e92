"""The watcher of a node's jobs: queried in rounds, posted a single time, ended as Slurm reports,
equal after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.pseudonyms import UserNames
from labcarbon_collect.slurm.commands import Slurm, SlurmUnavailable
from labcarbon_collect.slurm.jobs import job_uuid
from labcarbon_collect.slurm.parsers import SACCT
from labcarbon_collect.slurm.watcher import FORGET_US, ROUND_US, JobWatcher
from labcarbon_collect.spool.store import Spool

T0 = 1_793_606_400_000_000
SECOND = 1_000_000
FIXTURES = Path(__file__).parent / "fixtures" / "slurm"


@dataclass
class FakePrograms:
    """squeue, scontrol and sacct with the output for given jobs."""

    jobs: dict[str, dict[str, str]] = field(default_factory=dict)
    query_sacct: dict[str, dict[str, str]] = field(default_factory=dict)
    away: str = ""
    asked: list[str] = field(default_factory=list)

    def __call__(self, command: Sequence[str]) -> str:
        self.asked.append(command[0])
        if self.away:
            raise SlurmUnavailable(self.away)
        return str(getattr(self, command[0])(list(command)))

    def squeue(self, command: list[str]) -> str:
        ids = [each for each in command[4].partition("=")[2].split(",") if each in self.jobs]
        if not ids:
            raise SlurmUnavailable("squeue: slurm_load_jobs error: Invalid job id specified")
        if "-O" in command:
            return "".join(
                f"{i:24}{self.jobs[i].get('status', '0'):24}{self.jobs[i].get('tres', 'cpu=1')}\n"
                for i in ids
            )
        return "".join(self._record(command[-1], i) + "\n" for i in ids)

    def _record(self, form: str, job_id: str) -> str:
        job = {
            "%A": job_id,
            "%F": job_id,
            "%K": "N/A",
            "%u": "ada",
            "%a": "vision",
            "%P": "gpu",
            "%T": "RUNNING",
            "%V": "1793606340",
            "%S": "1793606400",
            "%e": "1793606500",
            "%N": "gpu1",
            "%j": "sweep",
            **self.jobs[job_id],
        }
        for letter in ("%A", "%F", "%K", "%u", "%a", "%P", "%T", "%V", "%S", "%e", "%N", "%j"):
            form = form.replace(letter, job[letter])
        return form

    def scontrol(self, command: list[str]) -> str:
        return (FIXTURES / "scontrol_two_nodes.txt").read_text()

    def sacct(self, command: list[str]) -> str:
        mark = next(word.partition("=")[2] for word in command if word.startswith("--delimiter"))
        base = {
            "Cluster": "hpc",
            "User": "ada",
            "Account": "vision",
            "State": "COMPLETED",
            "ExitCode": "0:0",
            "Start": "1793606400",
            "End": "1793606500",
            "JobName": "old",
        }
        rows = [
            [{**base, "JobIDRaw": i, **self.query_sacct[i]}.get(name, "") for name in SACCT]
            for i in self.query_sacct
        ]
        return "\n".join([mark.join(SACCT), *(mark.join(row) for row in rows)]) + "\n"


@dataclass
class Bench:
    """A watcher, its programs, and the clock."""

    home: Path
    programs: FakePrograms = field(default_factory=FakePrograms)
    gpus: dict[int, str] = field(default_factory=lambda: {i: f"GPU-{i}" for i in range(8)})
    now_us: int = T0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Create the watcher, as after a start of the daemon."""
        self.spool = Spool(self.home)
        slurm = Slurm("hpc", run_command=self.programs)
        self.watch = JobWatcher(
            self.spool, slurm, node="n-1", node_name="gpu1", gpu_uuids=lambda: self.gpus
        )

    def update(
        self, *job_ids: str, after_us: int = 5 * SECOND
    ) -> list[tuple[str, str, dict[str, Any]]]:
        """Update, wait for the round, update again. Return the new messages in the outbox: (verb,
        run, body).
        """
        for wait_us in (after_us, 0):
            self.now_us += wait_us
            self.watch.update([f"job:hpc/{job_id}" for job_id in job_ids], self.now_us)
            self.watch.wait(10)
        messages = self.spool.runs.pending_messages(0)
        for message, *_ in messages:
            self.spool.runs.remove_message(message)
        return [(verb, run, body) for _, run, verb, body in messages]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.spool.close()


Messages = list[tuple[str, str, dict[str, Any]]]


def until(
    bench: Bench, *job_ids: str, is_posted: Callable[[Messages], bool], rounds: int = 40
) -> Messages:
    """Update every five seconds until something is posted."""
    for _ in range(rounds):
        found = bench.update(*job_ids)
        if is_posted(found):
            return found
    raise AssertionError(
        f"nothing posted in {rounds} rounds; {bench.watch.jobs} {bench.watch.error}"
    )


def test_a_job_is_posted_a_single_time_with_its_gpus_by_uuid(bench: Bench) -> None:
    bench.programs.jobs["981"] = {"tres": "cpu=8,gres/gpu=6", "%N": "gpu[1-2]"}
    told = until(bench, "981", is_posted=bool)
    assert [verb for verb, _, _ in told] == ["PUT", "PATCH"]
    _, run, body = told[0]
    assert run == job_uuid("hpc", "981")
    assert (body["user"], body["node"], body["name"]) == ("ada", "n-1", "sweep")
    assert body["started_at"] == "2026-11-02T08:00:00.000000Z"
    assert body["job"]["gpus"] == {"gpu1": ["GPU-0", "GPU-1", "GPU-2", "GPU-5"]}, (
        "the other node names its own"
    )
    assert told[1][2]["state"] == "running"
    calls = len(bench.programs.asked)
    for _ in range(20):
        assert bench.update("981") == []
    assert len(bench.programs.asked) == calls, "a job that is told is not asked for again"


def test_gpus_that_are_not_all_known_are_not_named(bench: Bench) -> None:
    bench.gpus = {0: "GPU-0"}
    bench.programs.jobs["981"] = {"tres": "gres/gpu=4"}
    told = until(bench, "981", is_posted=bool)
    assert "gpus" not in told[0][2]["job"]


def test_the_end_of_a_job_is_posted_when_its_processes_vanish(bench: Bench) -> None:
    bench.programs.jobs["5"] = {}
    until(bench, "5", is_posted=bool)
    bench.programs.jobs["5"] = {"%T": "FAILED", "status": "768"}
    ((verb, run, body),) = until(bench, is_posted=bool)
    assert (verb, run) == ("PATCH", job_uuid("hpc", "5"))
    assert body == {
        "state": "failed",
        "exit_code": 3,
        "ended_at": "2026-11-02T08:01:40.000000Z",
        "job": {"state": "FAILED", "exit": "3:0"},
    }
    assert bench.watch.jobs == {}


def test_a_job_that_continues_on_another_node_is_not_ended(bench: Bench) -> None:
    bench.programs.jobs["5"] = {}
    until(bench, "5", is_posted=bool)
    for _ in range(30):
        assert bench.update() == []
    assert "5" in bench.watch.jobs


def test_a_job_purged_from_slurmctld_is_read_from_accounting(bench: Bench) -> None:
    bench.programs.query_sacct["5"] = {"State": "TIMEOUT", "ExitCode": "0:15"}
    bench.update("5")
    told = until(bench, is_posted=bool)
    assert [(verb, body.get("state")) for verb, _, body in told] == [
        ("PUT", None),
        ("PATCH", "killed"),
    ]
    assert told[1][2]["job"] == {"state": "TIMEOUT", "exit": "0:15"}


def test_a_restart_forgets_no_job(bench: Bench) -> None:
    bench.programs.jobs["5"] = {}
    until(bench, "5", is_posted=bool)
    bench.spool.close()
    bench.programs.jobs["5"] = {"%T": "COMPLETED"}
    bench.start()
    ((verb, _, body),) = until(bench, is_posted=bool)
    assert (verb, body["state"]) == ("PATCH", "finished")


def test_a_requeued_job_is_posted_again(bench: Bench) -> None:
    bench.programs.jobs["5"] = {}
    until(bench, "5", is_posted=bool)
    bench.programs.jobs["5"] = {"%T": "PREEMPTED"}
    assert until(bench, is_posted=bool)[0][2]["state"] == "killed"
    bench.programs.jobs["5"] = {"%S": "1793607000"}
    assert [(verb, body.get("state")) for verb, _, body in until(bench, "5", is_posted=bool)] == [
        ("PUT", None),
        ("PATCH", "running"),
    ]


def test_an_unavailable_slurm_is_queried_less_often_and_reported(bench: Bench) -> None:
    bench.programs.away = "squeue did not respond within 5 s"
    for _ in range(12 * 60):  # an hour, with an update every five seconds
        assert bench.update("5") == []
    assert 3 <= len(bench.programs.asked) <= 30
    assert bench.watch.error == "squeue did not respond within 5 s"
    bench.programs.away, bench.programs.jobs["5"] = "", {}
    assert until(bench, "5", is_posted=bool, rounds=200)
    assert bench.watch.error == ""


def test_many_jobs_cost_few_calls(bench: Bench) -> None:
    ids = [str(number) for number in range(1, 201)]
    for job_id in ids:
        bench.programs.jobs[job_id] = {"tres": "gres/gpu=1"}
    runs = set()
    for _ in range(12):  # a minute
        runs |= {run for _, run, _ in bench.update(*ids)}
    assert len(runs) > 90
    assert len(bench.programs.asked) <= 5 * (60 * SECOND // ROUND_US + 1)


def test_a_job_whose_end_stays_unknown_is_dropped_after_a_week(bench: Bench) -> None:
    bench.programs.jobs["5"] = {}
    until(bench, "5", is_posted=bool)
    del bench.programs.jobs["5"]
    bench.update()
    bench.update(after_us=FORGET_US + SECOND)
    assert bench.watch.jobs == {}


def test_jobs_of_another_cluster_are_not_ours_to_ask_for(bench: Bench) -> None:
    bench.watch.update(["job:other/7", "run:x"], bench.now_us)
    bench.watch.wait(1)
    assert bench.programs.asked == []


def test_names_are_pseudonymised_as_configured() -> None:
    """A job's user, name and account are pseudonymised or dropped. Slurm's counts are unchanged."""
    body = {
        "name": "ada-train",
        "user": "ada",
        "job": {"cluster": "hpc", "account": "vision", "id": "7"},
    }
    hashed = UserNames("hash", b"k" * 32).mask_job(body, "ada")
    assert re.fullmatch(r"u-[0-9a-f]{12}", hashed["user"])
    assert hashed["name"] == f"{hashed['user']}-train"
    assert hashed["job"] == body["job"]
    assert UserNames("drop").mask_job(body, "ada")["user"] == "-"
    assert UserNames().mask_job(body, "ada") == body
    assert set(hashed) == set(body)
