"""The recorded requests and responses under tests/contract/, as the collector writes and reads
them.

The server's tests read the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.api.transport import Response, Transport
from labcarbon_collect.api.uploader import forward_runs
from labcarbon_collect.api.wire import InvalidResponse, decode_results, encode_batch, server_time
from labcarbon_collect.figure_text import emission_ug
from labcarbon_collect.runs import facts
from labcarbon_collect.sources.base import Gap
from labcarbon_collect.spool.store import Spool

from tests.collector.readings import GPU, MINUTE, SECOND, T0, minute, window
from tests.fakes import labcarbon_server as fakes

CONTRACT = Path(__file__).resolve().parents[1] / "contract"
NODE = "0e7b9c1a-0000-4000-8000-00000000000a"
BOOT = "11111111-2222-4333-8444-555555555555"
RUN = "6a1f0f3e-0000-4000-8000-000000000001"
CPU = f"cpu:{NODE}/0"
EPOCH = f"{BOOT}/nvml.1#a1b2c3d4"


def recorded(name: str) -> Any:
    return json.loads((CONTRACT / name).read_text(encoding="utf-8"))


def batch() -> dict[str, Any]:
    """Two GPU windows, one of them recovered, a modelled CPU window, and a gap."""
    gpu = minute(
        4, 18_000_000, epoch=EPOCH, shares=((f"run:{RUN}", 17_000_000), ("unknown", 1_000_000))
    )
    recovered = window(
        5,
        start_s=300,
        end_s=1500,
        energy_mj=90_000_000,
        epoch=EPOCH,
        flags=2,
        util_mean_pm=None,
        util_max_pm=None,
        mem_mean_mib=None,
        mem_max_mib=None,
        processes=0,
        shares=(("unknown", 90_000_000),),
    )
    cpu = minute(
        4,
        90_001,
        device=CPU,
        epoch=f"{BOOT}/cpu_model:2x739-2239#a1b2c3d4",
        measurement="cpu_model",
        mem_mean_mib=None,
        mem_max_mib=None,
        processes=0,
        shares=(("idle", 88_000), ("proc:ana/python", 2_001)),
    )
    return encode_batch(
        batch="77777777-0000-4000-8000-000000000001",
        sent_at_us=T0 + 30 * MINUTE,
        node=NODE,
        boot=BOOT,
        monotonic_us=1000 * SECOND + 30 * MINUTE,
        windows=[gpu, recovered, cpu],
        gaps=[Gap(GPU, f"{BOOT}/nvml.0#a1b2c3d4", T0 + MINUTE, T0 + 2 * MINUTE, "driver")],
        health={
            "source": {"nvml": {"ok": 60, "failed": 0, "ms": 41}},
            "spool": {"rows": 3, "bytes": 57344, "dead": 0},
        },
        device_facts={
            GPU: {"name": "NVIDIA H100 80GB HBM3", "tdp_w": "700"},
            CPU: {"name": "AMD EPYC 9354", "threads": "2"},
        },
    )


@pytest.fixture
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        yield fake


def test_a_batch_is_as_recorded() -> None:
    assert batch() == recorded("ingest_request.json")


def test_response_to_a_batch_is_decoded() -> None:
    reply = recorded("ingest_reply.json")
    assert decode_results(reply, expected=5) == [
        ("accepted", ""),
        ("duplicate", ""),
        ("quarantined", "overlap"),
        ("rejected", "energy_mj below zero"),
        ("retry", ""),
    ]
    assert server_time(reply) == T0 + 30 * MINUTE
    with pytest.raises(InvalidResponse):
        decode_results(reply, expected=4)


def test_error_shape_is_decoded() -> None:
    body = recorded("error_reply.json")
    assert Response(401, body).message == f"{body['error']['message']} {body['error']['hint']}"


def test_enrolment_is_as_recorded(
    server: fakes.FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from labcarbon_collect.cli import main
    from labcarbon_collect.commands import enrol

    expected = recorded("enrol_request.json")
    monkeypatch.setenv("LABCARBON_DATA", str(tmp_path))
    monkeypatch.setenv("LABCARBON_NODE_ID", NODE)
    monkeypatch.setattr(enrol, "node_facts", lambda: expected["facts"])
    server.faults = [fakes.respond_with(201, recorded("enrol_reply.json"))]
    (tmp_path / "code").write_text(expected["code"] + "\n")
    arguments = [
        "enrol",
        server.url,
        "--code-file",
        str(tmp_path / "code"),
        "--hostname",
        expected["hostname"],
    ]
    assert main(arguments) == 0
    assert server.requests[0].body == expected
    stored = tmp_path / "collector" / "node-token"
    assert stored.read_text().strip() == recorded("enrol_reply.json")["token"]
    assert stored.stat().st_mode & 0o777 == 0o600
    assert recorded("enrol_reply.json")["token"] not in capsys.readouterr().err


def test_login_is_as_recorded(
    server: fakes.FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labcarbon_collect.cli import main
    from labcarbon_collect.config import read_login

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LABCARBON_TOKEN", raising=False)
    (tmp_path / "code").write_text(recorded("login_request.json")["code"])
    server.faults = [fakes.respond_with(201, recorded("login_reply.json"))]
    assert main(["login", server.url, "--code-file", str(tmp_path / "code")]) == 0
    assert server.requests[0].body == recorded("login_request.json")
    login = read_login({"XDG_CONFIG_HOME": str(tmp_path)})
    assert login is not None
    assert (login.url, login.token) == (server.url, recorded("login_reply.json")["token"])


def test_config_gives_the_figures_of_the_summary_line() -> None:
    config = recorded("config_reply.json")
    # 1 kWh × PUE 1.5 × 329.65 g/kWh
    assert emission_ug(3_600_000_000, config) == 494_475_000
    assert emission_ug(1, config) == 0
    assert emission_ug(3_600_000_000, recorded("config_reply_no_zone.json")) is None


def test_a_run_is_as_recorded(
    server: fakes.FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, patch = recorded("run_put.json"), recorded("run_patch.json")
    monkeypatch.setattr(facts, "user_name", lambda: "ana")
    monkeypatch.setattr(facts.socket, "gethostname", lambda: "gpu-3")
    command = [
        "/home/ana/.venv/bin/python",
        "-u",
        "/home/ana/secret/train.py",
        "--api-key",
        "hunter2",
    ]
    params = facts.parse_params(
        ["lr=0.1", "epochs=3", "amp=true", "optimizer=adam", "wandb_token=abc"]
    )
    body = facts.start_facts(
        command=command,
        project="demo",
        name=None,
        params=params,
        node=NODE,
        started_us=T0 + 123_456,
    )
    assert body == put
    assert (
        facts.closing_facts(exit_code=0, killed=False, ended_us=T0 + MINUTE, energy_mj=18_000_000)
        == patch
    )
    spool = Spool(tmp_path)
    spool.runs.add_message(RUN, "PUT", body)
    spool.runs.add_message(RUN, "PATCH", patch)
    server.faults = [fakes.respond_with(200, recorded("run_put_reply.json"))]
    transport = Transport(server.url, "t")
    assert forward_runs(spool, transport, now_us=T0) is None
    transport.close()
    assert [(request.method, request.path, request.body) for request in server.requests] == [
        ("PUT", f"/api/v1/runs/{RUN}/", put),
        ("PATCH", f"/api/v1/runs/{RUN}/", patch),
    ]
    assert spool.get_value(f"warning:{RUN}") == recorded("run_put_reply.json")["warning"]
    spool.close()
