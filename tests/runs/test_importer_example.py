"""The importer of docs/runs.md: it runs as printed, twice, and its hashes are those of lc2."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.fingerprint.normalise import normal_hash, normal_lines, pack_lines, shingles
from labcarbon_collect.lc1 import param_hash, part_hash

from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.runs.models import ExternalId, Fingerprint, Metric, MetricPoint, Run
from tests.builders import SmallLab, small_lab
from tests.serialized_server import serialize_requests

DOCUMENT = Path(__file__).parents[2] / "docs" / "runs.md"
JULIA = b"# train\nusing Flux\n\n  train(data)\n"


def _program() -> str:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Write an importer")[2]
    match = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert match is not None
    return match[1]


def _run_program(small: SmallLab, url: str, program: str) -> None:
    token = issue_user_token(lab=small.lab, user=small.owner, now=now_us())
    names = {"URL": url, "TOKEN": token, "NODE": str(small.node.uuid), "no_proxy": "*"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def _state() -> list[list[Any]]:
    models = (Run, Fingerprint, Metric, MetricPoint, ExternalId, LedgerEntry)
    hidden = {"last_report_us"}
    return [
        [
            {name: value for name, value in row.items() if name not in hidden}
            for row in model.objects.order_by("pk").values()
        ]
        for model in models
    ]


@pytest.mark.django_db(transaction=True)
def test_the_importer_of_the_document(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serialize_requests(monkeypatch)
    small = small_lab()
    _run_program(small, live_server.url, _program())
    run_until_idle(worker="test")
    run = Run.objects.select_related("fingerprint").get()
    assert (run.name, run.state, run.node) == ("train.jl", "finished", small.node)
    assert run.params == {"lr": 0.1, "epochs": 10, "model": "resnet", "seed": 7}
    assert run.metrics.get().name == "loss"
    entries = LedgerEntry.objects.filter(consumer__run_uuid=run.uuid)
    assert sum(entries.values_list("energy_mj", flat=True)) == 18_000_000

    row = run.fingerprint
    lines = [("train.jl", pack_lines(normal_lines("train.jl", JULIA)))]
    assert row.params == {
        name: param_hash(name, value)
        for name, value in {"lr": 0.1, "epochs": 10, "model": "resnet"}.items()
    }
    assert row.seeds == {"seed": param_hash("seed", 7)}
    assert row.entry == part_hash("entry", "train.jl")
    assert row.code_weak == part_hash("commit", row.commit)
    assert row.code_normal == normal_hash(lines)
    assert row.start == row.start_weak == part_hash("start", "scratch")
    assert (row.data, row.data_weak) == ("", "")

    before = _state()
    _run_program(small, live_server.url, _program())
    run_until_idle(worker="test")
    assert _state() == before


def test_secrets_give_no_shingle() -> None:
    names: dict[str, Any] = {}
    exec(_program().partition("params, seeds =")[0], names)
    content = b"using Flux\nset_API_KEY(1)\nlogin(PASSWORD)\ntrain(data)\n"
    lines = normal_lines("a.jl", content)
    packed = [("a.jl", pack_lines(lines))]
    assert names["shingles"]({"a.jl": lines}) == shingles(packed)
    assert len(shingles(packed)) == 2
    assert names["normal_hash"]({"a.jl": lines}) == normal_hash(packed)
    assert names["param_hash"]("lr", 1.0) == param_hash("lr", 1)
