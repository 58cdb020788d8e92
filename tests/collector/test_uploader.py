"""Uploads to a server that responds, rejects, violates the contract, hangs and drops connections.

No window is lost and none is counted twice.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.api import upload_thread
from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.transport import (
    MAX_RESPONSE_BYTES,
    InvalidUrlError,
    ServerUnavailable,
    Transport,
    retry_after,
)
from labcarbon_collect.api.upload_thread import UploadThread
from labcarbon_collect.api.uploader import Uploader, UploadState, fetch_config, forward_runs
from labcarbon_collect.clock import Clock
from labcarbon_collect.config import Login, save_enrolment
from labcarbon_collect.node_identity import read_clock
from labcarbon_collect.spool.store import Spool

from tests.collector.collector_process import wait_for
from tests.collector.readings import MINUTE, T0, minute
from tests.fakes import labcarbon_server as fakes
from tests.fakes.labcarbon_server import FakeServer

NODE = "0e7b9c1a-0000-4000-8000-00000000000a"
BOOT = "11111111-2222-4333-8444-555555555555"
COUNT = 12


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fakes.running() as fake:
        yield fake


OPENED: list[Transport] = []


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def connect(url: str, token: str | None = "lc_node_secret", **options: Any) -> Transport:
    OPENED.append(Transport(url, token, **options))
    return OPENED[-1]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path)
    spool.append(boot=BOOT, windows=[minute(seq) for seq in range(COUNT)])
    yield spool
    spool.close()


def uploader_for(spool: Spool, url: str, **options: Any) -> Uploader:
    transport = connect(url, deadline_s=options.pop("deadline_s", 5.0))
    return Uploader(
        spool,
        transport,
        node=NODE,
        boot=BOOT,
        interval_us=MINUTE,
        random_unit=lambda: 0.5,
        now=lambda: Clock(5_000_000_000, T0 + COUNT * MINUTE),
        **options,
    )


def upload_all(uploader: Uploader) -> UploadState:
    state = uploader.upload_batch()
    for _ in range(50):
        if not state.more and state.ok:
            break
        state = uploader.upload_batch()
    return state


def test_all_windows_arrive_one_time_and_leave_the_spool(server: FakeServer, spool: Spool) -> None:
    state = uploader_for(spool, server.url).upload_batch()
    assert (state.ok, state.windows, state.more) == (True, COUNT, False)
    assert (spool.depth().rows, server.stored_mj) == (0, COUNT * 600)
    assert server.requests[0].token == "lc_node_secret"
    assert abs(state.skew_us or 0) > 0


@pytest.mark.parametrize(
    ("result", "remaining", "dead"),
    [
    ("accepted", 0, 0), ("duplicate", 0, 0), ("quarantined", 0, 0), ("rejected", 0, COUNT),
    ("retry", COUNT, 0), ("new", COUNT, 0),
],
)  # fmt: skip
def test_each_result_follows_the_contract(
    server: FakeServer, spool: Spool, result: str, remaining: int, dead: int
) -> None:
    server.window_result = lambda row, energy: [result, "because"]
    state = uploader_for(spool, server.url).upload_batch()
    assert (spool.depth().rows, spool.depth().dead) == (remaining, dead)
    assert state.ok
    assert not state.more
    if remaining:
        assert state.wait_s >= 1


def test_rejected_window_does_not_block_others(server: FakeServer, spool: Spool) -> None:
    server.window_result = lambda row, energy: (
        ["rejected", "energy_mj below zero"] if row == 7 else ["accepted"]
    )
    state = uploader_for(spool, server.url).upload_batch()
    assert (state.windows, spool.depth().rows, spool.depth().dead) == (COUNT, 0, 1)
    assert spool.result_totals() == {
        "accepted": (COUNT - 1, (COUNT - 1) * 600),
        "rejected": (1, 600),
    }


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 426, 429, 500, 502, 503])
def test_rejected_batch_stays_in_the_spool(server: FakeServer, spool: Spool, status: int) -> None:
    server.faults = [fakes.error_response(status, "not now")]
    state = uploader_for(spool, server.url).upload_batch()
    assert not state.ok
    assert "not now" in state.error
    assert spool.depth().rows == COUNT
    assert state.wait_s >= 1


def test_error_messages_of_the_server_name_the_fix(server: FakeServer, spool: Spool) -> None:
    message = {}
    for status in (302, 401, 426):
        server.faults = [fakes.error_response(status, Location="https://elsewhere.example")]
        message[status] = uploader_for(spool, server.url).upload_batch().error
    assert f"labcarbon-collect enrol {server.url}" in message[401]
    assert "pip install --upgrade labcarbon-collect" in message[426]
    assert "LABCARBON_URL" in message[302]


def test_a_retired_node_keeps_everything_and_names_the_fix(
    server: FakeServer, spool: Spool
) -> None:
    hint = "Choose “Use again” at http://lab/nodes/1/."
    error = {"code": "node_retired", "message": "This node is retired.", "hint": hint}
    server.faults = [fakes.respond_with(401, {"error": error})]
    state = uploader_for(spool, server.url).upload_batch()
    assert not state.ok
    assert f"{hint.rstrip('.')}; all windows are kept" in state.error
    assert "rejects this node's token" not in state.error
    assert spool.depth().rows == COUNT


def test_redirect_is_not_followed_and_sends_no_token(server: FakeServer, spool: Spool) -> None:
    with fakes.running() as another:
        server.faults = [fakes.error_response(307, Location=f"{another.url}/api/v1/ingest/")]
        assert not uploader_for(spool, server.url).upload_batch().ok
        assert another.requests == []
    assert spool.depth().rows == COUNT


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed_as_seconds_and_as_date(
    server: FakeServer, spool: Spool, status: int
) -> None:
    server.faults = [fakes.error_response(status, Retry_After="120")]
    assert uploader_for(spool, server.url).upload_batch().wait_s == 120
    server.faults = [
        fakes.error_response(status, Retry_After=formatdate(time.time() + 90, usegmt=True))
    ]
    assert 60 < uploader_for(spool, server.url).upload_batch().wait_s <= 90


def test_retry_after_is_at_most_an_hour_and_nonsense_is_ignored() -> None:
    assert retry_after("86400", now_s=0) == 3600
    assert retry_after(formatdate(10**9 + 7, usegmt=True), now_s=10**9) == 7
    assert retry_after(formatdate(5, usegmt=True), now_s=10**9) == 0
    assert [retry_after(text, now_s=0) for text in (None, "", "soon", "-5", "²")] == [None] * 5


def test_full_jitter_spreads_and_is_bounded() -> None:
    assert full_jitter(0, random_unit=lambda: 0.0) == 1
    assert full_jitter(3, random_unit=lambda: 0.999) < 9
    assert full_jitter(500, random_unit=lambda: 0.999) <= 301
    assert len({round(full_jitter(9), 6) for _ in range(50)}) > 40


@pytest.mark.parametrize(
    "fault", [fakes.drop_connection, fakes.store_and_drop_connection, fakes.truncate_response]
)
def test_a_cut_connection_loses_nothing_and_counts_nothing_twice(
    server: FakeServer, spool: Spool, fault: Any
) -> None:
    server.faults = [fault, fault]
    uploader = uploader_for(spool, server.url)
    assert not uploader.upload_batch().ok
    assert spool.depth().rows == COUNT
    server.faults = []
    assert upload_all(uploader).ok
    assert (spool.depth().rows, server.stored_mj) == (0, COUNT * 600)


def test_stale_connection_is_reopened(server: FakeServer, spool: Spool) -> None:
    uploader = uploader_for(spool, server.url)
    assert uploader.upload_batch().ok
    spool.append(boot=BOOT, windows=[minute(COUNT)])
    server.faults = [fakes.drop_connection]
    assert uploader.upload_batch().ok
    assert server.stored_mj == (COUNT + 1) * 600


def test_slow_response_times_out(server: FakeServer, spool: Spool) -> None:
    server.faults = [fakes.trickle_response]
    started_s = time.monotonic()
    state = uploader_for(spool, server.url, deadline_s=0.4).upload_batch()
    assert time.monotonic() - started_s < 15
    assert not state.ok
    assert spool.depth().rows == COUNT


def test_oversized_response_is_not_read(server: FakeServer, spool: Spool) -> None:
    server.faults = [fakes.respond_with(200, b" " * (MAX_RESPONSE_BYTES + 4096))]
    state = uploader_for(spool, server.url).upload_batch()
    assert not state.ok
    assert "larger" in state.error


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>",
        b"[" * 100_000,
        {"results": []},
        {"results": [["accepted"]]},
        {"results": "yes"},
        [],
        None,
        {"results": None},
        {"results": [["accepted"]] * COUNT, "received": 10**30, "previous": None},
        {"results": [["accepted"]] * COUNT, "received": 1, "previous": -(10**30)},
        b'{"results": [' + b",".join([b'["rejected", "\\ud800"]'] * COUNT) + b"]}",
    ],
)
def test_invalid_response_keeps_all_windows(server: FakeServer, spool: Spool, reply: Any) -> None:
    server.faults = [fakes.respond_with(200, reply)]
    assert not uploader_for(spool, server.url).upload_batch().ok
    assert spool.depth().rows == COUNT


def start_upload_thread(folder: Path) -> UploadThread:
    home = folder / "collector"
    home.mkdir(mode=0o700)
    save_enrolment(home, Login("http://127.0.0.1:9", "lc_node_secret"), NODE)
    thread = UploadThread(
        home=home,
        environ={},
        node=NODE,
        boot=BOOT,
        interval_us=MINUTE,
        now=read_clock,
        health=dict,
        device_facts=dict,
    )
    thread.start()
    return thread


def test_a_locked_spool_delays_the_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended them, until the daemon was restarted."""
    answers = iter([sqlite3.OperationalError("database is locked")])

    def upload(uploader: Uploader) -> UploadState:
        if (error := next(answers, None)) is not None:
            raise error
        return UploadState(ok=True, at_us=1)

    monkeypatch.setattr(Uploader, "upload_batch", upload)
    monkeypatch.setattr(upload_thread, "_SPOOL_WAIT_S", 0.2)
    thread = start_upload_thread(tmp_path)
    wait_for(lambda: "database is locked" in thread.state.error)
    wait_for(lambda: thread.state.ok)
    assert not thread.damaged
    thread.stop()


def test_an_error_that_ends_the_uploads_is_their_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread ended with the state of its start: "not enrolled"."""

    def fail(uploader: Uploader) -> UploadState:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Uploader, "upload_batch", fail)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    thread = start_upload_thread(tmp_path)
    wait_for(lambda: "a defect" in thread.state.error)
    assert "restart the daemon" in thread.state.error
    assert not thread.state.ok
    thread.stop()


def test_a_batch_the_server_cannot_read_is_halved_until_the_good_part_passes(
    server: FakeServer, spool: Spool
) -> None:
    server.faults = [fakes.error_response(400)] * 3
    uploader = uploader_for(spool, server.url)
    for _ in range(3):
        assert not uploader.upload_batch().ok
    assert upload_all(uploader).ok
    assert [len(request.body["windows"]["seq"]) for request in server.requests][:3] == [12, 12, 12]
    assert server.stored_mj == COUNT * 600


def test_unacceptable_window_does_not_block_others_for_ever(
    server: FakeServer, spool: Spool
) -> None:
    def refuses_poison(handler: Any) -> None:
        poison = 0 in handler.body["windows"]["seq"]
        (
            fakes.error_response(400, "unreadable")
            if poison
            else fakes.respond_with(200, server.ingest(handler.body))
        )(handler)

    server.faults = [refuses_poison] * 200
    uploader = uploader_for(spool, server.url)
    for _ in range(100):
        uploader.upload_batch()
    assert [window.seq for window in spool.windows()] == [0]
    assert server.stored_mj == (COUNT - 1) * 600


def test_unsent_windows_can_be_merged(spool: Spool) -> None:
    state = uploader_for(spool, "http://127.0.0.1:1").upload_batch()
    assert not state.ok
    assert "check that the server is running" in state.error
    assert spool.merge(bucket_us=10 * MINUTE, before_us=T0 + 10 * MINUTE) == 9


def test_backlog_is_sent_in_batches_of_five_hundred(server: FakeServer, tmp_path: Path) -> None:
    home = tmp_path / "big"
    home.mkdir()
    spool = Spool(home)
    spool.append(boot=BOOT, windows=[minute(seq) for seq in range(1203)])
    assert upload_all(uploader_for(spool, server.url)).ok
    spool.close()
    assert [len(request.body["windows"]["seq"]) for request in server.requests] == [500, 500, 203]
    assert server.stored_mj == 1203 * 600


@pytest.mark.parametrize(
    "url",
    [
    "http://labcarbon.example.org", "ftp://127.0.0.1", "labcarbon.example.org",
    "http://user@127.0.0.1", "https://a.example?x=1", "http://127.0.0.1.evil.example",
    "http://0177.0.0.1",
],
)  # fmt: skip
def test_token_is_never_sent_over_http_to_another_machine(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        Transport(url, "lc_node_secret")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://localhost:8000/",
        "http://[::1]:8000",
        "https://a.example/labcarbon/",
    ],
)
def test_loopback_and_https_are_fine(url: str) -> None:
    Transport(url, "lc_node_secret")


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:x", "http://[::1"])
def test_a_url_without_a_valid_host_or_port_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrlError, match="is no server URL"):
        Transport(url, "lc_node_secret")


@pytest.mark.parametrize("token", ["lc_node_\nsecret", "lc_node_secret\u00fc"])
def test_an_invalid_token_is_refused_without_printing_it(token: str) -> None:
    with pytest.raises(InvalidUrlError) as refused:
        Transport("http://127.0.0.1:9", token)
    assert "secret" not in str(refused.value)


def test_config_is_fetched_and_stored(server: FakeServer, spool: Spool) -> None:
    server.config = {"server_time": T0, "factor": None}
    transport = connect(server.url)
    assert fetch_config(spool, transport) is None
    assert spool.get_value("config") == '{"server_time": 1793606400000000, "factor": null}'
    server.faults = [fakes.error_response(503, "later")]
    assert "later" in (fetch_config(spool, transport) or "")


def _queue(spool: Spool, *runs: str) -> None:
    for run in runs:
        spool.runs.add_message(run, "PUT", {"project": "nosuch"})
        spool.runs.add_message(run, "PATCH", {"state": "finished"})


def _waiting(spool: Spool) -> list[tuple[str, str]]:
    """Return (run, verb) of all messages in the outbox, in order."""
    with closing(sqlite3.connect(spool.home / "spool.db")) as database:
        return database.execute("SELECT uuid, verb FROM outbox ORDER BY id").fetchall()


def test_run_messages_are_forwarded_in_order(server: FakeServer, spool: Spool) -> None:
    _queue(spool, "a", "b")
    transport = connect(server.url)
    server.faults = [fakes.error_response(503)]
    assert forward_runs(spool, transport, now_us=T0)
    assert len(_waiting(spool)) == 4
    assert forward_runs(spool, transport, now_us=T0) is None
    assert _waiting(spool) == []
    assert spool.get_value("warning:b") == "There is no project 'nosuch'."
    assert [server.runs[run]["state"] for run in ("a", "b")] == ["finished", "finished"]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_a_refused_run_is_kept_and_blocks_no_other(
    server: FakeServer, spool: Spool, status: int
) -> None:
    _queue(spool, "a", "b")
    transport = connect(server.url)
    server.run_errors = {"a": (status, "x")}
    assert "belongs to another node" in (forward_runs(spool, transport, now_us=T0) or "")
    assert server.runs["b"]["state"] == "finished"
    assert _waiting(spool) == [("a", "PUT"), ("a", "PATCH")]
    assert len(server.sent("PATCH", "runs/a")) == 0  # the end of a run is not sent before its start
    refused = spool.runs.refused_messages()
    assert refused.count == 2
    assert "belongs to another node" in refused.reason


def test_a_refused_run_is_sent_again_later(server: FakeServer, spool: Spool) -> None:
    _queue(spool, "a")
    transport = connect(server.url)
    server.run_errors = {"a": (403, "forbidden")}
    forward_runs(spool, transport, now_us=T0)
    assert forward_runs(spool, transport, now_us=T0 + MINUTE) is None
    assert len(server.sent("PUT", "runs/a")) == 1
    server.run_errors = {}
    assert forward_runs(spool, transport, now_us=T0 + 11 * MINUTE) is None
    assert server.runs["a"] == {"project": "nosuch", "state": "finished"}
    assert _waiting(spool) == []
    assert spool.runs.refused_messages().count == 0


def test_a_clock_that_was_set_back_does_not_delay_a_refused_run(
    server: FakeServer, spool: Spool
) -> None:
    _queue(spool, "a")
    transport = connect(server.url)
    server.run_errors = {"a": (403, "forbidden")}
    forward_runs(spool, transport, now_us=T0)
    server.run_errors = {}
    assert forward_runs(spool, transport, now_us=T0 - 3600 * MINUTE) is None
    assert _waiting(spool) == []


def test_many_refused_messages_block_no_other(server: FakeServer, spool: Spool) -> None:
    for _ in range(150):
        spool.runs.add_message("a", "PATCH", {"state": "finished"})
    _queue(spool, "b")
    transport = connect(server.url)
    server.run_errors = {"a": (403, "forbidden")}
    for round_ in range(2):
        forward_runs(spool, transport, now_us=T0 + round_)
    assert server.runs["b"]["state"] == "finished"
    assert len(server.sent("PATCH", "runs/a")) == 1


def test_a_message_that_the_server_stores_for_a_decision_leaves_the_spool(
    server: FakeServer, spool: Spool
) -> None:
    _queue(spool, "a", "b")
    transport = connect(server.url)
    server.run_errors = {"a": (403, "pending_decision")}
    assert forward_runs(spool, transport, now_us=T0)
    assert _waiting(spool) == []
    assert server.runs["b"]["state"] == "finished"
    assert "belongs to another node" in (spool.get_value("warning:a") or "")
    assert not spool.runs.has_pending("a")


def test_a_refused_message_is_not_waited_for(server: FakeServer, spool: Spool) -> None:
    _queue(spool, "a")
    server.run_errors = {"a": (403, "forbidden")}
    forward_runs(spool, connect(server.url), now_us=T0)
    assert not spool.runs.has_pending("a")
    assert "belongs to another node" in (spool.get_value("warning:a") or "")


def test_a_rejected_token_keeps_all_messages(server: FakeServer, spool: Spool) -> None:
    _queue(spool, "a", "b")
    server.faults = [fakes.error_response(401, "bad token")]
    assert "bad token" in (forward_runs(spool, connect(server.url), now_us=T0) or "")
    assert len(_waiting(spool)) == 4
    assert len(server.requests) == 1


def test_the_number_of_refused_run_messages_is_uploaded(server: FakeServer, spool: Spool) -> None:
    _queue(spool, "a")
    server.run_errors = {"a": (403, "forbidden")}
    forward_runs(spool, connect(server.url), now_us=T0)
    uploader_for(spool, server.url).upload_batch()
    health = server.sent("POST", "ingest/")[0].body["health"]
    assert health["spool"]["refused_run_messages"] == 2


def test_codes_are_not_sent_twice(server: FakeServer) -> None:
    transport = connect(server.url)
    assert transport.call("GET", "config/").status == 200
    server.faults = [fakes.drop_connection]
    with pytest.raises(ServerUnavailable):
        transport.call("POST", "enrol/", {"code": "x"})
    assert len(server.sent("POST", "enrol/")) == 1


def test_interpreter_shutdown_prints_no_traceback(
    server: fakes.FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since Python 3.12 a thread that sends during interpreter shutdown cannot start the timer of
    its deadline.
    """

    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(ServerUnavailable, match="Python starts no thread during shutdown"):
        connect(server.url).call("GET", "config/")
