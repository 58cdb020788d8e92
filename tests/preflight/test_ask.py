"""POST /api/v1/preflight/ ."""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from labcarbon_collect.lc1 import param_hash

from apps.accounts.choices import PersonView
from apps.accounts.models import Lab
from apps.fleet.models import Node
from apps.preflight.models import Preflight
from apps.preflight.selectors import MAX_CANDIDATES
from apps.runs.choices import Intent, RunState
from apps.runs.models import ExternalId
from tests.api.conftest import Caller, Labs
from tests.builders import MINUTE
from tests.preflight.support import body, metric, seeds, spend, stored
from tests.runs.fingerprints import hex64

Refused = Callable[..., dict[str, Any]]
WEAK = {"weak": hex64("stat")}


def asked(caller: Caller, content: dict[str, Any], status: int = 200) -> dict[str, Any]:
    response = caller("POST", "preflight/", content)
    assert response.status_code == status, response.content
    return dict(msgspec.json.decode(response.content))


def test_a_duplicate_is_told_with_who_when_how_much_and_how_it_went(labs: Labs) -> None:
    run = stored(labs.ours, user=labs.ours.owner)
    spend(labs.ours, run, 3_600_000)
    metric(run, "train/loss", 0.3)
    metric(run, "val/acc", 0.914)
    said = asked(labs.admin, body())
    assert (said["verdict"], said["certainty"], said["level"]) == ("duplicate", "verified", "warn")
    (match,) = said["matches"]
    assert match["run"] == str(run.uuid)
    assert match["url"].endswith(f"/runs/{run.uuid}/")
    assert (match["who"], match["host"], match["state"]) == ("you", "ws-1", "finished")
    assert match["energy_mj"] == 3_600_000
    assert match["emission_ug"] > 0
    assert match["metric"] == {"name": "val/acc", "value": 0.914}
    assert said["message"].startswith("This was done already: you, ")
    assert "1.00 Wh" in said["message"]
    assert "val/acc 0.914" in said["message"]
    assert said["estimate"] == {
        "runs": 1,
        "energy_mj": 3_600_000,
        "low_mj": 3_600_000,
        "high_mj": 3_600_000,
        "emission_ug": match["emission_ug"],
    }


def test_an_unmodified_script_is_possible_at_first_and_sure_with_the_digest(labs: Labs) -> None:
    stored(labs.ours, wire={"data": WEAK})
    said = asked(labs.member, body(data=WEAK))
    assert (said["verdict"], said["certainty"], said["level"]) == (
        "duplicate",
        "possible",
        "inform",
    )
    assert said["matches"][0]["weak"] == ["data"]
    assert "Compared by names, sizes and times only: data" in said["message"]
    stored(labs.ours, minutes=5)
    assert asked(labs.member, body())["certainty"] == "verified"


@pytest.mark.parametrize("state", [RunState.FINISHED, RunState.RUNNING, RunState.KILLED])
def test_a_probe_is_no_earlier_run_of_the_work(labs: Labs, state: RunState) -> None:
    spend(labs.ours, stored(labs.ours, state=state, intent=Intent.PROBE), 3_600_000)
    said = asked(labs.admin, body())
    assert (said["verdict"], said["matches"], said["estimate"]) == ("none", [], None)


def test_probes_do_not_crowd_out_the_runs_of_the_work(labs: Labs) -> None:
    run = stored(labs.ours, user=labs.ours.owner)
    for minute in range(1, MAX_CANDIDATES + 2):
        stored(labs.ours, minutes=minute, intent=Intent.PROBE)
    said = asked(labs.admin, body())
    assert (said["verdict"], said["certainty"]) == ("duplicate", "verified")
    assert [match["run"] for match in said["matches"]] == [str(run.uuid)]


def test_the_question_of_a_probe_is_declared(labs: Labs) -> None:
    stored(labs.ours)
    said = asked(labs.admin, body(intent="probe"))
    assert (said["verdict"], said["level"]) == ("declared", "silent")


def test_what_is_not_measured_is_null_and_not_zero(labs: Labs) -> None:
    stored(labs.ours)
    said = asked(labs.member, body())
    assert said["matches"][0]["energy_mj"] is None
    assert said["matches"][0]["energy_state"] == "not_measured"
    assert said["matches"][0]["emission_ug"] is None
    assert said["matches"][0]["metric"] is None
    assert said["estimate"] is None


def test_energy_that_may_still_arrive_is_not_counted_yet(labs: Labs) -> None:
    ended = stored(labs.ours)
    Node.objects.filter(pk=labs.ours.node.pk).update(last_push_us=ended.ended_us)
    said = asked(labs.member, body())
    assert said["matches"][0]["energy_mj"] is None
    assert said["matches"][0]["energy_state"] == "not_counted_yet"
    assert "not counted yet" in said["message"]
    Node.objects.filter(pk=labs.ours.node.pk).update(last_push_us=(ended.ended_us or 0) + MINUTE)
    assert asked(labs.member, body())["matches"][0]["energy_state"] == "not_measured"


def test_unknown_data_is_stated_with_earlier_runs_of_the_same_code(labs: Labs) -> None:
    first = asked(labs.member, body(data=None))
    assert (first["verdict"], first["level"], first["unknown"]) == ("none", "silent", ["data"])
    assert "data" in first["message"].lower()
    for minutes in (0, 2):
        stored(labs.ours, minutes=minutes, wire={"data": None})
    said = asked(labs.member, body(data=None))
    assert (said["verdict"], said["level"], said["certainty"]) == ("none", "inform", "possible")
    assert "twice" in said["message"]
    assert len(said["matches"]) == 2
    assert said["matches"][0]["not_compared"] == ["data"]


def test_a_label_that_differs_is_shown_with_both_values(labs: Labs) -> None:
    def labelled(value: str) -> dict[str, Any]:
        return {
            "labels": {"experiment": param_hash("experiment", value)},
            "told": {"experiment": value},
        }

    stored(labs.ours, wire=labelled("resnet"))
    said = asked(labs.member, body(**labelled("vit")))
    assert (said["verdict"], said["certainty"], said["level"]) == (
        "duplicate",
        "possible",
        "inform",
    )
    assert said["matches"][0]["labels"] == ["experiment"]
    assert {
        "part": "labels", "name": "experiment", "here": "vit", "there": "resnet",
        "here_state": "uploaded", "there_state": "uploaded",
    } in said["matches"][0]["differs"]  # fmt: skip
    assert "resnet" in said["message"]
    assert "vit" in said["message"]


def test_a_label_states_which_value_was_not_uploaded(labs: Labs) -> None:
    stored(labs.ours, wire={"labels": {"experiment": param_hash("experiment", "resnet")}})
    own = {"labels": {"experiment": param_hash("experiment", "vit")}}

    def states(caller: Caller, **wire: Any) -> tuple[object, ...]:
        said = asked(caller, body(**wire))
        [label] = [part for part in said["matches"][0]["differs"] if part["part"] == "labels"]
        return label["here"], label["there"], label["here_state"], label["there_state"]

    assert states(labs.member, **own) == (None, None, "not_uploaded", "not_uploaded")
    uploaded = {**own, "told": {"experiment": "vit"}}
    assert states(labs.member, **uploaded) == ("vit", None, "uploaded", "not_uploaded")
    said = asked(labs.member, body(**uploaded))
    assert "experiment (not uploaded → vit)" in said["message"]
    assert states(labs.member, labels={}) == (None, None, "absent", "not_uploaded")
    assert states(labs.node, **uploaded)[3] == "not_visible"


@pytest.mark.parametrize(
    ("wire", "verdict", "level"),
    [
        ({"seeds": seeds(2)}, "replicate", "silent"),
        ({"data": {"weak": hex64("stat"), "verified": hex64("one byte")}}, "none", "silent"),
        ({"code": {"hash": hex64("one line"), "normal": hex64("one line")}}, "none", "silent"),
        ({"code": {"hash": hex64("a comment"), "normal": hex64("normal")}}, "near", "warn"),
        ({"intent": "replicate"}, "declared", "silent"),
        ({"data": None}, "none", "inform"),
        ({"data": None, "seeds": seeds(2)}, "none", "silent"),
        ({"sweep": "s-1", "seeds": seeds(4)}, "sweep", "silent"),
    ],
)
def test_verdicts_over_the_wire(labs: Labs, wire: dict[str, Any], verdict: str, level: str) -> None:
    stored(labs.ours)
    said = asked(labs.member, body(**wire))
    assert (said["verdict"], said["level"]) == (verdict, level)


def test_a_number_within_the_tolerance_is_found_in_a_large_family(labs: Labs) -> None:
    from labcarbon_collect.lc1 import param_hash

    def params(lr: float, epochs: int = 10) -> dict[str, Any]:
        return {
            "params": {"lr": param_hash("lr", lr), "epochs": param_hash("epochs", epochs)},
            "told": {"lr": lr},
        }

    near = stored(labs.ours, wire=params(0.1))
    for i in range(60):
        stored(labs.ours, minutes=2, wire=params(1.0, epochs=100 + i))
    said = asked(labs.member, body(**params(0.10000000001)))
    assert (said["verdict"], said["matches"][0]["run"]) == ("near", str(near.uuid))
    assert said["matches"][0]["differs"] == [
        {
            "part": "params", "name": "lr", "here": 0.10000000001, "there": 0.1,
            "here_state": "uploaded", "there_state": "uploaded",
        }
    ]  # fmt: skip


def test_a_running_one_is_told_loudest(labs: Labs) -> None:
    stored(labs.ours)
    stored(labs.ours, minutes=3, state=RunState.RUNNING)
    said = asked(labs.member, body())
    assert (said["verdict"], said["level"]) == ("concurrent", "loud")
    assert "still running" in said["message"]


def test_what_failed_in_the_code_is_told_with_its_last_line(labs: Labs) -> None:
    stored(
        labs.ours,
        state=RunState.FAILED,
        failure="user_error",
        failure_text="Traceback\nValueError: shapes",
    )
    said = asked(labs.member, body())
    assert said["verdict"] == "will_fail"
    assert said["matches"][0]["failure"] == {"class": "user_error", "text": "ValueError: shapes"}


def test_the_same_id_of_a_tracker_is_the_same_run(labs: Labs) -> None:
    run = stored(labs.ours)
    ExternalId.objects.create(lab=labs.ours.lab, run=run, tool="mlflow", value="r-1")
    said = asked(labs.member, {**body(), "external": {"tool": "mlflow", "value": "r-1"}})
    assert (said["verdict"], said["level"], said["matches"][0]["run"]) == (
        "same_run",
        "silent",
        str(run.uuid),
    )


def test_the_run_itself_is_no_repeat(labs: Labs) -> None:
    run = stored(labs.ours, state=RunState.RUNNING)
    assert asked(labs.member, body(run=run.uuid))["verdict"] == "none"


def test_a_project_does_not_count_what_it_ignores(labs: Labs) -> None:
    from labcarbon_collect.lc1 import param_hash

    from apps.runs.models import IgnoredParameter

    project = labs.ours.lab.projects.get(slug="demo")
    IgnoredParameter.objects.create(project=project, name="comment_id", since_us=0)
    stored(labs.ours, charged_project=project)
    lr = {
        name: param_hash(name, value)
        for name, value in {"lr": 0.1, "epochs": 10, "arch": "resnet18", "comment_id": 7}.items()
    }
    assert asked(labs.member, body(project="demo", params=lr))["verdict"] == "duplicate"
    assert asked(labs.member, body(params=lr))["verdict"] == "none"


def test_names_are_told_as_the_lab_settled(labs: Labs) -> None:
    stored(labs.ours, user=labs.ours.owner)
    assert asked(labs.member, body())["matches"][0]["who"] == "someone in your lab"
    Lab.objects.filter(pk=labs.ours.lab.pk).update(person_view=PersonView.LAB)
    assert asked(labs.member, body())["matches"][0]["who"] == labs.ours.owner.username


def test_a_node_is_told_that_but_not_which_and_whose(labs: Labs) -> None:
    run = stored(labs.ours, user=labs.ours.owner, failure_text="secret")
    spend(labs.ours, run, 1000)
    metric(run, "val/acc", 0.9)
    said = asked(labs.node, body())
    assert said["verdict"] == "duplicate"
    (match,) = said["matches"]
    assert [match[name] for name in ("run", "url", "project", "host", "metric")] == [None] * 5
    assert match["who"] == "someone in your lab"
    assert match["energy_mj"] == 1000
    assert str(run.uuid) not in str(said)


def test_other_labs_never_change_an_answer(labs: Labs) -> None:
    theirs = stored(labs.theirs)
    ExternalId.objects.create(lab=labs.theirs.lab, run=theirs, tool="mlflow", value="r-1")
    said = asked(
        labs.member, {**body(run=theirs.uuid), "external": {"tool": "mlflow", "value": "r-1"}}
    )
    assert (said["verdict"], said["matches"], said["estimate"]) == ("none", [], None)
    assert asked(labs.outsider, body())["verdict"] == "duplicate"


def test_the_question_is_kept(labs: Labs) -> None:
    run = stored(labs.ours)
    said = asked(labs.member, body())
    kept = Preflight.objects.get(uuid=said["asked"])
    assert (kept.lab, kept.verdict, kept.matches) == (labs.ours.lab, "duplicate", [str(run.uuid)])
    assert kept.f1 is not None


def test_the_number_of_queries_does_not_depend_on_runs(labs: Labs) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            asked(labs.member, body())
        return len(captured)

    spend(labs.ours, stored(labs.ours), 10)
    count()  # the first one notes when the token was used
    few = count()
    for minute in range(1, 12):
        spend(labs.ours, stored(labs.ours, minutes=minute, user=labs.ours.owner), 10, minute=minute)
    assert count() == few


def test_a_viewer_may_ask_and_nobody_may_not(labs: Labs, refused: Refused) -> None:
    assert asked(labs.viewer, body())["verdict"] == "none"
    refused(labs.nobody("POST", "preflight/", body()), 401, "not_authenticated")


def test_wrong_method(labs: Labs, refused: Refused) -> None:
    refused(labs.member("GET", "preflight/"), 405)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"fingerprint": None}, "fingerprint"),
        ({"fingerprint": {"version": "lc3"}}, "fingerprint.version"),
        ({"fingerprint": {"version": "lc2", "entry": "x"}}, "fingerprint.entry"),
        ({"more": 1}, "more"),
        ({"run": "x"}, "run"),
        ({"name": "a\x00"}, "name"),
        ({"external": {"tool": "mlflow"}}, "external.value"),
    ],
)
def test_bad_input_is_told_in_words(
    labs: Labs, refused: Refused, change: dict[str, Any], field: str
) -> None:
    assert refused(labs.member("POST", "preflight/", {**body(), **change}), 400)["field"] == field
    assert not Preflight.objects.exists()


def test_an_unknown_project_is_no_reason_to_refuse_an_answer(labs: Labs) -> None:
    stored(labs.ours)
    assert asked(labs.member, body(project="no-such"))["verdict"] == "duplicate"


def test_unknown_uuid_of_run_is_fine(labs: Labs) -> None:
    assert asked(labs.member, body(run=uuid.uuid4()))["verdict"] == "none"


def test_the_collector_asks_so_and_understands_the_answer(labs: Labs) -> None:
    from labcarbon_collect.api.preflight import PreflightRequest, parse_response

    from tests.runs.fingerprints import told

    stored(labs.ours)
    question = PreflightRequest(
        fingerprint=told(), name="train.py", project="demo", run=str(uuid.uuid4())
    )
    answer = parse_response("http://here", asked(labs.member, question.body()))
    assert (answer.verdict, answer.is_blocking, answer.is_notable) == ("duplicate", True, True)
    assert (
        labs.member(
            "POST", f"preflight/{answer.preflight_id}/outcome/", {"outcome": "stopped"}
        ).status_code
        == 200
    )
    other_seed = PreflightRequest(fingerprint=told(seeds=seeds(5)), name="")
    silent = parse_response("http://here", asked(labs.member, other_seed.body()))
    assert (silent.verdict, silent.is_notable) == ("replicate", False)
