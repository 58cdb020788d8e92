"""What runs of MLflow made: read once, known by its content, joined with its run; what is not
read is counted, with why.
"""

from __future__ import annotations

import hashlib
import time
from html import unescape
from typing import Any

import pytest
import time_machine
from django.test import Client

from apps.artifacts.choices import Kind
from apps.artifacts.models import Artifact, Copy, LineageEdge
from apps.core.url_allowlist import parse_address
from apps.trackers.mlflow import client as asking
from apps.trackers.mlflow.artifact_files import entries, kind_of, proxied_path
from apps.trackers.mlflow.models import MlflowFile, MlflowRun, MlflowSource
from apps.trackers.mlflow.services import artifacts as reading
from tests.artifacts.support import register_rows as told_by_scan
from tests.artifacts.support import row as told_row
from tests.builders import T0, SmallLab
from tests.dashboard.support import text_of
from tests.fakes.mlflow_server import PROXY, FakeMlflow
from tests.trackers.mlflow_support import poll, source_at, training

DAY_US = 86_400_000_000


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetched(fake: FakeMlflow) -> list[str]:
    return [path.removeprefix(PROXY) for path in fake.requested_paths if path.startswith(PROXY)]


def outcomes() -> dict[str, str]:
    return dict(MlflowFile.objects.values_list("path", "outcome"))


def edges() -> set[tuple[str, str, str]]:
    rows = LineageEdge.objects.values_list(
        "run__external_ids__value", "artifact__name", "role", "source"
    )
    assert {way for *_, way in rows} <= {"told"}
    return {(run, name, role) for run, name, role, _ in rows}


def test_what_a_run_made_is_known_by_its_content(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run = training(fake, "a1")
    run.files = {
        "model/data/model.pth": b"weights",
        "ckpt/epoch=3.ckpt": b"third",
        "plots/a b%41.png": b"picture",
        "model/MLmodel": b"m",
        "empty.pt": b"",
        "cats ünd %41/rows.parquet": b"PAR1",
    }
    assert poll(source).problem == ""
    found = {each.name: each for each in Artifact.objects.all()}
    assert {name: (each.digest, each.bytes, each.kind) for name, each in found.items()} == {
        "model.pth": (digest(b"weights"), 7, "model"),
        "epoch=3.ckpt": (digest(b"third"), 5, "checkpoint"),
        "rows.parquet": (digest(b"PAR1"), 4, "dataset"),
    }
    assert edges() == {("a1", name, "produced") for name in found}
    assert all(each.project and each.project.slug == "demo" for each in found.values())
    assert Copy.objects.get(artifact=found["rows.parquet"]).path.endswith(
        "/a1/artifacts/cats%20%C3%BCnd%20%2541/rows.parquet"
    )
    copy = Copy.objects.get(artifact=found["model.pth"])
    assert (copy.path, copy.node, copy.medium) == (
        f"{fake.address}{PROXY}1/a1/artifacts/model/data/model.pth",
        None,
        "unknown",
    )
    row = MlflowRun.objects.get()
    assert (row.files_read, row.files_left, row.files_problem) == (True, 3, "")
    assert set(outcomes().values()) == {"taken"}


def test_each_file_is_read_once_and_a_run_that_goes_on_not_at_all(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    run = training(fake, "a1", over=False)
    run.files = {"last.pt": b"1"}
    poll(source)
    assert (fetched(fake), "/artifacts/list" in fake.requested_paths) == ([], False)
    run.status, run.end_ms = "FINISHED", run.start_ms + 1000
    poll(source)
    assert len(fetched(fake)) == 1
    fake.requested_paths.clear()
    poll(source)
    assert [
        path for path in fake.requested_paths if "artifacts" in path or path == "/runs/get"
    ] == []


def test_a_logged_model_and_the_run_that_read_it(fake: FakeMlflow, source: MlflowSource) -> None:
    fake.models = {"m-1": {"data/model.pth": b"one", "MLmodel": b"x"}, "m-2": {"model.pkl": b"two"}}
    training(fake, "a1").logged_models = ["m-1", "m-2"]
    training(fake, "a2", start_ms=T0 // 1000 + 1).read = ["m-2", "m-unknown"]
    assert poll(source).problem == ""
    assert edges() == {
        ("a1", "model.pth", "produced"),
        ("a1", "model.pkl", "produced"),
        ("a2", "model.pkl", "used"),
    }
    assert Artifact.objects.get(name="model.pkl").facts == {"step": 1}


def test_the_same_content_that_a_scan_found_is_one_artifact(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    told_by_scan(
        lab,
        told_row(
            "weights",
            kind="model",
            format="torch",
            copies=[{"path": "/data/best.pt", "medium": "ssd"}],
        ),
    )
    training(fake, "a1").files = {"best.pt": b"weights"}
    poll(source)
    one = Artifact.objects.get()
    assert (one.format, one.copies.count(), one.run_edges.get().role) == ("torch", 2, "produced")


@pytest.mark.parametrize(
    "root", [
    "s3://bucket/1/a1", "file:///srv/mlruns/1/a1", "/srv/mlruns",
    "mlflow-artifacts://other.example:80/1/a1", "mlflow-artifacts:/../../runs",
    "http://127.0.0.1:1/api/2.0/mlflow-artifacts/artifacts/1", "dbfs:/x", "http://[", "",
],
)  # fmt: skip
def test_what_mlflow_does_not_hand_out_is_counted_and_not_asked_for(
    fake: FakeMlflow, source: MlflowSource, root: str
) -> None:
    run = training(fake, "a1")
    run.files, run.root = {"best.pt": b"weights"}, root or "nothing"
    assert poll(source).problem == ""
    assert (fetched(fake), outcomes(), Artifact.objects.count()) == (
        [],
        {"best.pt": "elsewhere"},
        0,
    )


def test_where_this_server_hands_files_out() -> None:
    at = parse_address("https://mlflow.example.org/team")
    own = "https://mlflow.example.org/team/api/2.0/mlflow-artifacts/artifacts"
    good = {
        "mlflow-artifacts:/1/a/artifacts": "1/a/artifacts",
        "mlflow-artifacts:/": "",
        f"{own}/1/a": "1/a",
        "mlflow-artifacts://mlflow.example.org/1/a": "1/a",
        "mlflow-artifacts:/1/b%20c": "1/b c",
    }
    assert {root: proxied_path(root, at) for root in good} == good
    bad = [
        f"{own}-other/1",
        f"{own}/../../1",
        "mlflow-artifacts:/1/%2e%2e/x",
        "mlflow-artifacts:/a\\b",
        "https://other.org/x",
    ]
    assert [proxied_path(root, at) for root in bad] == [None] * len(bad)


def test_too_large_and_too_many_are_counted(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(reading, "MAX_RUN_FILES", 2)
    training(fake, "a1").files = {"a.pt": b"x" * 11, "b.pt": b"b", "c.pt": b"c", "d.pt": b"d"}
    poll(source)
    assert outcomes() == {"a.pt": "too_large", "b.pt": "taken", "c.pt": "taken", "d.pt": "too_many"}
    assert len(fetched(fake)) == 2


def test_a_file_of_no_known_size_is_not_read(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    training(fake, "a1").files = {"a.pt": b"weights"}
    answer = fake.respond

    def sizeless(path: str, body: dict[str, Any], query: dict[str, str]) -> Any:
        found = answer(path, body, query)
        if path == "/artifacts/list":
            del found["files"][0]["file_size"]
        return found

    monkeypatch.setattr(fake, "respond", sizeless)
    poll(source)
    file = MlflowFile.objects.get()
    assert (file.outcome, file.reason, fetched(fake)) == (
        "unreadable",
        "MLflow reports no size.",
        [],
    )


def test_a_list_without_end_is_left(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    training(fake, "a1")
    answer = fake.respond

    def endless(path: str, body: dict[str, Any], query: dict[str, str]) -> Any:
        if path != "/artifacts/list":
            return answer(path, body, query)
        folder = query.get("path", "")
        names = [f"{folder}/d{i}".lstrip("/") for i in range(3)]
        return {
            "root_uri": "mlflow-artifacts:/1/a1/artifacts",
            "files": [{"path": each, "is_dir": True} for each in names],
        }

    monkeypatch.setattr(fake, "respond", endless)
    assert poll(source).problem == ""
    assert fake.requested_paths.count("/artifacts/list") == reading.MAX_FOLDERS
    row = MlflowRun.objects.get()
    assert (row.files_read, row.files_left > 0) == (True, True)


def test_paths_that_lead_elsewhere_are_nothing() -> None:
    paths = [
        "../x.pt",
        "a/../../x.pt",
        "/etc/x.pt",
        "b/x.pt",
        "a/",
        "a//x.pt",
        "a/..",
        "a/x\x00.pt",
        "a/\ud800.pt",
        "a/x\\y.pt",
        "a/\u202ex.pt",
        "a/" + "n" * 1000,
        7,
        None,
    ]
    rows: list[Any] = [{"path": path, "is_dir": False, "file_size": "1"} for path in paths]
    good = [
        {"path": "a/x.pt", "file_size": "3"},
        {"path": "a/d", "is_dir": True},
        {"path": "a/x.pt", "file_size": "4"},
    ]
    found, wrong = entries([*rows, {}, *good], "a")
    assert [(each.path, each.is_folder, each.bytes) for each in found] == [
        ("a/d", True, None),
        ("a/x.pt", False, 3),
    ]
    assert wrong == len(paths) + 2


@pytest.mark.parametrize("size", ["x", "-1", None, True, str(2**70), 1.5])
def test_a_size_that_is_none_is_not_known(size: Any) -> None:
    found, _ = entries([{"path": "x.pt", "file_size": size}], "")
    assert found[0].bytes is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
    ("best.pt", Kind.MODEL), ("model/data/model.pth", Kind.MODEL), ("m/model.pkl", Kind.MODEL),
    ("x.PT", Kind.MODEL), ("epoch=1.ckpt", Kind.CHECKPOINT),
    ("checkpoint-5/optimizer.pt", Kind.CHECKPOINT), ("step_9.pt", Kind.CHECKPOINT),
    ("x.data-00000-of-00001", Kind.CHECKPOINT), ("rows.parquet", Kind.DATASET),
    ("a.npz", Kind.DATASET), ("events.out.tfevents.1.host", Kind.LOG), ("plot.png", None),
    ("MLmodel", None), ("conda.yaml", None), ("t.json", None), ("model/input_example.npy", None),
    ("pt", None), ("data.csv", None),
],
)  # fmt: skip
def test_what_a_file_is_by_its_name(path: str, kind: Kind | None) -> None:
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
    ("huge", "larger than listed"), ("half", "truncated"), ("drips", "did not respond within"),
    ((302, {"Location": "https://other.example/x"}, b""), "Redirects are not followed"),
    ((403, {}, b"no"), "refuses (403)"),
    ((200, {}, b"other"), "Received 5 bytes, but 200000 are listed"),
    ((200, {"Content-Encoding": "gzip"}, b"x"), "compresses its response"),
    ((500, {}, b""), "answers 500"),
],
)  # fmt: skip
def test_a_file_that_comes_wrong_is_tried_again_then_told_and_holds_up_nobody(
    fake: FakeMlflow,
    source: MlflowSource,
    lab: SmallLab,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Any,
    words: str,
) -> None:
    if wrong == "drips":  # what is fine has so much time, too
        monkeypatch.setattr(asking, "FETCH_TIMEOUT_S", 3)
    monkeypatch.setattr(reading, "MAX_TRIES", 2)
    training(fake, "a1").files = {"a.pt": b"x" * 200_000, "b.pt": b"fine"}
    training(fake, "a2", start_ms=T0 // 1000 + 1).files = {"c.pt": b"too"}
    fake.faults[f"{PROXY}1/a1/artifacts/a.pt"] = wrong
    for _ in range(2):
        assert poll(source).problem == ""
        assert set(Artifact.objects.values_list("name", flat=True)) == {"b.pt", "c.pt"}
        MlflowRun.objects.update(files_due_us=0)
    row = MlflowRun.objects.get(mlflow_id="a1")
    file = MlflowFile.objects.get(path="a.pt")
    assert (row.files_read, file.outcome, file.digest) == (True, "unreadable", "")
    assert words in file.reason
    client = Client()
    client.force_login(lab.owner)
    assert words in unescape(text_of(client.get(f"/trackers/mlflow/{source.pk}/")))
    fake.requested_paths.clear()
    poll(source)
    assert fetched(fake) == []


def test_a_file_that_is_well_again_is_taken(fake: FakeMlflow, source: MlflowSource) -> None:
    training(fake, "a1").files = {"a.pt": b"weights"}
    fake.faults[f"{PROXY}1/a1/artifacts/a.pt"] = (503, {"Retry-After": "3600"}, b"")
    poll(source)
    row = MlflowRun.objects.get()
    assert (row.files_read, "Its files: a.pt: " in row.files_problem) == (False, True)
    assert "limits the request rate" in row.files_problem
    assert row.files_due_us - T0 > 3_600_000_000
    fake.faults.clear()
    fake.requested_paths.clear()
    poll(source)
    assert "/runs/get" not in fake.requested_paths  # not before it is due
    MlflowRun.objects.update(files_due_us=0)
    poll(source)
    row.refresh_from_db()
    assert (row.files_read, row.files_problem, Artifact.objects.count()) == (True, "", 1)


def test_a_list_that_cannot_be_had_is_given_up_in_the_end(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    training(fake, "a1").files = {"a.pt": b"weights"}
    fake.faults["/artifacts/list"] = (500, {}, b'{"message": "boom"}')
    for _ in range(reading.MAX_TRIES):
        assert poll(source).problem == ""
        MlflowRun.objects.update(files_due_us=0)
    row = MlflowRun.objects.get()
    assert (row.files_read, row.files_problem) == (True, row.files_problem)
    assert "boom" in row.files_problem
    fake.requested_paths.clear()
    poll(source)
    assert "/artifacts/list" not in fake.requested_paths


def test_a_slow_file_is_given_up_in_time(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FETCH_TIMEOUT_S", 0.5)
    training(fake, "a1").files = {"a.pt": b"x" * 100_000}
    fake.faults[f"{PROXY}1/a1/artifacts/a.pt"] = "drips"
    begun = time.monotonic()
    poll(source)
    assert time.monotonic() - begun < 60  # it would drip for ever
    assert "did not respond within 0.5 s" in MlflowRun.objects.get().files_problem


def test_so_much_a_day_and_the_rest_tomorrow(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_DAY_BYTES", 10)
    for i in range(3):
        training(fake, f"a{i}", start_ms=T0 // 1000 + i).files = {f"{i}.pt": bytes([i]) * 6}
    assert poll(source).more is False
    poll(source)
    assert Artifact.objects.count() == 1
    with time_machine.travel((T0 + DAY_US) / 1e6, tick=True):
        poll(source)
    assert Artifact.objects.count() == 2


def test_switched_off_nothing_is_asked(fake: FakeMlflow, lab: SmallLab) -> None:
    source = source_at(fake, lab, reads_files=False)
    training(fake, "a1").files = {"a.pt": b"weights"}
    poll(source)
    assert {"/artifacts/list", "/runs/get"}.isdisjoint(fake.requested_paths)
    assert MlflowRun.objects.get().files_read is False


def test_its_page_says_what_was_read_and_what_was_not(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    training(fake, "a1").files = {"a.pt": b"x" * 2000, "plot.png": b"p", "t.txt": b"t"}
    run = training(fake, "a2", start_ms=T0 // 1000 + 1)
    run.files, run.root = {"b.pt": b"x"}, "s3://bucket/x"
    poll(source)
    client = Client()
    client.force_login(lab.owner)
    page = text_of(client.get(f"/trackers/mlflow/{source.pk}/"))
    for words in (
        "Hashed and registered",
        "2.00 kB",
        "Not served by MLflow",
        'data-other-files="2"',
    ):
        assert words in page, words
    made = MlflowRun.objects.select_related("run").get(mlflow_id="a1").run
    assert made is not None
    assert "a.pt" in text_of(client.get(f"/runs/{made.uuid}/"))
