"""Before a cat-box detector is trained, last year's cat classifier is offered, with what adapting it spares."""

from typing import Any

import pytest

from apps.artifacts.models import Artifact
from apps.core.jobs import work_until_empty
from apps.core.models import Job
from apps.runs.models import Run
from tests.api.conftest import Labs
from tests.artifacts.support import artifact, digest, edge
from tests.preflight.support import body, metric, seeds, spend, stored
from tests.preflight.test_ask import asked
from tests.runs.fingerprints import hex64


def _data(name: str) -> dict[str, Any]:
    items = [{"role": "data", "name": name, "files": 3, "bytes": 9, "state": "verified"}]
    return {"weak": hex64(f"stat {name}"), "verified": hex64(name), "items": items}


def _detector(**more: Any) -> dict[str, Any]:
    return body(data=_data("cat-boxes"), entry=hex64("detect.py"), code={"hash": hex64("d"), "normal": hex64("d")}, **more)


@pytest.fixture
def classifier(labs: Labs) -> Run:
    """A finished run that made a classifier of cats, its energy and its metric."""
    run = stored(labs.ours, wire={"data": _data("cats")}, user=labs.ours.owner)
    spend(labs.ours, run, 3_600_000)
    metric(run, "val/acc", 0.914)
    artifact(
        labs.ours, "cats.safetensors", kind="model", licence="Apache-2.0", copies=[{"path": "/m/cats"}], runs=[edge(run)],
        bytes=98_000_000,
    )  # fmt: skip
    Job.objects.update(due_us=0)
    work_until_empty(worker="test")
    return run


def test_what_is_there_is_offered(labs: Labs, classifier: Run) -> None:
    said = asked(labs.admin, _detector())
    assert (said["verdict"], said["level"]) == ("none", "silent")
    (offer,) = said["reuse"]
    assert offer == {
        "digest": digest("cats.safetensors"), "name": "cats.safetensors", "licence": "Apache-2.0", "bytes": 98_000_000,
        "url": f"http://127.0.0.1:8000/artifacts/{digest('cats.safetensors')}/", "who": "you",
        "why": "the same architecture, data of a like name (cat)", "metric": {"name": "val/acc", "value": 0.914},
        "energy_mj": 3_600_000, "emission_ug": offer["emission_ug"],
    }  # fmt: skip
    assert offer["emission_ug"] > 0


def test_not_where_it_was_done_already_or_adapts_already(labs: Labs, classifier: Run) -> None:
    assert asked(labs.admin, body(data=_data("cats")))["reuse"] == []
    assert asked(labs.admin, body(data=_data("cats"), seeds=seeds(7)))["reuse"] == [], "another seed of it"
    start = {"weak": hex64("w"), "verified": hex64("w"), "name": "cats.safetensors"}
    assert asked(labs.admin, _detector(start=start))["reuse"] == []


def test_who_may_not_read_is_told_nothing(labs: Labs, classifier: Run) -> None:
    assert asked(labs.node, _detector())["reuse"] == []
    assert asked(labs.outsider, _detector())["reuse"] == []
    Artifact.objects.update(state="tombstone")
    assert asked(labs.admin, _detector())["reuse"] == []


def test_unknown_is_null(labs: Labs) -> None:
    artifact(labs.ours, "found.pt", kind="model", tags={"task": "cat"}, copies=[{"path": "/f"}])
    Job.objects.update(due_us=0)
    work_until_empty(worker="test")
    (offer,) = asked(labs.member, _detector())["reuse"]
    assert (offer["who"], offer["metric"], offer["energy_mj"], offer["licence"]) == (None,) * 4
