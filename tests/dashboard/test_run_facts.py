"""Facts on the page of a run: fingerprint, parameters, metrics, sources."""

import json
import re
from uuid import UUID

from django.test import Client

from apps.fleet.models import Node
from apps.preflight.models import DuplicateFinding
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import ExternalId, Fingerprint, Metric, MetricPoint, Run, TierKey
from apps.runs.services.fingerprints import put_fingerprint
from tests.builders import MINUTE, T0, SmallLab
from tests.dashboard.support import HOSTILE, queries, text_of, use
from tests.runs.fingerprints import a_run, hex64, parsed


def _run(uuid: UUID) -> Run:
    return Run.objects.get(uuid=uuid)


def test_parts_and_how_well_they_are_known(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    Fingerprint.objects.create(
        run=_run(uuid),
        entry_name="train.py",
        code="c" * 64,
        commit="ab12cd34ef99",
        dirty=True,
        params={"lr": "1" * 32, "depth": "2" * 32},
        told={"lr": 0.1, "on": True, "experiment": "vit"},
        dropped={"out_dir": "3" * 32},
        labels={"experiment": "4" * 32, "notes": "5" * 32},
        not_compared=["programs that the code starts"],
        seeds={},
        data_weak="d" * 64,
        data_items=[{"role": "data", "name": "cats", "files": 812, "bytes": 91_234_567}],
        start="0" * 64,
        start_name="scratch",
        environment={"python": "3.11.7"},
        hardware={"gpus": "2 × NVIDIA A100"},
    )
    page = text_of(owner.get(f"/runs/{uuid}/"))
    for words in (
        "ab12cd34ef with changes",
        "data cats (812 files, 91.2 MB)",
        "by names, sizes and times",
        "scratch",
        "unset",
        "<dt>lr</dt><dd>0.1</dd>",
        "<dt>depth</dt><dd>#222222</dd>",
        "comparisons: out_dir",
        "experiment = vit, notes",
        "programs that the code starts",
        "3.11.7",
        "2 × NVIDIA A100",
    ):
        assert words in page, words


def test_energy_that_may_still_arrive_is_not_counted_yet(lab: SmallLab, owner: Client) -> None:
    run = a_run(lab.lab, node=lab.node, state="finished", ended_us=T0 + MINUTE)
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0 + MINUTE)
    assert "not counted yet" in text_of(owner.get(f"/runs/{run.uuid}/"))
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0 + 2 * MINUTE)
    page = text_of(owner.get(f"/runs/{run.uuid}/"))
    assert "not counted yet" not in page
    assert "not measured" in page


def test_what_nobody_told_is_said(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    assert 'data-empty="fingerprint"' in text_of(owner.get(f"/runs/{uuid}/"))
    Fingerprint.objects.create(run=_run(uuid), seeds=None)
    page = text_of(owner.get(f"/runs/{uuid}/"))
    assert page.count("<dd data-unknown>") == 5


def test_metrics_tellers_and_parts(lab: SmallLab, owner: Client) -> None:
    uuid, part = use(lab, runs=2)
    run = _run(uuid)
    Run.objects.filter(uuid=part).update(parent=run)
    Run.objects.filter(uuid=uuid).update(
        reported_by="mlflow", intent="benchmark", failure="cuda_memory", sweep="lr-sweep"
    )
    ExternalId.objects.create(lab=lab.lab, run=run, tool="mlflow", value="ab12")
    Metric.objects.create(
        run=run, name="val_acc", count=3, last_value=0.91234, min_value=0.1, max_value=0.95
    )
    Metric.objects.create(run=run, name="loss", count=1)
    page = text_of(owner.get(f"/runs/{uuid}/"))
    for words in (
        'data-source="mlflow">MLflow</dd>',
        "<dt>MLflow</dt><dd><code>ab12</code></dd>",
        'data-intent="benchmark"',
        "gpu memory",
        "lr-sweep",
        'data-children="1"',
        ">0.9123</td>",
        "not a number",
    ):
        assert words in page, words
    assert f'<a href="/runs/{uuid}/">train.py</a>' in text_of(owner.get(f"/runs/{part}/"))


def test_a_finding_leads_to_both_side_by_side(lab: SmallLab, owner: Client) -> None:
    first, second = use(lab, runs=2)
    found = DuplicateFinding.objects.create(
        lab=lab.lab,
        run=_run(second),
        original=_run(first),
        verdict="duplicate",
        certainty="possible",
        detected_us=1,
    )
    Fingerprint.objects.create(run=_run(second))
    page = text_of(owner.get(f"/runs/{second}/"))
    assert 'data-finding="duplicate"' in page
    assert f'<a href="/runs/{first}/">' in page
    assert f'<a href="/runs/duplicates/{found.pk}/">' in page
    DuplicateFinding.objects.update(state="dismissed", decided_us=2)
    assert "data-finding" not in text_of(owner.get(f"/runs/{second}/"))


def test_words_of_others_are_text(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    run = _run(uuid)
    Fingerprint.objects.create(
        run=run,
        entry_name=HOSTILE,
        params={HOSTILE: "1" * 32},
        told={HOSTILE: HOSTILE},
        dropped=[HOSTILE],
        labels={HOSTILE: "1" * 32},
        not_compared=[HOSTILE],
        data="d" * 64,
        data_items=[{"role": HOSTILE, "name": HOSTILE}],
        environment={HOSTILE: HOSTILE},
    )
    Metric.objects.create(run=run, name=HOSTILE)
    assert HOSTILE not in text_of(owner.get(f"/runs/{uuid}/"))


def test_queries_do_not_grow_with_what_is_told(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    few = queries(owner, f"/runs/{uuid}/")
    run = _run(uuid)
    for i in range(20):
        Metric.objects.create(run=run, name=f"m{i}")
        ExternalId.objects.create(lab=lab.lab, run=run, tool="api", value=str(i))
    assert queries(owner, f"/runs/{uuid}/") == few


def test_a_curve_of_the_metric_people_look_at_or_ask_for(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    run = _run(uuid)
    for name in ("loss", "val_acc"):
        metric = Metric.objects.create(
            run=run, name=name, count=3, last_step=2, last_value=0.5, min_value=0.1, max_value=0.5
        )
        for step, value in enumerate((0.1, None, 0.5)):
            MetricPoint.objects.create(
                metric=metric, step=step, at_us=0, value=value, special_value="" if value else "NaN"
            )
    page = text_of(owner.get(f"/runs/{uuid}/"))
    found = re.search(
        r'<script id="run-metric" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert found
    assert json.loads(found[1])["data"][0]["y"] == [0.1, None, 0.5]
    assert "val_acc over 3 steps, from 0.1 to 0.5." in page
    assert "loss over 3 steps" in text_of(owner.get(f"/runs/{uuid}/?metric=loss"))
    assert "run-metric" not in text_of(owner.get(f"/runs/{uuid}/?metric=nothing"))


def test_other_runs_of_the_same_work_are_counted(lab: SmallLab, owner: Client) -> None:
    asked = use(lab, runs=3)
    parts = {"code": "c" * 64, "data": "d" * 64, "start": "0" * 64, "entry": "e" * 64}
    for seed, uuid in enumerate(asked):
        keys = Parts(**parts, recipe="1" * 32, seeds=str(min(seed, 1)) * 64)
        rows = [
            TierKey(lab=lab.lab, run=_run(uuid), tier=tier, key=key)
            for tier, key in tier_keys(keys)
        ]
        TierKey.objects.bulk_create(rows)
        Fingerprint.objects.create(run=_run(uuid))
    page = text_of(owner.get(f"/runs/{asked[2]}/"))
    assert re.findall(r'data-siblings="(\d+)" data-verified="(\d+)"', page) == [
        ("1", "1"),
        ("2", "2"),
    ]
    assert "1 other run with the same work." in page
    assert "with the same work" not in text_of(owner.get(f"/runs/{asked[0]}/"))


def test_nearly_the_same_code_is_told_and_compared(lab: SmallLab, owner: Client) -> None:
    one, other = use(lab, runs=2)
    lines = [f"{number:08x}" for number in range(100)]
    for uuid, told_lines in ((one, lines), (other, [*lines[:-1], "ffffffff"])):
        name = told_lines[-1]
        code = {"hash": hex64(name), "normal": hex64(f"normal {name}"), "shingles": told_lines}
        put_fingerprint(run=_run(uuid), payload=parsed(code=code))
    page = text_of(owner.get(f"/runs/{one}/"))
    assert 'data-similar-code="1"' in page
    assert "98 %" in page
    compared = text_of(owner.get(f"/runs/compare/?run={one}&run={other}"))
    assert "The two runs differ in code." in compared
    assert "Code, 98 % of lines identical" in compared
