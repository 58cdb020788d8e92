"""The page Planner with a past run: what it fills in, and its family as the basis."""

import csv
import io
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.planner.formulas.work import Work
from apps.planner.job_input import JobInput
from apps.planner.models import Estimate
from apps.planner.presets import presets
from apps.planner.services import create_estimate
from apps.runs.choices import RunState
from apps.runs.models import Run
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, text_of
from tests.dashboard.test_planner_estimate import A100_KEY, rows
from tests.planner.support import finished
from tests.runs.fingerprints import a_run

pytestmark = pytest.mark.django_db
PARAMS = {"epochs": 10, "train_samples": 5000, "batch_size": 64, "optim": "adamw", "fp16": True}


def value_of(page: str, name: str) -> str:
    """Return the value of a text field."""
    field = re.search(rf'<input[^>]* name="{name}"[^>]*>', page)
    assert field, name
    value = re.search(r' value="([^"]*)"', field[0])
    return unescape(value[1]) if value else ""


def selected(page: str, name: str) -> str:
    """Return the selected value of a list, or the checked one of a group."""
    found = re.search(rf'<select name="{name}".*?</select>', page, re.DOTALL)
    if found:
        option = re.search(r'value="([^"]*)" selected', found[0])
        return option[1] if option else ""
    for radio in re.findall(rf'<input[^>]* name="{name}"[^>]*>', page):
        if " checked" in radio:
            return str(re.search(r' value="([^"]*)"', radio)[1])  # type: ignore[index]
    return ""


def family(lab: SmallLab, **facts: object) -> Run:
    """Store three measured runs of one family; return the newest."""
    for minute, energy_mj in ((0, 60_000_000), (10, 66_000_000), (20, 54_000_000)):
        run = finished(
            lab, minute=minute, gpu_mj=energy_mj, cpu_mj=6_000_000, minutes=5,
            params=PARAMS, **facts,
        )  # fmt: skip
    return run


def test_a_run_fills_the_form_and_is_the_basis(owner: Client, lab: SmallLab) -> None:
    project = Project.objects.create(lab=lab.lab, slug="vision", name="Vision", created_us=T0)
    run = family(lab, charged_project=project)
    response = owner.get("/planner/", {"run": run.uuid})
    page = text_of(response)
    assert response.status_code == 200
    assert f'data-like-run="{run.uuid}"' in page
    assert {name: value_of(page, name) for name in ("samples", "epochs", "batch", "gpus")} == {
        "samples": "5000", "epochs": "10", "batch": "64", "gpus": "1"
    }  # fmt: skip
    assert selected(page, "optimiser") == "adamw"
    assert selected(page, "precision") == "mixed"
    assert selected(page, "project") == "vision"
    assert selected(page, "place") == f"{lab.node.uuid}.{A100_KEY}"
    assert selected(page, "source") == "none"
    assert 'data-basis="own_runs"' in page
    assert rows(page)["time"][1] == 5 * 60_000_000
    assert "3 runs of the family, 3 of the same recipe" in page
    assert "data-no-model" in page
    assert "data-memory" not in page
    assert re.search(r"data-unknown-of-run>\s*The run does not state: model\.", page)


def test_the_address_of_a_loaded_plan_gives_the_same_plan(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    page = text_of(owner.get("/planner/", {"run": f"http://testserver/runs/{run.uuid}/"}))
    link = re.search(r'id="plan-link"[^>]*>([^<]+)<', page)
    assert link
    parts = urlsplit(unescape(link[1]))
    assert parse_qs(parts.query)["run"] == [str(run.uuid)]
    again = text_of(owner.get(f"{parts.path}?{parts.query}"))
    assert rows(again) == rows(page)
    longer = text_of(owner.get(f"{parts.path}?{parts.query}".replace("epochs=10", "epochs=20")))
    assert rows(longer)["time"][1] == 2 * rows(page)["time"][1]


def test_a_model_can_be_added_to_a_loaded_run(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    fields = {"run": run.uuid, "preset": "resnet18", "place": f"{lab.node.uuid}.{A100_KEY}"}
    page = text_of(owner.get("/planner/", fields))
    assert 'data-basis="own_runs"' in page
    assert 'data-memory="refined"' in page


def test_places_without_a_model_use_the_measurement(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    page = text_of(owner.get("/planner/", {"run": run.uuid}))
    row = re.search(rf'data-place="[^"]*{lab.node.uuid}[^"]*".*?</tr>', page, re.DOTALL)
    assert row
    time = re.search(r'data-cell="time"\s+data-low="\d+"\s+data-likely="(\d+)"', row[0])
    assert time
    assert int(time[1]) == rows(page)["time"][1]


def test_the_estimate_of_a_run_has_its_model(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    job = JobInput(model=presets()["resnet50"], work=Work(7000, 3, None, 32, stops_early=True))
    estimate, _ = create_estimate(lab=lab.lab, job=job, person=None, now=T0)
    Estimate.objects.filter(pk=estimate.pk).update(run=run)
    page = text_of(owner.get("/planner/", {"run": run.uuid}))
    assert selected(page, "source") == "preset"
    assert selected(page, "preset") == "resnet50"
    assert selected(page, "early") == "on"
    assert (value_of(page, "samples"), value_of(page, "epochs")) == ("7000", "3")
    assert "data-model-by-name" not in page


def test_the_model_of_an_estimate_with_numbers(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    query = {
        "source": "numbers", "parameters": 1000, "macs": 2000, "layer_outputs": 3000,
        "input": "3x8x8", "optimiser": "lion", "batch": 7,
    }  # fmt: skip
    page = text_of(owner.get("/planner/", query))
    link = re.search(r'id="plan-link"[^>]*>([^<]+)<', page)
    assert link
    estimate, _ = create_estimate(
        lab=lab.lab, job=JobInput(query=urlsplit(unescape(link[1])).query), person=None, now=T0
    )
    Estimate.objects.filter(pk=estimate.pk).update(run=run)
    page = text_of(owner.get("/planner/", {"run": run.uuid}))
    assert (selected(page, "source"), selected(page, "optimiser")) == ("numbers", "lion")
    assert value_of(page, "layer_outputs") == "3000"
    assert value_of(page, "batch") == "7"
    assert 'data-memory="refined"' in page


def test_a_preset_is_known_by_the_name_in_the_parameters(owner: Client, lab: SmallLab) -> None:
    run = finished(lab, minute=0, gpu_mj=1000, params={"arch": "ResNet-18", "max_steps": 500})
    response = owner.get("/planner/", {"run": run.uuid})
    page = text_of(response)
    assert selected(page, "preset") == "resnet18"
    assert "data-model-by-name" in page
    assert value_of(page, "steps") == "500"
    assert response.status_code == 400, "memory needs a batch size, which the run does not state"
    assert 'data-field-error="batch"' in page
    assert value_of(page, "batch") == ""


def test_a_run_that_states_nothing(owner: Client, lab: SmallLab) -> None:
    run = a_run(lab.lab, state=RunState.FINISHED, ended_us=T0 + 1)
    response = owner.get("/planner/", {"run": run.uuid})
    page = text_of(response)
    assert response.status_code == 200
    assert "data-no-fingerprint" in page
    assert "data-no-basis" in page
    assert value_of(page, "epochs") == value_of(page, "gpus") == ""
    assert selected(page, "place") == "any"
    for name in ("model", "dataset size", "epochs or steps", "node and GPU", "project"):
        assert name in page[page.index("data-unknown-of-run") :].split("</p>")[0]


def test_a_run_without_a_gpu(owner: Client, lab: SmallLab) -> None:
    run = finished(lab, minute=0, cpu_mj=6_000_000, params=PARAMS)
    page = text_of(owner.get("/planner/", {"run": run.uuid}))
    assert selected(page, "place") == f"{lab.node.uuid}."
    assert 'data-basis="own_runs"' in page
    found = rows(page)
    assert found.keys() == {"time", "energy", "emission"}
    assert found["energy"][1] == 6_000_000


@pytest.mark.parametrize("text", ["nonsense", HOSTILE, "\x00", "1" * 500])
def test_a_text_without_a_run_is_an_error_at_its_field(
    owner: Client, lab: SmallLab, text: str
) -> None:
    response = owner.get("/planner/", {"run": text})
    page = text_of(response)
    assert response.status_code == 400
    assert 'data-field-error="run"' in page
    assert HOSTILE not in page


def test_a_run_of_another_lab_is_not_found(owner: Client, lab: SmallLab) -> None:
    run = a_run(small_lab(name="Other").lab)
    for uuid in (run.uuid, uuid4()):
        for address in ("/planner/", "/planner/result.csv", "/planner/layers.csv"):
            assert owner.get(address, {"run": uuid}).status_code == 404
    assert str(run.uuid) not in text_of(owner.get("/planner/"))


def test_a_viewer_may_load_a_run(viewer: Client, lab: SmallLab) -> None:
    run = family(lab)
    assert 'data-basis="own_runs"' in text_of(viewer.get("/planner/", {"run": run.uuid}))
    assert_only(viewer, "/planner/", "GET")
    assert_needs_sign_in(f"/planner/?run={run.uuid}")


def test_the_list_has_finished_runs_only(owner: Client, lab: SmallLab) -> None:
    run = family(lab, name=HOSTILE)
    other = a_run(lab.lab, state=RunState.FAILED, ended_us=T0 + 1)
    page = text_of(owner.get("/planner/"))
    listed = page[page.index("<datalist") :].split("</datalist>")[0]
    assert str(run.uuid) in listed
    assert str(other.uuid) not in listed
    assert HOSTILE not in page


def test_a_run_links_to_its_plan(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    page = text_of(owner.get(f"/runs/{run.uuid}/"))
    assert f'href="/planner/?run={run.uuid}" data-plan-like' in page


def test_the_csv_without_a_model_has_the_estimate(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    lines = list(
        csv.DictReader(io.StringIO(text_of(owner.get("/planner/result.csv", {"run": run.uuid}))))
    )
    assert {line["section"] for line in lines} == {"estimate", "place"}
    assert owner.get("/planner/layers.csv", {"run": run.uuid}).status_code == 400


def test_gpus_divide_the_batch(owner: Client) -> None:
    query = {"preset": "resnet18", "batch": 130}
    page = text_of(owner.get("/planner/", {**query, "gpus": 4}))
    assert 'data-gpus="4"' in page
    assert "with 33 samples of a step" in page
    one = text_of(owner.get("/planner/", {**query, "batch": 33}))

    def input_bytes(text: str) -> str:
        found = re.search(r'data-part-key="input" data-likely="(\d+)"', text)
        assert found
        return found[1]

    assert input_bytes(page) == input_bytes(one)


def test_steps_in_place_of_epochs(owner: Client) -> None:
    query = {"preset": "resnet18", "batch": 32}
    page = text_of(owner.get("/planner/", {**query, "steps": 1000}))
    assert 'data-fact="steps" data-count="1000"' in page
    flops = 6 * 1_814_073_344 * 32_000
    assert f'data-fact="flops_total" data-count="{flops}"' in page
    response = owner.get("/planner/", {**query, "steps": 1000, "epochs": 3})
    assert response.status_code == 400
    assert 'data-field-error="steps"' in text_of(response)


def test_an_early_stop_widens_the_range(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    fields = {"run": run.uuid, "source": "none", "epochs": 10, "samples": 5000}
    fixed = rows(text_of(owner.get("/planner/", {**fields, "place": "any"})))["time"]
    early = rows(text_of(owner.get("/planner/", {**fields, "place": "any", "early": "on"})))["time"]
    assert early[1] == fixed[1]
    assert early[0] < fixed[0]
    assert early[2] > fixed[2]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"gpus": "0"}, "gpus"),
        ({"gpus": "100001"}, "gpus"),
        ({"early": "maybe"}, "early"),
        ({"project": "of-nobody"}, "project"),
        ({"steps": "-1"}, "steps"),
    ],
)
def test_new_fields_have_their_errors(owner: Client, fields: dict[str, str], field: str) -> None:
    response = owner.get("/planner/", {"preset": "resnet18", **fields})
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in text_of(response)


def test_more_gpus_than_the_node_has(owner: Client, lab: SmallLab) -> None:
    run = family(lab)
    fields = {"preset": "resnet18", "place": f"{lab.node.uuid}.{A100_KEY}", "run": run.uuid}
    assert "data-too-few-gpus" not in text_of(owner.get("/planner/", fields))
    assert "data-too-few-gpus" in text_of(owner.get("/planner/", {**fields, "gpus": 2}))
