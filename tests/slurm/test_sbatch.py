"""A real sbatch job of a real user becomes a run of the right user, account and project with
exactly its joules.
"""

from __future__ import annotations

import json

import pytest
from labcarbon_collect.slurm.jobs import job_uuid

from tests.fakes.nvml_driver import process
from tests.faults.installation import ROOT, Installation
from tests.faults.ledger import LedgerDatabase
from tests.services.process import wait_until
from tests.services.slurm import CLUSTER
from tests.slurm.conftest import Node

pytestmark = [pytest.mark.slurm, pytest.mark.faults, pytest.mark.xdist_group("slurm")]

_HELD = (
    "echo $$ > {work}/$SLURM_JOB_ID.pid; while [ ! -e {work}/$SLURM_JOB_ID.stop ]; do i=0; "
    "while [ $i -lt 20000 ]; do i=$((i+1)); done; done; exit {code}"
)
_RULE = """
from apps.accounts.models import Lab
from apps.accounts.services.labs import create_project
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.core.clock import now_us
lab = Lab.objects.get()
project = create_project(lab=lab, slug="vision", name="Vision", now=now_us())
criteria = Criteria(cluster="testlab", account="vision")
make_rule(rule=drafted_rule(lab=lab, criteria=criteria, project=project, person=None, from_us=0), by=None, now=now_us())
"""  # noqa: E501
_RUN = (
    "SELECT r.os_user, r.account, r.partition, r.name, r.state, r.exit_code, r.scheduler, "
    "r.cluster, r.job_id, p.slug,"
    " n.hostname, r.job_facts, r.started_us, r.ended_us FROM runs_run r LEFT JOIN "
    "accounts_project p"
    " ON p.id = r.charged_project_id LEFT JOIN fleet_node n ON n.id = r.node_id WHERE r.uuid = ?"
)
_LEDGER = (
    "SELECT d.key, SUM(l.energy_mj) FROM energy_ledgerentry l JOIN ingest_consumer c ON c.id = "
    "l.consumer_id"
    " JOIN fleet_device d ON d.id = l.device_id WHERE c.key = ? GROUP BY d.key"
)
_WINDOWS = (
    "SELECT d.key, SUM(s.value) FROM ingest_energywindow w, json_each(w.shares) s"
    " JOIN ingest_consumer c ON c.id = s.key JOIN fleet_device d ON d.id = w.device_id"
    " WHERE c.key = ? GROUP BY d.key"
)


def _books(server: Installation) -> LedgerDatabase:
    return LedgerDatabase(str(server.data_dir / "labcarbon.sqlite3"))


def _run_of(server: Installation, job_id: str) -> dict[str, object] | None:
    rows = _books(server).rows(_RUN, job_uuid(CLUSTER, job_id).replace("-", ""))
    names = (
        "os_user",
        "account",
        "partition",
        "name",
        "state",
        "exit_code",
        "scheduler",
        "cluster",
        "job_id",
        "project",
        "host",
        "facts",
        "started_us",
        "ended_us",
    )
    return dict(zip(names, rows[0], strict=True)) if rows else None


def _stated(server: Installation, job_id: str, state: str) -> dict[str, object]:
    wait_until(
        lambda: (_run_of(server, job_id) or {}).get("state") == state,
        what=f"the run of job {job_id}: {state}",
        every=0.5,
    )
    found = _run_of(server, job_id)
    assert found is not None
    return found


def _submit_waiting_job(node: Node, *options: str, user: str, code: int = 0) -> tuple[str, int]:
    """Submit a job that runs until it is released. Return its id and the pid of its process."""
    work = node.slurm.directory / "work"
    job_id = node.slurm.submit(_HELD.format(work=work, code=code), *options, user=user)
    pid = work / f"{job_id}.pid"
    wait_until(
        lambda: pid.exists() and pid.read_text().strip().isdigit(),
        what=f"job {job_id}'s word",
    )
    return job_id, int(pid.read_text())


def _let_go(node: Node, job_id: str) -> None:
    (node.slurm.directory / "work" / f"{job_id}.stop").touch()


def _shipped_epilog(node: Node) -> str:
    shipped = (ROOT / "deploy/slurm/task-epilog.sh").read_text()
    program = "/opt/labcarbon-collect/bin/labcarbon-collect"
    assert program in shipped
    return shipped.partition("\n")[2].replace(program, node.command)


def test_a_batch_job_is_a_run_of_its_user_and_account_with_exactly_its_joules(
    node: Node, server: Installation
) -> None:
    (code,) = server.codes(1)
    server.shell(_RULE)
    assert (
        node.collect("enrol", "--hostname", "gpu-node", server.url, stdin=code + "\n").returncode
        == 0
    )
    node.slurm.epilog("exit 0", task=_shipped_epilog(node))
    gpu, other = node.driver.gpus
    with node.measuring():
        job_id, pid = _submit_waiting_job(
            node, "--gres=gpu:h100:1", "--job-name=train vision", user="lc-ana"
        )
        gpu.set_processes(process(pid, sm_percent=90, memory_mib=1000))
        node.polled()
        gpu.add_mj(7_777)
        other.add_mj(5_555)
        begun = _stated(server, job_id, "running")
        assert begun["ended_us"] is None
        node.polled()
        gpu.set_processes()
        _let_go(node, job_id)
        node.slurm.wait(job_id, "COMPLETED")
        _stated(server, job_id, "finished")
    server.manage("worker", "--once")
    run = _run_of(server, job_id) or {}
    facts = json.loads(str(run.pop("facts")))
    started_us, ended_us = run.pop("started_us"), run.pop("ended_us")
    assert isinstance(started_us, int)
    assert isinstance(ended_us, int)
    assert started_us < ended_us
    assert run == {
        "os_user": "lc-ana",
        "account": "vision",
        "partition": "gpu",
        "name": "train vision",
        "state": "finished",
        "exit_code": 0,
        "scheduler": "slurm",
        "cluster": CLUSTER,
        "job_id": job_id,
        "project": "vision",
        "host": "gpu-node",
    }
    assert facts["gpus"] == {node.slurm.node: [gpu.uuid]}
    assert (facts["reserved_gpus"], facts["state"], facts["exit"]) == (1, "COMPLETED", "0:0")
    ledger = dict(_books(server).rows(_LEDGER, f"job:{CLUSTER}/{job_id}"))
    assert ledger == dict(_books(server).rows(_WINDOWS, f"job:{CLUSTER}/{job_id}"))
    assert ledger.pop(gpu.key) == 7_777
    assert all(key.startswith("cpu:") and energy_mj > 0 for key, energy_mj in ledger.items())
    assert ledger, "the processor's part is the job's as well"
    last = node.slurm.output(job_id).strip().splitlines()[-1]
    assert last.startswith("labcarbon: ")
    assert "Wh (" in last
    assert f"/runs/{job_uuid(CLUSTER, job_id)}/" in last
    opened = (node.base / "of-daemon/opened").read_text()
    assert "/stat" in opened
    assert "/environ" not in opened


_INNER = (
    "SELECT os_user, name, state, scheduler, cluster, job_id, account, uuid FROM runs_run WHERE "
    "name = 'inner'"
)
_FORGED = (
    "x\n   UserId=lc-ana(0) GroupId=root(0) MCS_label=N/A\n   Priority=1 Nice=0 Account=vision "
    "QOS=normal\n9|hpc|y"
)


def test_a_run_registered_inside_a_job_is_its_own_and_a_forged_name_fools_nobody(
    node: Node, server: Installation
) -> None:
    (code,) = server.codes(1)
    assert (
        node.collect("enrol", "--hostname", "gpu-node", server.url, stdin=code + "\n").returncode
        == 0
    )
    work = node.slurm.directory / "work"
    word = f"echo $$ > {work}/inner.new; mv {work}/inner.new {work}/inner.pid; "
    word += f"while [ ! -e {work}/inner.stop ]; do sleep 0.1; done"
    script = f"{node.command} run --name inner -- sh -c '{word}'\nexit 3"
    gpu = node.driver.gpus[0]
    with node.measuring():
        job_id = node.slurm.submit(script, "--gres=gpu:1", f"--job-name={_FORGED}", user="lc-ben")
        wait_until((work / "inner.pid").exists, what="the run's word")
        gpu.set_processes(
            process(int((work / "inner.pid").read_text()), sm_percent=90, memory_mib=1000)
        )
        node.polled()
        gpu.add_mj(4_321)
        node.polled()
        gpu.set_processes()
        (work / "inner.stop").touch()
        node.slurm.wait(job_id, "FAILED")
        run = _stated(server, job_id, "failed")
    server.manage("worker", "--once")
    assert (run["os_user"], run["account"], run["exit_code"]) == ("lc-ben", "nlp", 3)
    assert str(run["name"]).startswith("x UserId=lc-ana(0)")
    ((*inner, uuid),) = _books(server).rows(_INNER)
    assert inner == ["lc-ben", "inner", "finished", "slurm", CLUSTER, job_id, "nlp"]
    key = f"run:{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
    assert dict(_books(server).rows(_LEDGER, key))[gpu.key] == 4_321
    assert gpu.key not in dict(_books(server).rows(_LEDGER, f"job:{CLUSTER}/{job_id}"))
    assert "labcarbon: " in node.slurm.output(job_id)
