"""The real MLflow client with autologging: the parameters that it logs appear on the run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.test import Client

from apps.runs.models import Fingerprint, Run
from apps.trackers.mlflow import client as asking
from tests.builders import small_lab
from tests.dashboard.support import text_of
from tests.services import mlflow
from tests.services.process import end_with_parent
from tests.trackers.mlflow_support import demo, poll, source_at

pytestmark = [pytest.mark.mlflow, pytest.mark.sqlite, pytest.mark.xdist_group("mlflow")]

SCRIPT = """
import mlflow
from sklearn.linear_model import LogisticRegression
mlflow.set_experiment("autolog")
mlflow.autolog(log_models=False)
points, classes = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
LogisticRegression(C=0.5, max_iter=50, random_state=7).fit(points, classes)
"""


@pytest.mark.django_db
def test_autologged_parameters_appear(
    mlflow_server: mlflow.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TIMEOUT_S", 60.0)
    done = subprocess.run(
        end_with_parent([str(mlflow.PYTHON), "-c", SCRIPT]),
        env=mlflow.environ(tmp_path, MLFLOW_TRACKING_URI=mlflow_server.url),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    small = small_lab()
    source = source_at(mlflow_server.url, small, project=None, patterns=(("autolog", demo(small)),))
    assert poll(source).problem == ""
    run = Run.objects.get()
    logged = {"C": 0.5, "max_iter": 50, "random_state": 7, "solver": "lbfgs", "dual": False}
    assert {name: run.params.get(name) for name in logged} == logged
    row = Fingerprint.objects.get(run=run)
    assert row.params is not None
    assert {"max_iter", "solver"} <= set(row.params)
    assert set(row.seeds or {}) == {"seed"}
    client = Client()
    client.force_login(small.owner)
    page = text_of(client.get(f"/runs/{run.uuid}/"))
    for name in ("max_iter", "solver", "seed"):
        assert name in page, name
    assert "(not compared)" not in page
