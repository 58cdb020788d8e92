"""/codecarbon/<token>/…: exactly 201, never a redirect, kept as it came, counted once."""

import uuid

import msgspec
import pytest
from django.test import Client

from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import Role
from apps.accounts.models import Membership, Token
from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.core.units import MJ_PER_KWH
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow
from apps.runs.models import ExternalId, Run
from apps.trackers.codecarbon.choices import Channel
from apps.trackers.codecarbon.models import CodeCarbonInterval, CodeCarbonPost, CodeCarbonRun
from tests.api.conftest import Caller
from tests.builders import T0, SmallLab, small_lab
from tests.trackers.support import HARDWARE, Tracker, emission, iso, stored, tracker, work

END = T0 + 120_000_000


def test_an_interval_becomes_windows_of_a_run(lab: SmallLab) -> None:
    cc = tracker(lab)
    run = cc.begin()
    cc.emit(run, at_us=END, gpu=0.01, cpu=0.003, ram=0.0002)
    work()
    assert stored(cc.source) == [
        ("cpu", T0, END, 10_800_000),
        ("gpu", T0, END, 36_000_000),
        ("ram", T0, END, 720_000),
    ]
    found = Run.objects.get()
    assert (found.reported_by, found.charged_project.slug, found.started_us, found.params) == (
        "codecarbon",
        "demo",
        T0,
        {},
    )  # type: ignore[union-attr]
    assert ExternalId.objects.get().value == run
    assert {window.share_quality for window in EnergyWindow.objects.all()} == {2}
    assert {window.energy_quality for window in EnergyWindow.objects.all()} == {2}
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 47_520_000
    interval = CodeCarbonInterval.objects.get()
    assert interval.client_ug == 5_280_000  # 13.2 Wh × 0.4 kg/kWh, beside ours
    figures = Caller(issue_user_token(lab=lab.lab, user=lab.owner, now=now_us()))
    asked = (
        f"figures/?metric=energy_mj&subject=run:{found.uuid}&from=2026-11-01T00:00Z&"
        "to=2026-11-10T00:00Z"
    )
    assert msgspec.json.decode(figures("GET", asked).content)["value"] == 47_520_000


@pytest.mark.parametrize(
    "door", ["/emissions", "/emission", "//emissions", "/emissions/", "//emission//"]
)
def test_every_spelling_is_taken_without_a_redirect(lab: SmallLab, door: str) -> None:
    cc = tracker(lab)
    answer = cc.post(door, emission(cc.begin(), at_us=END, cpu=0.001))
    assert (answer.status_code, answer.content) == (201, b"")


@pytest.mark.parametrize("door", ["/runs", "/run", "//runs"])
def test_runs_in_every_spelling(lab: SmallLab, door: str) -> None:
    answer = tracker(lab).post(door, {"timestamp": iso(T0), **HARDWARE})
    assert answer.status_code == 201
    assert uuid.UUID(msgspec.json.decode(answer.content)["id"])


def test_the_token_may_come_as_a_header(lab: SmallLab) -> None:
    cc = tracker(lab)
    assert cc.post("/runs", HARDWARE, **{"x-api-token": cc.token}).status_code == 201
    assert cc.post("/runs", HARDWARE, **{"x-api-token": "api_key"}).status_code == 401


def test_only_post(lab: SmallLab) -> None:
    cc = tracker(lab)
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = Client().generic(method, f"/codecarbon/{cc.token}/runs")
        assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert cc.post("/experiments", {}).status_code == 404


def test_a_wrong_token_says_what_mends_it(lab: SmallLab) -> None:
    cc = tracker(lab)
    for wrong in (cc.token[:-1] + ("0" if cc.token[-1] != "0" else "1"), "nonsense", ""):
        answer = Tracker(cc.source, wrong).post("/runs", HARDWARE)
        if wrong:
            error = msgspec.json.decode(answer.content)["error"]
            assert (answer.status_code, error["code"]) == (401, "bad_token")
            assert "/trackers/codecarbon/" in error["hint"]
        else:
            assert answer.status_code == 401  # no token at all
    user = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    assert Tracker(cc.source, user).post("/runs", HARDWARE).status_code == 401
    assert CodeCarbonRun.objects.count() == 0


def test_the_token_reads_nothing_and_writes_nothing_else(lab: SmallLab) -> None:
    bearer = Caller(tracker(lab).token)
    for method, path in (
        ("GET", "runs/"),
        ("GET", "config/"),
        ("POST", "ingest/"),
        ("PUT", f"runs/{uuid.uuid4()}/"),
    ):
        assert bearer(method, path, {}).status_code == 401


def test_it_ends_with_its_maker_and_by_hand(lab: SmallLab) -> None:
    cc = tracker(lab)
    membership = Membership.objects.get(lab=lab.lab, user=lab.owner)
    membership.role = Role.VIEWER
    membership.save()
    assert cc.post("/runs", HARDWARE).status_code == 401
    membership.role = Role.MEMBER
    membership.save()
    forget_tokens()
    assert cc.post("/runs", HARDWARE).status_code == 201
    Token.objects.filter(kind="cc").update(revoked_us=now_us())
    forget_tokens()
    answer = cc.post("/runs", HARDWARE)
    assert answer.status_code == 401
    assert b"revoked" in answer.content


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        (b'{"run_id": NaN}', 400, "not JSON"),
        (b"{" + b'"a":1,' * 20_000 + b'"b":1}', 413, "64 KiB"),
        (b'{"run_id": "None"}', 400, "is no UUID"),
        (b"\xff\xfe", 400, "not JSON"),
    ],
)
def test_what_is_no_message_is_refused_in_words(
    lab: SmallLab, body: bytes, status: int, words: str
) -> None:
    answer = tracker(lab).post("/emissions", body)
    assert answer.status_code == status
    assert words in msgspec.json.decode(answer.content)["error"]["message"]
    assert CodeCarbonPost.objects.count() == 0


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"cpu_energy": "many"}, "not a number"),
        ({"cpu_energy": -0.1}, "cpu_energy is -0.1"),
        ({"gpu_energy": 1e300}, "gpu_energy is"),
        ({"duration": None}, "not a number"),
        ({"timestamp": "yesterday"}, "is no time"),
        ({"timestamp": "0001-01-01T00:00:00+00:00"}, "out of range"),
        ({"cpu_energy": True}, "not a number"),
    ],
)
def test_what_cannot_be_read_is_kept_and_says_why(
    lab: SmallLab, told: dict[str, object], problem: str
) -> None:
    cc = tracker(lab)
    run = cc.begin()
    assert cc.post("/emissions", {**emission(run, at_us=END, cpu=0.001), **told}).status_code == 201
    cc.emit(run, at_us=END, cpu=0.002)
    work()
    first, second = CodeCarbonPost.objects.order_by("id")
    assert problem in first.problem
    assert (first.processed, second.processed, second.problem) == (True, True, "")
    assert msgspec.json.decode(bytes(first.body))["run_id"] == run


def test_the_clients_pue_is_divided_out_exactly(lab: SmallLab) -> None:
    cc = tracker(lab, pue_ppm=1_250_000)
    cc.emit(cc.begin(), at_us=END, cpu=0.125)
    work()
    assert ("cpu", T0, END, MJ_PER_KWH // 10) in stored(cc.source)


def test_the_same_message_twice_counts_once(lab: SmallLab) -> None:
    cc = tracker(lab)
    run = cc.begin()
    for _ in range(3):
        cc.emit(run, at_us=END, cpu=0.001)
    work()
    assert CodeCarbonInterval.objects.count() == 1
    assert [post.problem for post in CodeCarbonPost.objects.order_by("id")][1:] == [
        "Duplicate of an earlier message."
    ] * 2


def test_neighbours_that_overlap_by_cut_seconds_are_all_counted(lab: SmallLab) -> None:
    """The first message comes late, as the run is made before it: its neighbour would begin
    before it ends.
    """
    cc = tracker(lab)
    run = cc.begin()
    cc.emit(run, at_us=T0 + 62_300_000, duration=60, cpu=0.001)
    cc.emit(run, at_us=T0 + 120_100_000, duration=59, cpu=0.001)
    cc.emit(run, at_us=T0 + 180_900_000, duration=60, cpu=0.001)
    work()
    spans = [row[1:3] for row in stored(cc.source) if row[0] == "cpu"]
    assert spans == [
        (T0 + 2_300_000, T0 + 62_300_000),
        (T0 + 62_300_000, T0 + 120_100_000),
        (T0 + 120_900_000, T0 + 180_900_000),
    ]
    assert Run.objects.get().started_us == T0 + 2_300_000


def test_late_messages_are_counted_all_the_same(lab: SmallLab) -> None:
    cc = tracker(lab)
    run = cc.begin()
    for at in (120, 60, 180):
        cc.emit(run, at_us=T0 + at * 1_000_000, duration=60, cpu=0.001)
        work()
    assert [row[1] for row in stored(cc.source) if row[0] == "cpu"] == [
        T0,
        T0 + 60_000_000,
        T0 + 120_000_000,
    ]
    assert Run.objects.get().started_us == T0
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 3 * 3_600_000


def test_a_clock_that_is_wrong_is_not_believed(lab: SmallLab) -> None:
    cc = tracker(lab)
    cc.emit(cc.begin(), at_us=T0 - 86_400_000_000, cpu=0.001)
    work()
    window = EnergyWindow.objects.filter(device__facts__component="cpu").get()
    assert T0 + 100_000_000 < window.end_us < T0 + 400_000_000
    assert window.placement_quality == 2  # imputed


def test_a_run_that_is_not_known_begins_with_its_emission(lab: SmallLab) -> None:
    """A server whose backup was restored does not know the runs that go on."""
    cc = tracker(lab)
    cc.emit(str(uuid.uuid4()), at_us=END, cpu=0.001)
    work()
    assert Run.objects.count() == 1


def test_a_message_cannot_name_anothers_run(lab: SmallLab) -> None:
    """Neither a run of our own API nor one of another lab: ids of a client become runs of its
    token.
    """
    cc = tracker(lab)
    theirs = tracker(small_lab(name="Theirs"))
    run = theirs.begin()
    theirs.emit(run, at_us=END, cpu=0.001)
    cc.emit(run, at_us=END, cpu=0.005)
    work()
    assert {found.lab.name: found.uuid for found in Run.objects.all()}.keys() == {
        "Cell Lab",
        "Theirs",
    }
    assert len({str(found.uuid) for found in Run.objects.all()} | {run}) == 3
    assert ("cpu", T0, END, 3_600_000) in stored(theirs.source)
    assert ("cpu", T0, END, 18_000_000) in stored(cc.source)


def test_the_same_run_by_another_token_of_the_lab_is_not_counted_again(lab: SmallLab) -> None:
    cc, other = tracker(lab), tracker(lab, name="other")
    run = cc.begin()
    cc.emit(run, at_us=END, cpu=0.001)
    work()
    other.emit(run, at_us=END, cpu=0.001)
    work()
    assert "known already" in CodeCarbonPost.objects.latest("id").problem
    assert stored(other.source) == []


def _record(run: str, duration: float, cpu: float, **more: object) -> dict[str, object]:
    told = {
        "timestamp": "2026-11-02T09:00:00",
        "project_name": "cells",
        "run_id": run,
        "duration": duration,
    }
    return {
        **HARDWARE,
        **told,
        "emissions": 0.001,
        "cpu_energy": cpu,
        "gpu_energy": 0,
        "ram_energy": 0.0,
        "pue": 1.0,
        **more,
    }


def test_http_output_tells_totals(lab: SmallLab) -> None:
    cc = tracker(lab, pue_ppm=2_000_000)
    run = str(uuid.uuid4())
    assert (
        cc.post("/emissions-data", _record(run, 60.5, 0.002, pue=1.6, user="ada")).status_code
        == 201
    )
    work()
    assert cc.post("/emissions-data", _record(run, 100.5, 0.003, pue=1.6)).status_code == 201
    assert cc.post("/emissions-data", _record(run, 100.5, 0.003, pue=1.6)).status_code == 201
    work()
    found = Run.objects.get()
    assert (found.name, found.state) == ("cells", "finished")
    assert [row.cpu_mj for row in CodeCarbonInterval.objects.order_by("id")] == [
        4_500_000,
        2_250_000,
    ]  # its own PUE
    assert CodeCarbonPost.objects.filter(channel=Channel.RECORD).count() == 3


def test_totals_of_a_run_that_was_told_by_intervals_are_not_added(lab: SmallLab) -> None:
    cc = tracker(lab)
    run = cc.begin()
    cc.emit(run, at_us=END, cpu=0.001)
    assert cc.post("/emissions-data", _record(run, 120, 0.001)).status_code == 201
    work()
    assert "counted twice" in CodeCarbonPost.objects.latest("id").problem
    assert CodeCarbonInterval.objects.count() == 1
