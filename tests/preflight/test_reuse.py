"""Before a cat-box detector is trained, last year's cat classifier is offered, with what
adapting it spares.
"""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from labcarbon_collect.api.preflight import parse_response
from labcarbon_collect.lc1 import param_hash
from labcarbon_collect.runs.preflight_text import format_response

from apps.artifacts.models import Artifact
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from tests.api.conftest import Labs
from tests.artifacts.support import digest, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab, W, push
from tests.preflight.support import body, metric, seeds, spend, stored
from tests.preflight.test_ask import asked
from tests.runs.fingerprints import hex64

CATS = "cats.safetensors"


def _data(name: str) -> dict[str, Any]:
    items = [{"role": "data", "name": name, "files": 3, "bytes": 9, "state": "verified"}]
    return {"weak": hex64(f"stat {name}"), "verified": hex64(name), "items": items}


def _detector(**more: Any) -> dict[str, Any]:
    return body(
        data=_data("cat-boxes"),
        entry=hex64("detect.py"),
        code={"hash": hex64("d"), "normal": hex64("d")},
        **more,
    )


@pytest.fixture
def classifier(labs: Labs) -> Run:
    """A finished run that made a classifier of cats, its energy and its metric."""
    run = stored(labs.ours, wire={"data": _data("cats")}, user=labs.ours.owner)
    spend(labs.ours, run, 3_600_000)
    metric(run, "val/acc", 0.914)
    register_artifact(
        labs.ours,
        "cats.safetensors",
        kind="model",
        licence="Apache-2.0",
        copies=[{"path": "/m/cats"}],
        runs=[edge(run)],
        bytes=98_000_000,
    )
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")
    return run


def test_what_is_there_is_offered(labs: Labs, classifier: Run) -> None:
    said = asked(labs.admin, _detector())
    assert (said["verdict"], said["level"]) == ("none", "silent")
    (offer,) = said["reuse"]
    assert offer == {
        "digest": digest("cats.safetensors"),
        "name": "cats.safetensors",
        "licence": "Apache-2.0",
        "bytes": 98_000_000,
        "url": f"http://127.0.0.1:8000/artifacts/{digest('cats.safetensors')}/",
        "who": "you",
        "why": "the same architecture, data of a like name (cat)",
        "metric": {"name": "val/acc", "value": 0.914},
        "energy_mj": 3_600_000,
        "emission_ug": offer["emission_ug"],
        "adapting": None,
        "adapted_unmeasured": 0,
        "saved": None,
        "ways": [],
    }
    assert offer["emission_ug"] > 0


def test_not_where_it_was_done_already_or_adapts_already(labs: Labs, classifier: Run) -> None:
    assert asked(labs.admin, body(data=_data("cats")))["reuse"] == []
    assert asked(labs.admin, body(data=_data("cats"), seeds=seeds(7)))["reuse"] == [], (
        "another seed of it"
    )
    start = {"weak": hex64("w"), "verified": hex64("w"), "name": "cats.safetensors"}
    assert asked(labs.admin, _detector(start=start))["reuse"] == []


def test_who_may_not_read_is_told_nothing(labs: Labs, classifier: Run) -> None:
    assert asked(labs.node, _detector())["reuse"] == []
    assert asked(labs.outsider, _detector())["reuse"] == []
    Artifact.objects.update(state="tombstone")
    assert asked(labs.admin, _detector())["reuse"] == []


def test_unknown_is_null(labs: Labs) -> None:
    register_artifact(
        labs.ours, "found.pt", kind="model", tags={"task": "cat"}, copies=[{"path": "/f"}]
    )
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")
    (offer,) = asked(labs.member, _detector())["reuse"]
    assert (offer["who"], offer["metric"], offer["energy_mj"], offer["licence"]) == (None,) * 4


def _params(**more: Any) -> dict[str, Any]:
    values = {"lr": 0.1, "arch": "resnet18", **more}
    return {"params": {name: param_hash(name, value) for name, value in values.items()}, "told": {}}


def _adapted(
    small: SmallLab,
    energy_mj: int | None,
    *,
    minute: int,
    data: str = "boxes",
    start: str = CATS,
    made: str = "model",
    state: RunState = RunState.FINISHED,
    intent: Intent = Intent.TRAIN,
    **params: Any,
) -> Run:
    """A run that began from a model and made another on other data."""
    wire = {"data": _data(data), **_params(**params)}
    run = stored(small, minutes=minute, wire=wire, user=small.owner, state=state, intent=intent)
    if energy_mj is not None:
        spend(small, run, energy_mj, minute=minute)
    _told(small, start, runs=[edge(run, "initialised_from")])
    _told(small, f"made {minute}", kind=made, runs=[edge(run)])
    return run


def _told(small: SmallLab, name: str, **more: Any) -> None:
    bytes_ = 98_000_000 if name == CATS else 1
    assert (
        register_rows(small, row(name, **{"kind": "model", "bytes": bytes_, **more}))[0][0]
        != "refused"
    )


def _settled(labs: Labs, **more: Any) -> dict[str, Any]:
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")
    (offer,) = [
        each for each in asked(labs.admin, _detector(**more))["reuse"] if each["name"] == CATS
    ]
    return dict(offer)


def test_what_adapting_saves_is_told_by_runs_that_did(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, 60_000, minute=10, freeze_backbone=True)
    _adapted(labs.ours, 200_000, minute=11, freeze_backbone=False)
    _adapted(labs.ours, 90_000, minute=12, **{"model.freeze_backbone": True})
    offer = _settled(labs)
    emitted = offer["adapting"].pop("emission_ug")
    assert offer["adapting"] == {
        "basis": "this",
        "runs": 3,
        "energy_mj": 90_000,
        "low_mj": 60_000,
        "high_mj": 200_000,
    }
    assert offer["saved"] == {
        "energy_mj": 3_510_000,
        "low_mj": 3_400_000,
        "high_mj": 3_540_000,
        "emission_ug": offer["emission_ug"] - emitted,
    }
    assert emitted > 0
    assert offer["ways"] == [
        {
            "way": "head",
            "runs": 2,
            "energy_mj": 60_000,
            "low_mj": 60_000,
            "high_mj": 90_000,
            "saved_mj": 3_540_000,
        },
        {
            "way": "all",
            "runs": 1,
            "energy_mj": 200_000,
            "low_mj": 200_000,
            "high_mj": 200_000,
            "saved_mj": 3_400_000,
        },
    ]
    assert offer["adapted_unmeasured"] == 0


def test_the_collector_says_so(labs: Labs, classifier: Run) -> None:
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")

    def said() -> str:
        return " ".join(
            " ".join(
                format_response(parse_response("http://here", asked(labs.admin, _detector())))
            ).split()
        )

    assert "saves at most 1.00 Wh: no run of this lab has fine-tuned such a model yet" in said()
    _adapted(labs.ours, 60_000, minute=10, freeze_backbone=True)
    _settled(labs)
    assert "saves about 0.983 of the 1.00 Wh training cost" in said()
    assert "1 run of this lab" in said()
    assert "a new head on a frozen body < 0.1 Wh" in said()


def test_of_those_equally_like_what_saves_more_comes_first(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, 60_000, minute=10, data="cat-toys", freeze_backbone=True)
    _adapted(labs.ours, 90_000, minute=11, data="cat-food", freeze_backbone=True)
    _settled(labs)
    for name in ("made 10", "made 11"):
        _told(labs.ours, name, copies=[{"path": f"/m/{name}"}])
    found = asked(labs.admin, _detector())["reuse"]
    assert [(each["name"], each["saved"]["energy_mj"]) for each in found] == [
        (CATS, 3_540_000),
        ("made 11", 30_000),
        ("made 10", 0),
    ]


def test_what_was_not_measured_is_counted_and_in_no_figure(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, None, minute=10, freeze=True)
    offer = _settled(labs)
    assert (offer["adapting"], offer["saved"], offer["ways"], offer["adapted_unmeasured"]) == (
        None,
        None,
        [],
        1,
    )
    _adapted(labs.ours, 60_000, minute=11)
    offer = _settled(labs)
    assert (offer["adapting"]["runs"], offer["adapted_unmeasured"]) == (1, 1)
    assert [each["way"] for each in offer["ways"]] == ["not_told"]


def test_what_took_more_than_making_saves_nothing(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, 5_000_000, minute=10)
    offer = _settled(labs)
    assert {
        name: offer["saved"][name] for name in ("energy_mj", "low_mj", "high_mj")
    } == dict.fromkeys(("energy_mj", "low_mj", "high_mj"), 0)
    assert offer["saved"]["emission_ug"] == 0
    assert offer["ways"][0]["saved_mj"] == 0


def test_only_who_finished_a_model_of_it_adapted_it(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, 10_000, minute=10, state=RunState.FAILED)
    _adapted(labs.ours, 10_000, minute=11, state=RunState.RUNNING)
    _adapted(labs.ours, 10_000, minute=12, intent=Intent.DEBUG)
    _adapted(labs.ours, 10_000, minute=13, made="log")  # it evaluated the model
    _adapted(labs.ours, 10_000, minute=14, data="cats")  # it trained on
    assert _settled(labs)["adapting"] is None
    _adapted(labs.ours, 10_000, minute=15, data="cats", lora_r=8)
    offer = _settled(labs)
    assert (offer["adapting"]["runs"], [each["way"] for each in offer["ways"]]) == (1, ["adapters"])


def test_runs_of_the_same_architecture_tell_where_none_adapted_this_one(
    labs: Labs, classifier: Run
) -> None:
    _adapted(labs.ours, 70_000, minute=10, start="resnet18 of elsewhere")
    _adapted(labs.ours, 80_000, minute=11, start="vit of elsewhere", arch="vit")
    offer = _settled(labs)
    assert (
        offer["adapting"]["basis"],
        offer["adapting"]["runs"],
        offer["adapting"]["energy_mj"],
    ) == (
        "architecture",
        1,
        70_000,
    )
    _adapted(labs.ours, None, minute=12)
    assert _settled(labs)["adapting"]["basis"] == "architecture", "of this one nothing was measured"
    _adapted(labs.ours, 90_000, minute=13)
    offer = _settled(labs)
    assert (offer["adapting"]["basis"], offer["adapting"]["runs"]) == ("this", 1)


def test_runs_of_the_same_base_model_tell_after_that(labs: Labs, classifier: Run) -> None:
    _told(labs.ours, CATS, facts={"base_model": "org/felidae"})
    _told(labs.ours, "felidae of elsewhere", facts={"base_model": "org/felidae"})
    _told(labs.ours, "others", facts={"base_model": "org/felidae-large"})
    _adapted(labs.ours, 70_000, minute=10, start="felidae of elsewhere", arch="other")
    _adapted(labs.ours, 80_000, minute=11, start="others", arch="other")
    offer = _settled(labs)
    assert (
        offer["adapting"]["basis"],
        offer["adapting"]["runs"],
        offer["adapting"]["energy_mj"],
    ) == (
        "base_model",
        1,
        70_000,
    )


def test_another_lab_tells_nothing(labs: Labs, classifier: Run) -> None:
    _adapted(labs.theirs, 70_000, minute=10)
    offer = _settled(labs)
    assert (offer["adapting"], offer["adapted_unmeasured"]) == (None, 0)


def test_emissions_of_which_one_is_unknown_are_not_told(labs: Labs, classifier: Run) -> None:
    _adapted(labs.ours, 60_000, minute=10)
    assert _settled(labs)["saved"]["emission_ug"] is not None
    far = _adapted(labs.ours, None, minute=11)
    site = create_site(
        lab=labs.ours.lab, name="Zone not chosen", kind=SiteKind.WORKSTATION, zone=""
    )
    nowhere = register_node(
        lab=labs.ours.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=site, now=T0
    )
    push(nowhere, [W("gpu:GPU-0000-8888", 70_000, shares=((f"run:{far.uuid}", 70_000),))])
    offer = _settled(labs)
    assert (
        offer["adapting"]["runs"],
        offer["adapting"]["energy_mj"],
        offer["saved"]["energy_mj"],
    ) == (2, 60_000, 3_540_000)
    assert (offer["adapting"]["emission_ug"], offer["saved"]["emission_ug"]) == (None, None)
    assert offer["emission_ug"] > 0


def test_names_of_who_adapted_it_are_not_told(labs: Labs, classifier: Run) -> None:
    run = _adapted(labs.ours, 60_000, minute=10)
    _settled(labs)
    said = asked(labs.viewer, _detector())["reuse"]
    assert str(run.uuid) not in str(said)
    assert labs.ours.owner.username not in str(said)
    assert asked(labs.node, _detector())["reuse"] == []


def test_tags_of_the_question_find_what_is_for_the_same(labs: Labs) -> None:
    register_artifact(
        labs.ours, "found.pt", kind="model", tags={"task": "weather"}, copies=[{"path": "/f"}]
    )
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")
    assert asked(labs.admin, _detector())["reuse"] == []
    (offer,) = asked(labs.admin, {**_detector(), "tags": {"task": "weather maps"}})["reuse"]
    assert offer["why"] == "a like purpose (weather)"
    for tags in ({"": "x"}, {"a\x00": "x"}, {"task": None}, {f"t{i}": "" for i in range(1000)}):
        asked(labs.admin, {**_detector(), "tags": tags}, status=400)


def test_the_number_of_queries_does_not_grow_with_who_adapted(labs: Labs, classifier: Run) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            asked(labs.admin, _detector())
        return len(captured)

    _told(labs.ours, CATS, facts={"base_model": "org/felidae"})
    _settled(labs)
    count()  # the first one notes when the token was used
    alone = count()
    _adapted(labs.ours, 60_000, minute=10)
    _settled(labs)
    few = count()
    assert few <= alone + 4
    for minute in range(11, 36):
        _adapted(labs.ours, 60_000, minute=minute, start=CATS if minute % 2 else f"start {minute}")
    offer = _settled(labs)
    assert offer["adapting"]["runs"] == 14
    assert count() == few
