"""POST /api/v1/ingest/: a node pushes what it measured."""

import gzip
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import time_machine

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from tests.api.conftest import Labs
from tests.builders import MINUTE, T0, W, batch_body

GPU = "gpu:GPU-0000-1111"
Refused = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _now() -> Any:
    with time_machine.travel((T0 + MINUTE) / 1e6, tick=False):
        yield


def test_it_works_packed_and_plain(labs: Labs) -> None:
    body = msgspec.json.encode(batch_body(labs.ours.node, [W(GPU, 900)]))
    packed = labs.node("POST", "ingest/", gzip.compress(body), **{"Content-Encoding": "gzip"})
    assert packed.status_code == 200, packed.content
    reply = packed.json()
    assert reply == {
        "server_time": T0 + MINUTE,
        "received": T0 + MINUTE,
        "previous": None,
        "results": [["accepted"]],
    }
    again = labs.node("POST", "ingest/", body).json()
    assert again == {**reply, "previous": T0 + MINUTE, "results": [["duplicate"]]}
    older = {**batch_body(labs.ours.node, [W(GPU, 900)]), "acknowledged": T0}
    assert labs.node("POST", "ingest/", older).json()["previous"] is None
    run_until_idle(worker="test")
    assert list(LedgerEntry.objects.values_list("energy_mj", flat=True)) == [900]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.node(method, "ingest/"), 405)


def test_without_a_token(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("POST", "ingest/", batch_body(labs.ours.node, [W(GPU, 1)])), 401)


@pytest.mark.parametrize("who", ["admin", "member", "viewer"])
def test_a_person_pushes_nothing(labs: Labs, refused: Refused, who: str) -> None:
    refused(getattr(labs, who)("POST", "ingest/", batch_body(labs.ours.node, [W(GPU, 1)])), 403)
    assert not EnergyWindow.objects.exists()


def test_a_node_writes_only_its_node(labs: Labs, refused: Refused) -> None:
    error = refused(
        labs.their_node("POST", "ingest/", batch_body(labs.ours.node, [W(GPU, 1)])), 403
    )
    assert error["field"] == "node"
    assert not EnergyWindow.objects.exists()


def test_a_node_writes_only_its_own_packages(labs: Labs) -> None:
    foreign = W(f"cpu:{uuid.uuid4()}/0", 5, measurement="cpu_model", counter_start=None)
    own = W(f"cpu:{labs.ours.node.uuid}/0", 5, measurement="cpu_model", counter_start=None)
    host = W(f"host:{labs.ours.node.uuid}", 5, measurement="cpu_model", counter_start=None)
    reply = labs.node("POST", "ingest/", batch_body(labs.ours.node, [foreign, own, host])).json()
    assert [answer[0] for answer in reply["results"]] == ["rejected", "accepted", "rejected"]


@pytest.mark.parametrize("measurement", ["declared", "host_static"])
def test_a_collector_declares_nothing(labs: Labs, measurement: str) -> None:
    window = W(GPU, 5, measurement=measurement, counter_start=None)
    reply = labs.node("POST", "ingest/", batch_body(labs.ours.node, [window])).json()
    assert reply["results"] == [["rejected", "a collector cannot push this measurement"]]


def test_two_labs_may_see_the_same_gpu_and_stay_apart(labs: Labs) -> None:
    for caller, node in ((labs.node, labs.ours.node), (labs.their_node, labs.theirs.node)):
        assert caller("POST", "ingest/", batch_body(node, [W(GPU, 7)])).json()["results"] == [
            ["accepted"]
        ]
    run_until_idle(worker="test")
    assert sorted(LedgerEntry.objects.values_list("lab_id", "energy_mj")) == sorted(
        [(labs.ours.lab.pk, 7), (labs.theirs.lab.pk, 7)]
    )


BAD_BODIES = {
    "no JSON": b"lots of energy",
    "a list": b"[]",
    "a key missing": b'{"schema":"1.0"}',
    "invalid UTF-8": b'{"schema":"\xff"}',
    "nested 200 000 deep": b"[" * 200_000,
    "nested in a field": b'{"schema":"1.0","health":'
    + b'{"a":' * 100_000
    + b"1"
    + b"}" * 100_000
    + b"}",
    "empty": b"",
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_what_is_no_batch_is_refused_whole_with_a_reason(
    labs: Labs, refused: Refused, name: str
) -> None:
    error = refused(labs.node("POST", "ingest/", BAD_BODIES[name]), 400)
    assert len(error["message"]) < 500


def test_a_body_that_only_says_it_is_gzip(labs: Labs, refused: Refused) -> None:
    refused(labs.node("POST", "ingest/", b"not packed", **{"Content-Encoding": "gzip"}), 400)
    cut = gzip.compress(msgspec.json.encode(batch_body(labs.ours.node, [W(GPU, 1)])))[:-9]
    refused(labs.node("POST", "ingest/", cut, **{"Content-Encoding": "gzip"}), 400)
    refused(labs.node("POST", "ingest/", b"x", **{"Content-Encoding": "br"}), 400)


@pytest.mark.parametrize(
    ("schema", "status"),
    [
        ("0.9", 200),
        ("1.0", 200),
        ("1.7", 200),
        ("2.0", 426),
        ("10.0", 426),
        ("one", 400),
        ("", 400),
    ],
)
def test_versions_of_the_schema(labs: Labs, schema: str, status: int) -> None:
    body = batch_body(labs.ours.node, [W(GPU, 1)], schema=schema, a_key_of_a_later_version={"x": 1})
    response = labs.node("POST", "ingest/", body)
    assert response.status_code == status, response.content
    if status == 426:
        error = response.json()["error"]
        assert "keeps" in error["hint"]
        assert not EnergyWindow.objects.exists()


# What stands in one window of three, and the word that says why it was refused.
POISON: dict[str, tuple[str, bytes, str]] = {
    "NaN": ("energy_mj", b"NaN", "cannot be read"),
    "1e400": ("energy_mj", b"1e400", "energy_mj"),
    "2^63": ("energy_mj", b"9223372036854775808", "energy_mj"),
    "huge": ("energy_mj", b"1" * 400, "energy_mj"),
    "a fraction": ("energy_mj", b"1.5", "energy_mj"),
    "minus zero fraction": ("energy_mj", b"-0.5", "energy_mj"),
    "negative": ("energy_mj", b"-5", "below zero"),
    "text": ("energy_mj", b'"5"', "energy_mj"),
    "null": ("energy_mj", b"null", "energy_mj"),
    "a flag unknown": ("flags", b"64", "flags"),
    "no such device": ("device", b"9", "device"),
    "a negative device": ("device", b"-1", "device"),
    "NUL in the epoch": ("epoch", b'"a\\u0000b"', "epoch"),
    "lone surrogate": ("epoch", b'"a\\ud800b"', "epoch"),
    "epoch too long": ("epoch", b'"' + b"e" * 300 + b'"', "epoch"),
    "utilisation": ("util_mean_pm", b"1001", "utilisation"),
    "times": ("start", b"-9223372036854775808", "times"),
    "measurement": ("measurement", b'"guess"', "measurement"),
}


def _with_poison(labs: Labs, column: str, value: bytes) -> bytes:
    windows = [
        W(GPU, 10, start_us=T0 + i * 1000, end_us=T0 + (i + 1) * 1000, seq=i) for i in range(3)
    ]
    body = batch_body(labs.ours.node, windows)
    columns = body["windows"]
    assert isinstance(columns, dict)
    columns[column][1] = msgspec.Raw(value)
    return msgspec.json.encode(body)


@pytest.mark.parametrize("name", POISON)
def test_one_bad_window_costs_one_window(labs: Labs, refused: Refused, name: str) -> None:
    column, value, word = POISON[name]
    response = labs.node("POST", "ingest/", _with_poison(labs, column, value))
    if name in {"NaN", "lone surrogate"}:  # not JSON at all: nothing of the batch can be trusted
        refused(response, 400)
        return
    assert response.status_code == 200, response.content
    results = response.json()["results"]
    assert [answer[0] for answer in results] == ["accepted", "rejected", "accepted"]
    assert word in results[1][1]
    assert EnergyWindow.objects.count() == 2


def test_duplicate_keys_do_not_smuggle_energy(labs: Labs) -> None:
    body = msgspec.json.encode(batch_body(labs.ours.node, [W(GPU, 10)]))
    twice = body.replace(b'"energy_mj":[10],', b'"energy_mj":[10],"energy_mj":[99],', 1)
    assert twice != body
    response = labs.node("POST", "ingest/", twice)
    stored = list(EnergyWindow.objects.values_list("energy_mj", flat=True))
    assert response.status_code == 400 or stored == []


def test_text_of_every_kind_is_stored_or_refused_never_a_500(labs: Labs) -> None:
    for i, key in enumerate(
        (
            "proc:ada/\u202egnp.exe",
            "proc:<script>/x",
            "proc:a/\U0001f600",
            "proc:a/b\nc",
            "proc:",
            "run:x",
        )
    ):
        window = W(
            GPU, 5, start_us=T0 + i * 1000, end_us=T0 + (i + 1) * 1000, seq=i, shares=((key, 5),)
        )
        response = labs.node("POST", "ingest/", batch_body(labs.ours.node, [window]))
        assert response.status_code == 200, (key, response.content)


def test_too_many_windows(labs: Labs, refused: Refused) -> None:
    windows = [W(GPU, 1, start_us=T0 + i, end_us=T0 + i + 1, seq=i) for i in range(1001)]
    error = refused(labs.node("POST", "ingest/", batch_body(labs.ours.node, windows)), 400)
    assert "1000" in error["message"]


def test_more_on_the_wire_than_allowed(labs: Labs, refused: Refused) -> None:
    refused(labs.node("POST", "ingest/", b" " * ((1 << 20) + 1)), 413)


def test_columns_of_different_lengths(labs: Labs, refused: Refused) -> None:
    body = batch_body(labs.ours.node, [W(GPU, 1)])
    columns = body["windows"]
    assert isinstance(columns, dict)
    columns["flags"] = []
    refused(labs.node("POST", "ingest/", body), 400)


def test_impossible_power_overlap_and_conflict_are_set_aside_and_said(labs: Labs) -> None:
    good = W(GPU, 60_000)
    conflict = W(GPU, 60_001)
    overlap = W(GPU, 5, start_us=T0 + 1, epoch="other/1")
    impossible = W(GPU, 10**12, start_us=T0 + MINUTE, end_us=T0 + 2 * MINUTE, seq=3)
    answers = [
        labs.node(
            "POST", "ingest/", batch_body(labs.ours.node, [window], sent_at=T0 + MINUTE)
        ).json()["results"][0]
        for window in (good, conflict, overlap, impossible)
    ]
    assert answers == [
        ["accepted"],
        ["quarantined", "conflict"],
        ["quarantined", "overlap"],
        ["quarantined", "impossible"],
    ]
    run_until_idle(worker="test")
    assert list(LedgerEntry.objects.values_list("energy_mj", flat=True)) == [60_000]
    assert sum(QuarantinedWindow.objects.values_list("energy_mj", flat=True)) == 60_001 + 5 + 10**12


def test_a_known_gpu_is_held_to_its_own_power(labs: Labs) -> None:
    facts = {GPU: {"name": "NVIDIA A100-SXM4-80GB"}}
    within = W(GPU, 400_000 * 60)
    beyond = W(GPU, 700_000 * 60, start_us=T0 + MINUTE, end_us=T0 + 2 * MINUTE, seq=1)
    body = batch_body(labs.ours.node, [within, beyond], device_facts=facts)
    assert labs.node("POST", "ingest/", body).json()["results"] == [
        ["accepted"],
        ["quarantined", "impossible"],
    ]


def test_gaps_and_health_are_kept(labs: Labs) -> None:
    gaps = [{"device": 0, "epoch": "e/1", "from": T0, "to": T0 + 5, "reason": "driver"}]
    gaps += [{"device": 7, "epoch": "e/1", "from": T0, "to": T0 + 5, "reason": "driver"}]
    body = batch_body(
        labs.ours.node, [W(GPU, 1)], gaps=gaps, health={"source": {"nvml": {"ok": 60}}}
    )
    assert labs.node("POST", "ingest/", body).status_code == 200
    device = labs.ours.node.devices.get(key=GPU)
    assert list(device.gaps.values_list("from_us", "to_us", "reason")) == [(T0, T0 + 5, "driver")]
    labs.ours.node.refresh_from_db()
    assert labs.ours.node.health == {"source": {"nvml": {"ok": 60}}}
    assert labs.ours.node.last_push_us == T0 + MINUTE


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_poison_in_health_facts_or_gaps_is_no_500(labs: Labs, text: str) -> None:
    poison = {"health": {"x": text}, "device_facts": {GPU: {"name": text}}}
    poison["gaps"] = [{"device": 0, "epoch": text, "from": T0, "to": T0 + 5, "reason": text}]  # type: ignore[assignment]
    for key, value in poison.items():
        import json

        body = json.dumps(batch_body(labs.ours.node, [W(GPU, 1)], **{key: value})).encode()
        response = labs.node("POST", "ingest/", body)
        assert response.status_code in {200, 400}, (key, response.content)


@pytest.mark.parametrize(
    ("low", "high"), [(-(2**63), 2**63 - 1), (2**63 - 2, 2**63 - 1), (T0 + 5, T0)]
)
def test_gaps_of_impossible_times_are_no_500(labs: Labs, low: int, high: int) -> None:
    gaps = [{"device": 0, "epoch": "e/1", "from": low, "to": high, "reason": "driver"}]
    body = batch_body(labs.ours.node, [W(GPU, 1)], gaps=gaps)
    assert labs.node("POST", "ingest/", body).json()["results"] == [["accepted"]]


@pytest.mark.parametrize("field", ["sent_at", "monotonic"])
@pytest.mark.parametrize("value", [-(2**63), 0, 2**63 - 1])
def test_clocks_of_impossible_times_are_no_500(labs: Labs, field: str, value: int) -> None:
    body = batch_body(labs.ours.node, [W(GPU, 1)])
    body[field] = value
    response = labs.node("POST", "ingest/", body)
    assert response.status_code in {200, 400}, response.content


SHARE_POISON = {
    "text": b'"5"',
    "1e400": b"1e400",
    "null": b"null",
    "a fraction": b"1.5",
    "huge": b"1" * 5000,
}


@pytest.mark.parametrize("column", ["consumer", "energy_mj"])
@pytest.mark.parametrize("name", SHARE_POISON)
def test_one_bad_share_costs_one_window(labs: Labs, name: str, column: str) -> None:
    windows = [
        W(GPU, 10, start_us=T0 + i * 1000, end_us=T0 + (i + 1) * 1000, seq=i) for i in range(3)
    ]
    body = batch_body(labs.ours.node, windows)
    columns = body["shares"]
    assert isinstance(columns, dict)
    columns[column][1] = msgspec.Raw(SHARE_POISON[name])
    response = labs.node("POST", "ingest/", msgspec.json.encode(body))
    assert response.status_code == 200, response.content
    assert [answer[0] for answer in response.json()["results"]] == [
        "accepted",
        "rejected",
        "accepted",
    ]


def test_health_nested_beyond_the_limit(labs: Labs, refused: Refused) -> None:
    deep: Any = 1
    for _ in range(9):
        deep = {"a": deep}
    refused(labs.node("POST", "ingest/", batch_body(labs.ours.node, [W(GPU, 1)], health=deep)), 400)
