"""The page Plan a sweep: finished runs, duplicates, refusals, CSV."""

import csv
import io
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from labcarbon_collect.lc1 import param_hash

from apps.accounts.models import Project
from tests.budgets.support import budget
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE
from tests.preflight.support import spend, stored

pytestmark = pytest.mark.django_db
PAGE, CSV = "/planner/sweep/", "/planner/sweep/points.csv"


def params(**values: Any) -> dict[str, Any]:
    known = {"lr": 0.1, "epochs": 10, "arch": "resnet18", **values}
    return {"params": {name: param_hash(name, value) for name, value in known.items()}}


def sent(client: Client, text: Any, address: str = PAGE, **fields: Any) -> Any:
    text = text if isinstance(text, str) else json.dumps(text)
    return client.post(address, {"format": "json", "text": text, **fields})


def test_sixty_runs_of_which_twelve_are_done(owner: Client, lab: SmallLab) -> None:
    rates, epochs = [round(0.1 * n, 1) for n in range(1, 11)], [10, 20, 30, 40, 50, 60]
    pairs = [(lr, epoch) for epoch in epochs[:2] for lr in rates][:12]
    done = [
        stored(lab, minutes=5 * n, wire=params(lr=lr, epochs=epoch))
        for n, (lr, epoch) in enumerate(pairs)
    ]
    spend(lab, done[0], 3_600_000)
    response = sent(owner, {"lr": rates, "epochs": epochs}, base=str(done[0].uuid), project="demo")
    page = response.content.decode()
    assert response.status_code == 200
    assert re.search(r'data-runs="60"\s+data-new="48"', page)
    assert page.count('data-state="finished"') == 12
    assert all(f"/runs/{run.uuid}/" in page for run in done)
    assert f'data-total="energy_mj" data-likely="{48 * 3_600_000}"' in page


def test_a_run_of_another_lab_is_an_error_at_the_field(outsider: Client, lab: SmallLab) -> None:
    response = sent(outsider, {"lr": [1, 2]}, base=str(stored(lab).uuid))
    assert response.status_code == 400
    assert 'data-field-error="base"' in response.content.decode()


@pytest.mark.parametrize(
    ("format_", "text"),
    [("json", HOSTILE), ("hydra", HOSTILE), ("wandb", "a: &a [1]\nb: *a"), ("json", "[" * 100_000),
     ("wandb", "x" * 1_000_000), ("hydra", "")],
)  # fmt: skip
def test_hostile_text_is_refused_at_the_field(owner: Client, format_: str, text: str) -> None:
    response = sent(owner, text, format=format_)
    page = response.content.decode()
    assert response.status_code == 400
    assert 'data-field-error="text"' in page
    assert "<script>alert(1)" not in page


def test_csv_has_each_run_and_no_formula(viewer: Client) -> None:
    response = sent(viewer, [{"=a": 1}, {"=a": 1.0}, {"=a": 2}], CSV)
    text = b"".join(response.streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["state"], row["duplicate_of"]) for row in rows] == [
        ("unknown", ""), ("duplicate", "1"), ("unknown", ""),
    ]  # fmt: skip
    assert not any(value.startswith("=") for row in rows for value in row.values())
    assert viewer.get(CSV).status_code == 405


def test_each_example_is_read(owner: Client) -> None:
    page = owner.get(PAGE).content.decode()
    assert len(re.findall(r"<h3>", page)) == 4
    from apps.dashboard.planner.sweep.sweep_page import EXAMPLES

    for format_, (_, text) in zip(("hydra", "wandb", "json", "json"), EXAMPLES, strict=True):
        assert sent(owner, text, format=format_).status_code == 200


def test_queries_do_not_grow_with_the_sweep(owner: Client, lab: SmallLab) -> None:
    base = str(stored(lab).uuid)

    def count(size: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            sent(owner, {"lr": list(range(1, size))}, base=base)
        return len(queries)

    count(3)
    assert count(3) == count(500)


def test_the_budget_left_beside_what_the_sweep_needs(
    owner: Client, lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: T0 + 3_600_000_000)
    project = Project.objects.get(lab=lab.lab, slug="demo")
    run = stored(lab, wire=params(lr=0.1), project=project, charged_project=project)
    spend(lab, run, 3_600_000)
    body = {"base": str(run.uuid), "project": "demo"}
    assert "data-no-budget" in sent(owner, {"lr": [0.2, 0.3]}, **body).content.decode()
    budget(lab, amount=10 * 3_600_000_000, project=project)
    page = sent(owner, {"lr": [0.2, 0.3]}, **body).content.decode()
    sentence = re.search(r"<p data-budget>(.*?)</p>", page, re.DOTALL)
    assert sentence is not None
    exact = [int(re.sub(r"\D", "", each)) for each in re.findall(r'title="([^"]+) mJ', sentence[1])]
    # 10 kWh without the measured run, 10 kWh, and two runs like it.
    assert exact == [36_000_000_000 - 3_600_000, 36_000_000_000, 7_200_000]
    # A sweep without a basis needs an unknown amount, not 0.
    page = sent(owner, {"lr": [0.2]}, project="demo").content.decode()
    assert "what the sweep needs is unknown" in page


def test_without_an_earlier_run_it_is_unknown_which_are_new(owner: Client) -> None:
    page = sent(owner, {"lr": [0.1, 0.2, 0.3]}).content.decode()
    assert 'data-runs="3"' in page
    assert 'data-new=""' in page
    assert "are new" not in page
