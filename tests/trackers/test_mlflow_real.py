"""The real MLflow server, polled, and its unmodified client: what was logged is here to the
millijoule, a repeat is told.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.artifacts.models import Artifact, LineageEdge
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow
from apps.runs.models import Fingerprint, Metric, MetricPoint, Run
from apps.trackers.mlflow import client as asking
from apps.trackers.mlflow.models import MlflowFile, MlflowRun, MlflowSource
from apps.trackers.mlflow.services.servers import try_source
from tests.builders import SmallLab, small_lab
from tests.dashboard.support import assert_each_figure_explains_itself, text_of
from tests.services import mlflow
from tests.services.process import end_with_parent
from tests.trackers.mlflow_support import demo, ledger_mj, poll, source_at

# The database is the fake servers' matter (both passes): here it is the real server that counts.
pytestmark = [pytest.mark.mlflow, pytest.mark.sqlite, pytest.mark.xdist_group("mlflow")]

# A training as MLflow's documentation shows it, twice; then parts of it. The watts are logged under
# the names that MLflow's own monitor uses, with moments of a minute that has passed.
SCRIPT = """
import sys, time, json
import mlflow
from mlflow import MlflowClient
from mlflow.data.http_dataset_source import HTTPDatasetSource
from mlflow.data.meta_dataset import MetaDataset
from mlflow.entities import LoggedModelInput, LoggedModelOutput, Metric

mlflow.set_experiment("vision")
now_ms, made = int(time.time() * 1000), []
cats = MetaDataset(source=HTTPDatasetSource("https://data.example.org/cats"), name="cats", digest="d1f2")
for turn in (0, 1):
    with mlflow.start_run(run_name=f"train-{turn}", tags={"mlflow.source.git.commit": "c0ffee" + "0" * 34}) as run:
        mlflow.log_params({"lr": 0.1, "epochs": 3, "seed": 7, "optimizer": None, "shuffle": True, "layers": [1, 2]})
        mlflow.log_input(cats, context="training")
        for step in range(6):
            mlflow.log_metric("loss", 1 / (step + 1) + turn / 100, step=step)
        for value in (0.5, 0.75):
            mlflow.log_metric("accuracy", value)
            time.sleep(0.01)
        mlflow.log_metric("bad", float("nan"))
        for start in range(0, 2500, 500):
            many = [Metric("long", i + turn, now_ms + i, i) for i in range(start, start + 500)]
            MlflowClient().log_batch(run.info.run_id, metrics=many)
        if turn == 0:
            for name, content in (("epoch=1.ckpt", b"first"), ("plot é.png", b"picture"), ("model.pth", b"weights")):
                open(name, "wb").write(content)
            mlflow.log_artifact("epoch=1.ckpt", "check points/ü")
            mlflow.log_artifact("plot é.png")
            model = mlflow.initialize_logged_model(name="cats")
            MlflowClient().log_model_artifact(model.model_id, "model.pth", "data")
            mlflow.log_outputs(models=[LoggedModelOutput(model_id=model.model_id, step=5)])
            watts = [Metric("system/gpu_%d_power_usage_watts" % gpu, power, now_ms - 600_000 + i * 10_000, i)
                     for gpu, power in ((0, 100.0), (1, 61.3)) for i in range(13)]
            MlflowClient().log_batch(run.info.run_id, metrics=watts)
            with mlflow.start_run(run_name="fold", nested=True):
                mlflow.log_param("fold", 1)
        else:
            MlflowClient().log_inputs(run.info.run_id, models=[LoggedModelInput(model_id=model.model_id)])
        made.append(run.info.run_id)
going_on = MlflowClient().create_run(run.info.experiment_id, run_name="going-on").info.run_id
print(json.dumps([*made, going_on]))
"""  # noqa: E501


@pytest.fixture(scope="module")
def served(
    mlflow_server: mlflow.Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[mlflow.Server, list[str]]:
    return mlflow_server, _train(tmp_path_factory.mktemp("mlflow"), mlflow_server.url)


def _train(home: Path, url: str) -> list[str]:
    told = subprocess.run(
        end_with_parent([str(mlflow.PYTHON), "-c", SCRIPT]),
        env=mlflow.environ(home, MLFLOW_TRACKING_URI=url),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert told.returncode == 0, told.stderr
    ids: list[str] = json.loads(told.stdout.splitlines()[-1])
    return ids


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server be slow: the machine may be busy with other tests."""
    monkeypatch.setattr(asking, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(asking, "FETCH_TIMEOUT_S", 60.0)


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def _source(server: mlflow.Server, lab: SmallLab) -> MlflowSource:
    return source_at(server.url, lab, project=None, patterns=(("vis*", demo(lab)),))


def _all() -> list[list[Any]]:
    return [
        list(model.objects.order_by("pk").values())
        for model in (Run, Fingerprint, Metric, MetricPoint, EnergyWindow)
    ]


def test_what_was_logged_is_here_and_a_repeat_is_told_there(
    served: tuple[mlflow.Server, list[str]], lab: SmallLab
) -> None:
    server, (first, second, going_on) = served
    source = _source(server, lab)
    good, words = try_source(source)
    assert good, words
    assert words.startswith("Reached, MLflow 3.")
    assert re.search(r"\b[2-9] experiments\.$", words)  # Default, this, and those of other tests
    assert poll(source).problem == ""

    runs = {
        row.mlflow_id: row.run for row in MlflowRun.objects.select_related("run", "run__parent")
    }
    assert {run.name: run.state for run in runs.values() if run} == {
        "train-0": "finished",
        "train-1": "finished",
        "fold": "finished",
        "going-on": "running",
    }
    one = runs[first]
    assert one is not None
    assert one.params == {
        "lr": 0.1,
        "epochs": 3,
        "seed": 7,
        "optimizer": None,
        "shuffle": True,
        "layers": "[1, 2]",
    }
    [fold] = [run for run in runs.values() if run and run.name == "fold"]
    assert fold.parent == one
    assert abs(one.started_us - time.time() * 1e6) < 300e6
    curve = MetricPoint.objects.filter(metric__run=one, metric__name="loss").order_by("step")
    assert list(curve.values_list("step", "value")) == [(i, 1 / (i + 1)) for i in range(6)]
    assert list(
        one.metrics.get(name="accuracy").points.order_by("step").values_list("step", "value")
    ) == [
        (0, 0.5),
        (1, 0.75),
    ]
    long = one.metrics.get(name="long")
    assert (long.count, long.last_step, long.max_value) == (2500, 2499, 2499.0)  # three pages
    assert one.metrics.get(name="bad").points.get().special_value == "NaN"
    assert not Metric.objects.filter(name__startswith="system/").exists()

    assert ledger_mj() == 120 * (100_000 + 61_300)
    assert set(LedgerEntry.objects.values_list("consumer__run_uuid", flat=True)) == {one.uuid}
    client = Client()
    client.force_login(lab.owner)
    page = text_of(client.get(f"/runs/{one.uuid}/"))
    assert "Reported by MLflow" in page
    assert assert_each_figure_explains_itself(client, page) > 0

    tags = {run["run_id"]: run["tags"] for run in server.runs(_experiment(server))}
    again = runs[second]
    assert again is not None
    assert tags[second]["labcarbon.verdict"].startswith(
        "possible duplicate: This may have been done already: someone in your"
    )
    assert tags[second]["labcarbon.link"] == f"http://127.0.0.1:8000/runs/{again.uuid}/"
    assert [
        name for run in (first, going_on) for name in tags[run] if name.startswith("labcarbon.")
    ] == []

    before = _all()
    done = poll(source)
    assert (done.runs, done.problem, _all() == before) == (0, "", True)


def test_what_its_runs_made_is_known_by_its_content(
    served: tuple[mlflow.Server, list[str]], lab: SmallLab
) -> None:
    server, (first, second, _) = served
    assert poll(_source(server, lab)).problem == ""
    found = {each.name: (each.digest, each.bytes, each.kind) for each in Artifact.objects.all()}
    assert found == {
        "epoch=1.ckpt": (hashlib.sha256(b"first").hexdigest(), 5, "checkpoint"),
        "model.pth": (hashlib.sha256(b"weights").hexdigest(), 7, "model"),
    }
    assert Artifact.objects.get(name="model.pth").facts == {"step": 5}
    rows = LineageEdge.objects.values_list("run__external_ids__value", "artifact__name", "role")
    assert set(rows) == {
        (first, "epoch=1.ckpt", "produced"),
        (first, "model.pth", "produced"),
        (second, "model.pth", "used"),
    }
    assert dict(MlflowFile.objects.values_list("path", "outcome")) == {
        "check points/ü/epoch=1.ckpt": "taken",
        "data/model.pth": "taken",
    }
    assert MlflowRun.objects.get(mlflow_id=first).files_left == 1


def test_a_run_that_ends_is_read_to_its_end(
    served: tuple[mlflow.Server, list[str]], lab: SmallLab
) -> None:
    server, (_, _, going_on) = served
    source = _source(server, lab)
    poll(source)
    server.post(
        "runs/log-metric",
        run_id=going_on,
        key="loss",
        value=0.5,
        timestamp=int(time.time() * 1000),
        step=1,
    )
    poll(source)
    run = Run.objects.get(name="going-on")
    assert run.metrics.get().points.get().value == 0.5
    end_ms = int(time.time() * 1000)
    server.post("runs/update", run_id=going_on, status="FAILED", end_time=end_ms)
    poll(source)
    run.refresh_from_db()
    assert (run.state, run.ended_us) == ("failed", end_ms * 1000)
    server.post("runs/delete", run_id=going_on)
    poll(source)
    assert Run.objects.filter(name="going-on").exists()


def _experiment(server: mlflow.Server) -> str:
    found = server.post("experiments/search", max_results=10)["experiments"]
    return str(next(each["experiment_id"] for each in found if each["name"] == "vision"))
