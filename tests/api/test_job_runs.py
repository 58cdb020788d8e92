"""Runs that are jobs of a scheduler: PUT and PATCH by the nodes a job works on, and by nobody
else.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.fleet.services import register_node
from apps.ingest.window_rules import job_run
from apps.runs.models import Run
from tests.api.conftest import Caller, Labs
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]
RUN = str(job_run("hpc/981"))
JOB: dict[str, Any] = {
    "scheduler": "slurm", "cluster": "hpc", "id": "981", "account": "vision,nlp",
    "partition": "gpu", "nodes": "gpu[1-2]", "array_job_id": "980", "array_task": "1",
    "state": "RUNNING", "reserved_gpus": 4, "gpus": {"gpu1": ["GPU-a", "GPU-b"]},
    "submitted_at": "2026-11-02T07:59:00.000000Z",
}  # fmt: skip
FACTS: dict[str, Any] = {
    "name": "sweep",
    "started_at": "2026-11-02T08:00:00Z",
    "user": "ada",
    "job": JOB,
}


@pytest.fixture
def second(labs: Labs) -> Caller:
    """The token of our lab's second node."""
    node = register_node(
        lab=labs.ours.lab, uuid=uuid.uuid4(), hostname="gpu2", facts={}, site=labs.ours.site, now=T0
    )
    return Caller(issue_node_token(lab=labs.ours.lab, node_uuid=node.uuid, now=now_us()))


def changed(**job: Any) -> dict[str, Any]:
    return {**FACTS, "job": {**JOB, **job}}


def test_a_job_is_a_run_of_its_account(labs: Labs) -> None:
    told = labs.node("PUT", f"runs/{RUN}/", FACTS)
    assert told.status_code == 200, told.content
    run = Run.objects.get()
    assert (run.scheduler, run.cluster, run.job_id, run.account, run.partition) == (
        "slurm",
        "hpc",
        "981",
        "vision,nlp",
        "gpu",
    )
    assert (run.os_user, run.user, run.node) == ("ada", None, labs.ours.node)
    assert run.job_facts["gpus"] == {"gpu1": ["GPU-a", "GPU-b"]}
    again = labs.node("PUT", f"runs/{RUN}/", FACTS).json()
    assert {**again, "seen_at": None} == {**told.json(), "seen_at": None}
    assert labs.viewer("GET", f"runs/{RUN}/").json()["job_facts"]["reserved_gpus"] == 4


def test_each_node_of_a_job_tells_of_it_and_the_first_keeps_it(labs: Labs, second: Caller) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    told = second(
        "PUT",
        f"runs/{RUN}/",
        {**changed(gpus={"gpu2": ["GPU-c"]}), "started_at": "2026-11-02T08:00:01Z"},
    )
    assert told.status_code == 200, told.content
    run = Run.objects.get()
    assert run.node == labs.ours.node
    assert run.started_us == T0
    assert run.job_facts["gpus"] == {"gpu1": ["GPU-a", "GPU-b"], "gpu2": ["GPU-c"]}
    ended = {
        "state": "killed",
        "ended_at": "2026-11-02T09:00:00Z",
        "job": {"state": "TIMEOUT", "exit": "0:15"},
    }
    assert second("PATCH", f"runs/{RUN}/", ended).status_code == 200
    run.refresh_from_db()
    assert (run.state, run.job_facts["state"], run.job_facts["exit"]) == (
        "killed",
        "TIMEOUT",
        "0:15",
    )


@pytest.mark.parametrize("lie", [{"account": "rich"}, {"partition": "debug"}])
def test_another_node_cannot_say_whose_job_it_is(
    labs: Labs, second: Caller, refused: Refused, lie: dict[str, str]
) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    refused(second("PUT", f"runs/{RUN}/", changed(**lie)), 409)
    refused(second("PUT", f"runs/{RUN}/", {**FACTS, "user": "eve"}), 409)
    run = Run.objects.get()
    assert (run.os_user, run.account, run.partition) == ("ada", "vision,nlp", "gpu")


def test_a_node_that_said_nothing_of_a_job_cannot_end_it(
    labs: Labs, second: Caller, refused: Refused
) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    refused(second("PATCH", f"runs/{RUN}/", {"state": "failed"}), 404)
    refused(labs.their_node("PATCH", f"runs/{RUN}/", {"state": "failed"}), 404)
    assert Run.objects.get().state == "running"


def test_a_job_named_in_a_run_of_another_uuid_opens_no_door(
    labs: Labs, second: Caller, refused: Refused
) -> None:
    """Only the UUID that follows from the job is shared among nodes."""
    other = str(uuid.uuid4())
    assert labs.node("PUT", f"runs/{other}/", FACTS).status_code == 200
    refused(second("PUT", f"runs/{other}/", FACTS), 409)
    refused(second("PATCH", f"runs/{other}/", {"state": "failed"}), 404)
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    refused(second("PUT", f"runs/{RUN}/", changed(id="982")), 409)
    refused(
        second("PUT", f"runs/{RUN}/", {key: value for key, value in FACTS.items() if key != "job"}),
        409,
    )


def test_the_same_job_in_another_lab_is_another_run(labs: Labs) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    assert labs.their_node("PUT", f"runs/{RUN}/", changed(account="theirs")).status_code == 200
    assert sorted(Run.objects.values_list("account", flat=True)) == ["theirs", "vision,nlp"]


def test_a_job_queued_again_goes_on(labs: Labs) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    labs.node(
        "PATCH",
        f"runs/{RUN}/",
        {"state": "killed", "ended_at": "2026-11-02T08:30:00Z", "exit_code": 143},
    )
    labs.node("PUT", f"runs/{RUN}/", {**FACTS, "started_at": "2026-11-02T09:00:00Z"})
    labs.node("PATCH", f"runs/{RUN}/", {"state": "running", "job": {"state": "RUNNING"}})
    run = Run.objects.get()
    assert (run.state, run.ended_us, run.exit_code, run.started_us) == ("running", None, None, T0)


def test_whole_seconds_of_a_scheduler_end_no_job_before_it_began(labs: Labs) -> None:
    labs.node("PUT", f"runs/{RUN}/", {**FACTS, "started_at": "2026-11-02T08:00:00.900000Z"})
    told = labs.node(
        "PATCH", f"runs/{RUN}/", {"state": "finished", "ended_at": "2026-11-02T08:00:00Z"}
    )
    assert told.status_code == 200
    assert Run.objects.get().ended_us == Run.objects.get().started_us


def test_a_registered_run_inside_a_job_is_its_own(labs: Labs) -> None:
    own = str(uuid.uuid4())
    labs.member("PUT", f"runs/{own}/", {**FACTS, "job": {"cluster": "hpc", "id": "981"}})
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    assert Run.objects.count() == 2
    run = Run.objects.get(uuid=own)
    assert (run.cluster, run.job_id) == ("hpc", "981")
    assert run.user is not None


@pytest.mark.parametrize(
    "job",
    [
    {"id": "9; DROP"}, {"id": ""}, {"id": "1" * 21}, {"cluster": ""}, {"cluster": "a/b"},
    {"cluster": "c" * 101}, {"account": "a" * 101}, {"account": 7}, {"account": "a\x00"},
    {"scheduler": "cron"}, {"colour": "blue"}, {"reserved_gpus": -1}, {"reserved_gpus": 1.5},
    {"reserved_gpus": True}, {"gpus": {"n": "GPU-a"}}, {"gpus": {"n": ["x" * 65]}},
    {"gpus": {"n\x00": []}}, {"nodes": "n" * 2001}, {"consumed_energy_j": 2**63},
    {"state": "S" * 65},
],
)  # fmt: skip
def test_bad_jobs(labs: Labs, refused: Refused, job: dict[str, Any]) -> None:
    error = refused(labs.node("PUT", f"runs/{RUN}/", changed(**job)), 400)
    assert error["field"] == "job"
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "job", [{"account": "rich"}, {"state": "S" * 65}, {"state": "\x00"}, {"exit": 5}]
)
def test_an_end_changes_only_how_a_job_stands(
    labs: Labs, refused: Refused, job: dict[str, Any]
) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS)
    assert (
        refused(labs.node("PATCH", f"runs/{RUN}/", {"state": "failed", "job": job}), 400)["field"]
        == "job"
    )
    assert Run.objects.get().state == "running"


def test_facts_packed_by_gzip_are_read(labs: Labs, refused: Refused) -> None:
    """Collectors pack whatever is longer than a line: a run with many parameters, a job on many
    nodes.
    """
    import gzip

    import msgspec

    facts = {**FACTS, "params": {f"p{i}": "x" * 20 for i in range(100)}}
    packed = gzip.compress(msgspec.json.encode(facts))
    told = labs.node("PUT", f"runs/{RUN}/", packed, **{"Content-Encoding": "gzip"})
    assert told.status_code == 200, told.content
    assert len(Run.objects.get().params) == 100
    refused(labs.node("PUT", f"runs/{RUN}/", packed[:-5], **{"Content-Encoding": "gzip"}), 400)
    bomb = gzip.compress(b" " * (9 << 20))
    refused(labs.node("PUT", f"runs/{RUN}/", bomb, **{"Content-Encoding": "gzip"}), 413)
