"""MLflow away, refusing, lying, slow: told in plain words, asked again later, nothing lost and
nothing doubled.
"""

import base64
import time
from typing import Any

import pytest

from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.runs.models import MetricPoint, Run
from apps.trackers.mlflow import client as asking
from apps.trackers.mlflow.choices import SignIn
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.services.servers import (
    SourceIn,
    change_source,
    remove_source,
    switch_source,
    try_source,
)
from tests.builders import SmallLab
from tests.fakes.mlflow_server import FakeMlflow
from tests.trackers.mlflow_support import MS, demo, poll, source_at, training

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((401, {}, b"no"), "wants a user and password or a token: it was given none"),
        ((403, {}, b'{"message": "Permission denied"}'), "refuses (403), “Permission denied”"),
        ((403, {}, b"Invalid Host header"), "--allowed-hosts"),
        ((404, {}, b"nothing"), "no MLflow API under this address"),
        ((500, {}, b'{"message": "boom <script>"}'), "answers 500, “boom <script>”"),
        (
            (302, {"Location": "https://other.example/in?x=y"}, b""),
            "sends on to https://other.example. Redirects are not",
        ),
        ((200, {}, HTML), "web page, not with MLflow's API"),
        ((200, {}, b"hello"), "not JSON"),
        ((200, {}, b"[1]"), "not JSON"),
        ((200, {}, b"[" * 200_000), "not JSON"),
        ((200, {}, b'{"runs": {"a": 1}}'), "is not a list"),
        ((200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"), "compresses its response"),
        ("half", "was truncated"),
        ("huge", "returned more than 8 MiB"),
    ],
)
def test_what_goes_wrong_is_told_and_mends_itself(
    fake: FakeMlflow, source: MlflowSource, wrong: Any, words: str
) -> None:
    training(fake, "a1")
    fake.faults["/runs/search"] = wrong
    assert words in poll(source).problem
    source.refresh_from_db()
    assert words in source.problem
    assert (source.failures, source.succeeded_us, Run.objects.count()) == (1, None, 0)
    assert source.due_us - (source.polled_us or 0) == 120_000_000
    fake.faults.clear()
    assert poll(source).problem == ""
    source.refresh_from_db()
    assert (source.failures, source.problem, Run.objects.count()) == (0, "", 1)


def test_a_server_that_is_away(fake: FakeMlflow, source: MlflowSource) -> None:
    MlflowSource.objects.filter(pk=source.pk).update(address="http://127.0.0.1:1")
    assert "refused the connection: is the server running?" in poll(source).problem
    MlflowSource.objects.filter(pk=source.pk).update(address="http://no-such-host.invalid")
    assert "is unknown" in poll(source).problem


def test_patience_doubles_up_to_an_hour_and_retry_after_holds(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    waits = []
    fake.faults["*"] = (500, {}, b"")
    for _ in range(8):
        poll(source)
        source.refresh_from_db()
        waits.append((source.due_us - (source.polled_us or 0)) // 60_000_000)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    fake.faults["*"] = (429, {"Retry-After": "7200"}, b"")
    assert "limits the request rate (429)" in poll(source).problem
    source.refresh_from_db()
    assert source.due_us - (source.polled_us or 0) == 7200 * 1_000_000


def test_a_server_that_drips_is_given_up_in_time(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.5)
    fake.faults["*"] = "drips"
    begun = time.monotonic()
    assert "did not respond within 0.5 s" in poll(source).problem
    assert time.monotonic() - begun < 60  # it would drip for ever


def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    for i in range(25):
        training(fake, f"r{i:02}", start_ms=MS + i)
    fake.faults["/runs/search"] = "huge_pages"
    assert poll(source).problem == ""
    assert Run.objects.count() == 25


def test_half_a_history_is_gone_on_with(fake: FakeMlflow, source: MlflowSource) -> None:
    training(fake, "a1")
    fake.faults["/metrics/get-history"] = "half"
    assert "truncated" in poll(source).problem
    assert (Run.objects.count(), MetricPoint.objects.count()) == (1, 0)
    fake.faults.clear()
    poll(source)
    assert (Run.objects.count(), MetricPoint.objects.count()) == (1, 5)


def test_one_run_that_cannot_be_read_holds_up_nobody(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        training(fake, f"r{i}", start_ms=MS + i, over=False)
    respond = fake.respond
    bad = {"r0"}
    monkeypatch.setattr(
        fake,
        "respond",
        lambda path, body, query: (
            None if query.get("run_id") in bad else respond(path, body, query)
        ),
    )
    for status in (404, 404):  # again and again
        assert poll(source).problem == "", status
    assert (Run.objects.count(), MetricPoint.objects.count()) == (3, 10)
    assert "Its metrics: " in MlflowRun.objects.get(mlflow_id="r0").problem
    bad.clear()
    poll(source)
    assert MetricPoint.objects.count() == 15
    assert MlflowRun.objects.get(mlflow_id="r0").problem == ""


def test_pages_that_go_round_in_circles(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fake, "_paged", lambda name, rows, token, size: {name: rows, "next_page_token": "x"}
    )
    training(fake, "a1")
    assert "repeats the same page token" in poll(source).problem


def test_what_is_no_run_is_passed_over(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    training(fake, "a1")
    respond = fake.respond

    def odd(path: str, body: dict[str, Any], query: dict[str, str]) -> Any:
        found = respond(path, body, query)
        if path == "/runs/search":
            found["runs"] = [{"info": {"run_id": "a b' OR 1"}}, {"data": {}}, 7, *found["runs"]]
        return found

    monkeypatch.setattr(fake, "respond", odd)
    assert poll(source).problem == ""
    assert Run.objects.get().external_ids.get().value == "a1"


def test_text_that_cannot_be_stored(fake: FakeMlflow, source: MlflowSource) -> None:
    run = training(fake, "a1", **{"na\x00me": "\ud800x"})
    run.tags["t\x00"] = "\x00" * 3
    run.metrics["bad\x00metric"] = [(MS, 1, 0.5)]
    assert poll(source).problem == ""
    assert "na\ufffdme" in Run.objects.get().params


def test_a_run_with_too_much_of_everything(fake: FakeMlflow, source: MlflowSource) -> None:
    many = {f"p{i}": str(i) for i in range(700)}
    run = training(fake, "a1", **many)
    run.tags |= {f"t{i}": "x" * 3000 for i in range(300)}
    run.params["long"] = "y" * 6000
    run.name = "n" * 900
    assert poll(source).problem == ""
    stored = Run.objects.select_related("fingerprint").get()
    assert len(stored.params) == 500
    assert stored.fingerprint.params is None  # a part of them would match what differs


def test_its_clock_is_compared(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll(source)
    source.refresh_from_db()
    assert source.skew_us is not None


def test_user_and_password_or_a_token_go_along(fake: FakeMlflow, lab: SmallLab) -> None:
    fake.password = "Basic " + base64.b64encode(b"ada:s3cret pass").decode()
    source = source_at(fake, lab, sign_in=SignIn.PASSWORD, user="ada", secret="s3cret pass")
    assert try_source(source) == (True, "Reached, MLflow 3.4.0, 1 experiment.")
    assert "s3cret" not in str(list(MlflowSource.objects.values()))
    fake.password = "Bearer tok"
    good, words = try_source(source)
    assert (good, "wrong or has ended (401)" in words) == (False, True)
    told = SourceIn(
        name="MLflow", address=fake.address, project=demo(lab), sign_in=SignIn.TOKEN, secret="tok"
    )
    source = change_source(source=source, payload=told, by=lab.owner, now=now_us())
    assert try_source(source)[0]


def test_a_password_whose_pepper_is_gone_is_told(
    fake: FakeMlflow, lab: SmallLab, settings: Any
) -> None:
    source = source_at(fake, lab, sign_in=SignIn.TOKEN, secret="tok")
    settings.TOKEN_PEPPERS = {2: b"another pepper of 32 bytes, at least"}
    assert "Enter it again" in poll(source).problem
    assert fake.requested_paths == []


def test_it_is_asked_every_minute_until_it_is_switched_off_or_removed(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    training(fake, "a1")
    run_until_idle(worker="test")
    assert Run.objects.count() == 1
    waiting = Job.objects.get(kind="trackers.mlflow_again")
    source.refresh_from_db()
    assert waiting.due_us == source.due_us
    switch_source(source=source, enabled=False, by=lab.owner, now=now_us())
    Job.objects.update(due_us=0)
    fake.requested_paths.clear()
    run_until_idle(worker="test")
    assert fake.requested_paths == []
    assert (
        not Job.objects.filter(kind__startswith="trackers.mlflow", requested__gt=0)
        .exclude(done=1)
        .exclude(done=2)
        .exists()
    )
    switch_source(source=source, enabled=True, by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    assert "/runs/search" in fake.requested_paths
    remove_source(source=source, by=lab.owner, now=now_us())
    Job.objects.update(due_us=0)
    fake.requested_paths.clear()
    run_until_idle(worker="test")
    assert (fake.requested_paths, Run.objects.count()) == ([], 1)


def test_a_removed_server_that_is_added_again_counts_nothing_twice(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    from apps.ingest.models import EnergyWindow
    from tests.trackers.mlflow_support import watts

    watts(training(fake, "a1"), 100.0)
    poll(source)
    before = list(EnergyWindow.objects.values())
    remove_source(source=source, by=lab.owner, now=now_us())
    again = source_at(fake, lab)
    assert again.pk == source.pk
    poll(again)
    assert list(EnergyWindow.objects.values()) == before
    assert Run.objects.count() == 1
