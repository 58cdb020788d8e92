"""Sent data: the tables of docs/collector.md against the requests that a server receives, and
planted secrets.
"""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.node_facts import node_facts
from labcarbon_collect.slurm.jobs import JobFacts, bulk_row, patch_body, put_body
from labcarbon_collect.sources.rapl import RaplSource

from tests.collector.collector_process import Collector, wait_for
from tests.collector.readings import T0
from tests.collector.sysfs_tree import board, disk, proc
from tests.fakes import labcarbon_server as fakes
from tests.fakes.nvml_driver import FakeDriver
from tests.fakes.powercap import FakePowercap

DOCS = Path(__file__).resolve().parents[2] / "docs" / "collector.md"
CONTRACT = Path(__file__).resolve().parents[1] / "contract"
PLANTED = "plumtreehunter"  # does not look like a secret: it is protected only if it is never sent
# The keys below these are variable names.
VARYING = {
    "device_facts": "<device>", "health.source": "<source>", "params": "<name>",
    "job.gpus": "<node>", "runs[].job.gpus": "<node>", "fingerprint.params": "<name>",
    "fingerprint.seeds": "<name>", "fingerprint.labels": "<name>",
    "fingerprint.dropped": "<name>", "fingerprint.told": "<name>",
    "fingerprint.environment": "<package>",
}  # fmt: skip


def section(title: str) -> str:
    """Return the text under a heading, up to the next of the same or a higher level."""
    text = DOCS.read_text(encoding="utf-8")
    rank = title.split(" ")[0]
    match = re.search(
        rf"^{re.escape(title)}$(.*?)(?=^#{{1,{len(rank)}}} |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert match, f"docs/collector.md has no section {title!r}"
    return match.group(1)


def documented(title: str) -> set[str]:
    """Return the texts in backticks in the first column of a section's tables."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def keys(body: Any, at: str = "") -> Iterator[str]:
    """Return the paths of a JSON body's leaves in the notation of the page."""
    if isinstance(body, dict):
        for name, value in body.items():
            step = VARYING.get(at, name)
            yield from keys(value, f"{at}.{step}" if at else step)
    elif isinstance(body, list):
        for value in body:
            yield from keys(value, f"{at}[]")
    else:
        yield at


@pytest.fixture(scope="module")
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        yield fake


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, server: fakes.FakeServer) -> Iterator[Collector]:
    """A node with GPUs: enrolment, login, runs with and without a login, uploaded windows, stopped
    daemon.
    """
    root = tmp_path_factory.mktemp("node")
    driver = FakeDriver(root, ["hopper", "pascal"], live=True)
    driver.gpus[0].set_power(300_000)
    home = root / PLANTED
    (home / PLANTED).mkdir(parents=True)
    node = Collector(
        root,
        {
            **driver.env,
            "LABCARBON_SOURCES": "nvml,cpu_model",
            "HOME": str(home),
            "SOME_VARIABLE": PLANTED,
            "PLUM_TOKEN": PLANTED,
            "XDG_CONFIG_HOME": str(home / ".config"),
        },
    )
    script = home / PLANTED / "train.py"
    script.write_text(
        f"import os, time  # {PLANTED}\npassword = '{PLANTED}'\n"
        "os.environ.get('A' + password)\ntime.sleep(0.3)\n"
    )
    git_identity = ["-c", f"user.name={PLANTED}", "-c", f"user.email={PLANTED}@example.org"]
    for words in (
        ["init", "-q", "-b", PLANTED],
        ["add", "-A"],
        [*git_identity, "commit", "-q", "-m", PLANTED],
    ):
        subprocess.run(["git", *words], cwd=script.parent, env=node.environ, check=True)
    assert node.call("enrol", server.url, input="code\n").returncode == 0
    # A path that is no socket: the reason contains it, the report must not.
    failing = Collector(
        node.root,
        {**node.settings, "LABCARBON_SOCKET": str(home / PLANTED / "s" / ("x" * 120))},
        node_id=node.node_id,
    )
    assert PLANTED in failing.call("daemon").stderr
    node.start()
    (root / "cats").mkdir()
    (root / "cats" / PLANTED).write_text(PLANTED)
    server.preflight = {**fakes.NO_MATCH, "verdict": "replicate"}
    words = [
        "--note",
        PLANTED,
        f"--data=/x/{PLANTED}",
        "--valid",
        str(root / "cats"),
        "--seed",
        "3",
        "--out",
        PLANTED,
        PLANTED,
    ]
    command = ["--", sys.executable, "-u", str(script), *words]
    options = [
        "--param",
        "lr=0.1",
        "--param",
        f"api_key={PLANTED}",
        "--sweep",
        "grid",
        "--parent",
        node.node_id,
        "--estimate",
        node.node_id,
    ]
    arguments = ["run", "--project", "demo", "--name", "first", *options, *command]
    assert node.call(*arguments, cwd=script.parent).returncode == 0
    assert node.call("login", server.url, input="code\n").returncode == 0
    done = node.call(*arguments, cwd=script.parent)
    assert "The parameter api_key looks like a secret. It is sent as (masked)" in done.stderr
    server.preflight = fakes.NO_MATCH
    inline = node.call("run", "--", "python3", "-c", f"x = '{PLANTED}'", cwd=script.parent)
    assert inline.returncode == 0
    wait_for(lambda: len([run for run in server.runs.values() if "state" in run]) == 3)
    yield node
    if node.daemon is not None and node.daemon.poll() is None:
        node.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def requests(node: Collector, server: fakes.FakeServer) -> list[fakes.Request]:
    """All requests to the server, the last windows included."""
    assert node.stop() == 0
    assert node.call("upload").returncode == 0
    assert server.stored_mj > 0
    return server.requests


def of_kind(requests: list[fakes.Request], title: str) -> list[fakes.Request]:
    method, path = re.fullmatch(r"### `(\w+) ([^`]+)`", title).groups()  # type: ignore[union-attr]
    pattern = "/api/v1/" + path.replace("<uuid>", "[0-9a-f-]{36}").replace("<id>", "[0-9a-f-]{36}")
    return [
        request
        for request in requests
        if request.method == method and re.fullmatch(pattern, request.path)
    ]


# Sent after large data is hashed (test_run_preflight.py), and after a kill by the kernel
# (test_failure.py).
LATER_REQUESTS = {
    "failure.class",
    "failure.point",
    "fingerprint.version",
    *(f"fingerprint.data.{key}" for key in ("weak", "verified")),
    *(f"fingerprint.data.items[].{key}" for key in ("role", "name", "files", "bytes", "state")),
    *(f"fingerprint.start.{key}" for key in ("weak", "verified", "name")),
}
KINDS = [
    "### `POST ingest/`",
    "### `PUT runs/<uuid>/`",
    "### `PATCH runs/<uuid>/`",
    "### `POST enrol/`",
    "### `POST nodes/problem/`",
    "### `POST login/`",
    "### `POST preflight/`",
    "### `POST preflight/<id>/outcome/`",
]


@pytest.mark.parametrize("title", KINDS)
def test_documented_keys_equal_sent_keys(
    requests: list[fakes.Request], title: str, tmp_path: Path
) -> None:
    sent = {key for request in of_kind(requests, title) for key in keys(request.body)}
    assert sent, f"nothing of {title} was sent"
    if title == "### `POST preflight/`":
        assert {key for key in sent if key.startswith("fingerprint.")} <= documented(
            "### `PUT runs/<uuid>/`"
        )
        sent = {"fingerprint" if key.startswith("fingerprint.") else key for key in sent}
    assert sent <= documented(title)
    missing = {
        key for key in documented(title) - sent if not key.startswith("job.")
    }  # of a job: test_payload_of_a_job_is_documented
    if (
        title == "### `POST enrol/`"
    ):  # a virtual machine reports no board and disks, a board no cloud
        board(tmp_path, sys_vendor="Dell Inc.", product_name="PowerEdge", product_serial="ABC1234")
        disk(tmp_path, "sda")
        cloud = tmp_path / "instance-data.json"
        cloud.write_text('{"v1": {"cloud_name": "aws", "instance_id": "i-1"}}', encoding="utf-8")
        facts = node_facts(proc(tmp_path / "proc"), tmp_path, cloud)
        missing -= {f"facts.{name}" for name in facts}
    if title == "### `POST ingest/`":
        # Recorded: gaps. Other meters have their own test below. Notes exist after errors only,
        # the clock of another boot after a reboot, an acknowledgement after the first upload.
        missing -= set(keys(json.loads((CONTRACT / "ingest_request.json").read_text())))
        missing = {
            key
            for key in missing
            if not key.startswith(
                (
                    "device_facts.",
                    "health.devices[].",
                    "health.notes[]",
                    "boot_clocks",
                    "acknowledged",
                )
            )
        }
    if title == "### `PATCH runs/<uuid>/`":
        missing -= LATER_REQUESTS
    assert not missing, "the page names keys that are never sent"


def test_all_requests_are_documented(requests: list[fakes.Request]) -> None:
    documented_requests = [
        request for title in (*KINDS, "### `GET config/`") for request in of_kind(requests, title)
    ]
    assert len(documented_requests) == len(requests)
    assert all(not request.content for request in of_kind(requests, "### `GET config/`"))


def test_headers_are_the_documented_ones(requests: list[fakes.Request]) -> None:
    sent = {name for request in requests for name in request.headers}
    assert sent == documented("### Headers of every request")


def test_facts_of_all_meters_are_documented(bench: Any, tmp_path: Path) -> None:
    gpu_bench = bench("hopper", "pascal", "vgpu", opened=False)
    gpu_bench.driver.gpus[0].set_mig(3, 4)
    powercap = FakePowercap(tmp_path / "powercap")
    for zone, name in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "dram"),
        ("intel-rapl:1", "psys"),
    ):
        powercap.add(zone, name)
    powercap.add("intel-rapl:2", "package-1", range_uj=None)
    devices = [
        *gpu_bench.source.open(),
        *RaplSource("n", {"LABCARBON_POWERCAP": str(powercap.root)}).open(),
    ]
    facts = {fact for info in devices for fact in info.facts}
    assert {"mig", "driver", "psys", "left_out"} <= facts
    assert {f"device_facts.<device>.{fact}" for fact in facts} <= documented("### `POST ingest/`")


def test_payload_of_a_tracked_script_is_documented(node: Collector) -> None:
    with fakes.running() as fake:
        environ = {**node.settings, "LABCARBON_URL": fake.url, "LABCARBON_TOKEN": "lc_user_fake"}
        script = node.root / "tracked.py"
        script.write_text(
            f"import labcarbon_collect\nwith labcarbon_collect.track(params={{'lr': 1}}) as run:\n"
            f"    run.check(); run.log(1, loss=2); raise ValueError('{PLANTED}')\n"
        )
        lone = Collector(node.root, environ)
        subprocess.run(
            [sys.executable, str(script)], env=lone.environ, capture_output=True, check=False
        )
        for title in ("### `PUT runs/<uuid>/`", "### `PATCH runs/<uuid>/`"):
            sent = {key for request in of_kind(fake.requests, title) for key in keys(request.body)}
            assert sent
            assert sent <= documented(title)
        (metrics,) = of_kind(fake.requests, "### `POST runs/<uuid>/metrics/`")
        assert set(keys(metrics.body)) == documented("### `POST runs/<uuid>/metrics/`")
        assert not any(PLANTED.encode() in request.content for request in fake.requests)


JOB = JobFacts(
    cluster="hpc",
    job_id="71",
    user="ana",
    account="vision",
    partition="gpu",
    name="train --token hunter2",
    exit="1:0",
    slurm_state="FAILED",
    submitted_us=T0,
    started_us=T0,
    ended_us=T0,
    nodes="gpu[1-2]",
    array_job_id="70",
    array_task="1",
    reserved_gpus=2,
    gpus={"gpu1": ["GPU-1"]},
    consumed_energy_j=5,
)


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("### `PUT runs/<uuid>/`", put_body(JOB, node="n", first_observed_us=T0)),
        ("### `PATCH runs/<uuid>/`", patch_body(JOB)),
        ("### `POST runs/bulk/`", {"runs": [bulk_row(JOB)]}),
    ],
)
def test_payload_of_a_job_is_documented(title: str, body: Any) -> None:
    sent = set(keys(body))
    assert sent <= documented(title)
    assert {key for key in documented(title) if "job." in key} <= sent, (
        "the page names keys that are never sent"
    )
    assert "hunter2" not in json.dumps(body)
    assert all(dataclasses.asdict(JOB).values()), "an empty field would not be checked"


def test_a_planted_secret_is_in_no_byte_that_was_sent(
    node: Collector, requests: list[fakes.Request]
) -> None:
    runs = [request.body for request in requests if request.method == "PUT"]
    assert {tuple(body["command"]) for body in runs} == {
        (Path(sys.executable).name, "train.py"),
        ("python3", "-c"),
    }
    assert {body["params"].get("api_key") for body in runs} == {"(masked)", None}
    for request in requests:
        sent = b"\n".join(
            [request.path.encode(), json.dumps(request.headers).encode(), request.content]
        )
        assert PLANTED.encode() not in sent, request.path
        assert b"/home/" not in request.content
        assert str(node.root).encode() not in request.content


def test_a_planted_secret_is_not_in_the_data_folder(
    node: Collector, requests: list[fakes.Request]
) -> None:
    files = [path for path in (node.root / "data").rglob("*") if path.is_file()]
    assert any(path.name == "spool.db" for path in files)
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []


def test_argv_is_sent_on_request_and_masked(requests: list[fakes.Request], node: Collector) -> None:
    with fakes.running() as fake:
        environ = {"LABCARBON_URL": fake.url, "LABCARBON_TOKEN": "lc_user_fake", **node.settings}
        lone = Collector(node.root, environ)
        words = [
            "train.sh",
            "--lr",
            "0.1",
            "--password",
            PLANTED,
            f"--x=https://u:{PLANTED}@h/",
            "",
            "two words",
        ]
        assert lone.call("run", "--full-command", "--", "echo", *words).returncode == 0
        (put,) = fake.sent("PUT", "runs/")
    expected = [
        "echo",
        "train.sh",
        "--lr",
        "0.1",
        "--password",
        "(masked)",
        "--x=https://(masked)@h/",
        "''",
        "two words",
    ]
    assert put.body["command"] == expected
