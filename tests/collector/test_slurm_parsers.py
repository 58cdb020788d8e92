"""Parsers of the output of squeue, scontrol and sacct, with hostile names."""

from __future__ import annotations

import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.slurm.commands import new_delimiter
from labcarbon_collect.slurm.jobs import (
    JobFacts,
    bulk_row,
    current_job,
    exit_code,
    job_uuid,
    run_name,
    run_state,
)
from labcarbon_collect.slurm.parsers import (
    SacctFormatError,
    parse_gpu_indices,
    parse_sacct_jobs,
    parse_squeue_closing,
    parse_squeue_jobs,
    parse_time_us,
    squeue_format,
)

FIXTURES = Path(__file__).parent / "fixtures" / "slurm"
START_US = 1_793_606_400_000_000


def refuse(number: int, why: str) -> None:
    raise AssertionError(f"line {number}: {why}")


def history(text: str, **options: object) -> dict[str, JobFacts]:
    lines = [f"{line}\n" for line in text.split("\n")]
    return {job.job_id: job for job in parse_sacct_jobs(lines, on_invalid_row=refuse, **options)}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def jobs() -> dict[str, JobFacts]:
    return history((FIXTURES / "sacct.txt").read_text(encoding="utf-8").rstrip("\n"))


def test_steps_are_passed_over_and_nothing_is_invented(jobs: dict[str, JobFacts]) -> None:
    assert sorted(jobs) == [
        "12",
        "14",
        "15",
        "16",
        "17",
        "18",
        "19",
        "21",
        "22",
        "23",
        "24",
        "25",
        "26",
    ]


@pytest.mark.parametrize(
    ("job_id", "state", "slurm_state", "code"),
    [
    ("12", "finished", "COMPLETED", 0), ("14", "failed", "FAILED", 3),
    ("15", "killed", "TIMEOUT", 0), ("16", "killed", "CANCELLED by 1004", 143),
    ("18", "failed", "NODE_FAIL", 1), ("19", "killed", "PREEMPTED", 0),
    ("21", "failed", "OUT_OF_MEMORY", 253), ("22", "killed", "REQUEUED", 0),
    ("25", "killed", "DEADLINE", 0), ("26", "failed", "BOOT_FAIL", 0),
],
)  # fmt: skip
def test_states_and_their_reasons(
    jobs: dict[str, JobFacts], job_id: str, state: str, slurm_state: str, code: int
) -> None:
    row = bulk_row(jobs[job_id])
    assert (row["state"], row["job"]["state"], row["exit_code"]) == (state, slurm_state, code)


def test_a_pending_job_has_no_start(jobs: dict[str, JobFacts]) -> None:
    assert jobs["17"].started_us is None
    assert jobs["24"].started_us is None
    assert (jobs["23"].state, jobs["23"].ended_us) == ("running", None)
    assert "ended_at" not in bulk_row(jobs["23"])


def test_arrays_and_nodes(jobs: dict[str, JobFacts]) -> None:
    assert (jobs["14"].array_job_id, jobs["14"].array_task) == ("13", "0")
    assert (jobs["15"].array_job_id, jobs["15"].array_task, jobs["15"].nodes) == (
        "13",
        "1",
        "gpu[1-2]",
    )
    assert jobs["12"].array_job_id == ""


def test_reserved_gpus_are_not_counted_twice(jobs: dict[str, JobFacts]) -> None:
    assert jobs["12"].reserved_gpus == 2
    assert jobs["14"].reserved_gpus == 3, "no total: the types are summed"
    assert jobs["15"].reserved_gpus == 0
    assert jobs["24"].reserved_gpus is None, "not told is not none"


def test_slurms_own_energy_is_a_fact_and_no_energy(jobs: dict[str, JobFacts]) -> None:
    row = bulk_row(jobs["12"])
    assert row["job"]["consumed_energy_j"] == 5_400_000
    assert not [name for name in row if "energy" in name]
    assert "consumed_energy_j" not in bulk_row(jobs["15"])["job"]


def test_hostile_names(jobs: dict[str, JobFacts]) -> None:
    assert (jobs["16"].account, jobs["16"].name) == ("vision,nlp", "a|b")
    assert jobs["19"].name == "two\n20|hpc|lines"
    assert run_name(jobs["19"]) == "two 20|hpc|lines"
    assert (jobs["18"].user, jobs["18"].name) == ("zoë", "模型 train")
    assert run_name(jobs["21"]) == "job 21"


FORGED = "x\n999|hpc|999|root|rich|gpu|COMPLETED|0:0|1|2|3|n|||gift"


def test_a_row_forged_in_a_name_is_no_row_where_the_separator_is_ours() -> None:
    mark = new_delimiter()
    head, row = (FIXTURES / "sacct.txt").read_text(encoding="utf-8").split("\n")[:2]
    text = f"{head}\n{row[: -len('train')]}".replace("|", mark) + FORGED
    found = history(text)
    assert list(found) == ["12"]
    assert found["12"].name == FORGED


def squeued(mark: str, fields: list[str]) -> str:
    """Return a record in the format of squeue."""
    asked = iter(fields)
    return re.sub(r"%[A-Za-z]", lambda found: next(asked), squeue_format(mark))


@given(
    st.text(
        alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\r"), max_size=60
    )
)
def test_any_name_comes_back_as_it_was(name: str) -> None:
    mark = "|5f0c1e2d3a4b5c6d|"
    row = mark.join(
        ["7", "hpc", "7", "ada", "v", "gpu", "FAILED", "1:0", "1", "2", "3", "n1", "", "", name]
    )
    follows = mark.join(
        ["8", "hpc", "8", "ben", "w", "gpu", "COMPLETED", "0:0", "1", "2", "3", "n1", "", "", "y"]
    )
    head = (FIXTURES / "sacct.txt").read_text(encoding="utf-8").split("\n")[0].replace("|", mark)
    found = history(f"{head}\n{row}\n{follows}")
    assert found["7"].name == name
    assert found["8"].account == "w"
    record = squeued(
        mark, ["7", "7", "N/A", "ada", "", "gpu", "RUNNING", "1", "2", "3", "n1", name]
    )
    assert parse_squeue_jobs(f"{record}\n{record}\n", mark, "hpc")["7"].name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "JobID|State\n1|COMPLETED",
        "JobIDRaw|JobName|State|Start\n1|x|COMPLETED|1",
        "JobIDRaw|State|Start\n",
    ],
)
def test_other_input_than_sacct_is_rejected(text: str) -> None:
    with pytest.raises(SacctFormatError, match="--format=JobIDRaw,Cluster"):
        history(text)


def test_an_invalid_row_is_reported_and_the_others_are_read() -> None:
    wrong: list[tuple[int, str]] = []
    lines = ["JobIDRaw|State|Start|JobName\n", "1|COMPLETED|yesterday|a\n", "2|COMPLETED|5|b\n"]
    found = list(
        parse_sacct_jobs(
            lines, cluster="hpc", on_invalid_row=lambda number, why: wrong.append((number, why))
        )
    )
    assert [job.job_id for job in found] == ["2"]
    assert wrong[0][0] == 2
    assert "yesterday" in wrong[0][1]
    nowhere: list[str] = []
    assert not list(
        parse_sacct_jobs(lines[::2], on_invalid_row=lambda number, why: nowhere.append(why))
    )
    assert "--cluster" in nowhere[0]


def test_times() -> None:
    assert parse_time_us("1793606400") == START_US
    assert parse_time_us("2026-11-02T09:00:00", ZoneInfo("Europe/Berlin")) == START_US
    assert parse_time_us("2026-11-02T08:00:00Z") == START_US
    assert [parse_time_us(text) for text in ("Unknown", "N/A", "None", "", "0")] == [None] * 5


def test_squeue() -> None:
    mark = new_delimiter()
    assert squeue_format(mark).count(mark) == 11
    fields = [
        "981",
        "980",
        "1",
        "ada",
        "(null)",
        "gpu",
        "RUNNING",
        "1793606340",
        "1793606400",
        "1793610000",
        "gpu[1-2]",
        "s",
    ]
    job = parse_squeue_jobs(squeued(mark, fields) + "\n", mark, "hpc")["981"]
    assert (job.array_job_id, job.array_task, job.account, job.state) == ("980", "1", "", "running")
    assert job.started_us == START_US
    assert job.ended_us is None, "the time limit of a job that runs is no end"
    assert parse_squeue_closing("981".ljust(24) + "768".ljust(24) + "cpu=1,gres/gpu=4\n") == {
        "981": ("3:0", 4)
    }
    assert parse_squeue_closing("982".ljust(24) + "15".ljust(24) + "N/A\n") == {
        "982": ("0:15", None)
    }


def test_gpus_by_node_of_a_two_node_job() -> None:
    text = (FIXTURES / "scontrol_two_nodes.txt").read_text()
    assert parse_gpu_indices(text, "sweep") == {"gpu1": [0, 1, 2, 5], "gpu2": [1, 3]}


def test_gpus_forged_in_a_name_or_a_comment_are_not_believed() -> None:
    text = (FIXTURES / "scontrol_two_nodes.txt").read_text()
    name = "sweep\n     Nodes=gpu1 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:7)"
    assert parse_gpu_indices(text.replace("JobName=sweep", f"JobName={name}"), name)["gpu1"] == [
        0,
        1,
        2,
        5,
    ]
    assert parse_gpu_indices(text, "another") == {}


@pytest.mark.parametrize(
    ("text", "code"),
    [("0:0", 0), ("3:0", 3), ("0:9", 137), ("1:15", 143), ("", None), ("x:1", None), ("2:", None)],
)
def test_exit_codes(text: str, code: int | None) -> None:
    assert exit_code(text) == code


def test_states_unknown_to_us_are_not_guessed() -> None:
    assert [run_state(text) for text in ("PENDING", "", "DANCING")] == ["", "", ""]


def test_the_uuid_of_a_job_is_the_servers() -> None:
    from apps.ingest.window_rules import job_run

    assert job_uuid("hpc", "981") == str(job_run("hpc/981"))


def test_a_processs_own_environment_names_its_job() -> None:
    assert current_job({}) is None
    told = current_job(
        {"SLURM_JOB_ID": "981", "SLURM_CLUSTER_NAME": "HPC", "SLURM_JOB_ACCOUNT": "vision"}
    )
    assert told == {"scheduler": "slurm", "cluster": "hpc", "id": "981", "account": "vision"}
