"""POST /api/v1/preflight/<asked>/outcome/ and what counts as avoided."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR
from apps.preflight.models import Avoided, Preflight
from apps.runs.choices import Intent, RunState
from tests.api.conftest import Caller, Labs
from tests.builders import MINUTE, T0
from tests.preflight.support import body, judged, seeds, stored
from tests.preflight.test_ask import WEAK, asked
from tests.runs.fingerprints import hex64

Refused = Callable[..., dict[str, Any]]
WEEK_MINUTES = 7 * 24 * 60


def _told(caller: Caller, asked_id: str, outcome: str) -> Any:
    return caller("POST", f"preflight/{asked_id}/outcome/", {"outcome": outcome})


def _stop(caller: Caller, **wire: Any) -> str:
    asked_id = str(asked(caller, body(**wire))["asked"])
    assert _told(caller, asked_id, "stopped").status_code == 200
    return asked_id


def _minutes_from_now(minutes: int) -> int:
    return (now_us() - T0) // MINUTE + minutes


def test_a_stop_because_of_a_verified_duplicate_is_counted_once(labs: Labs) -> None:
    run = stored(labs.ours)
    asked_id = _stop(labs.member)
    assert _told(labs.member, asked_id, "stopped").status_code == 200
    (avoided,) = Avoided.objects.all()
    assert (avoided.run, avoided.withdrawn_us) == (run, None)
    _stop(labs.viewer)  # the same work again within a week avoids nothing more
    assert Avoided.objects.count() == 1


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"data": WEAK}, {"data": WEAK}),
        ({}, {"seeds": seeds(2)}),
        ({}, {"code": {"hash": hex64("a comment"), "normal": hex64("normal")}}),
        ({}, {"intent": "replicate"}),
        ({}, {"data": {"weak": "", "verified": hex64("other")}}),
    ],
)
def test_what_is_not_sure_avoids_nothing(
    labs: Labs, there: dict[str, Any], here: dict[str, Any]
) -> None:
    stored(labs.ours, wire=there)
    _stop(labs.member, **here)
    assert not Avoided.objects.exists()


def test_going_on_avoids_nothing_and_takes_a_stop_back(labs: Labs, refused: Refused) -> None:
    stored(labs.ours)
    asked_id = _stop(labs.member)
    assert _told(labs.member, asked_id, "went_on").status_code == 200
    assert Avoided.objects.get().withdrawn_us is not None
    refused(_told(labs.member, asked_id, "stopped"), 409, "conflict")


@pytest.mark.parametrize("outcome", ["proceeded", "went_on"])
def test_both_words_for_proceeding_are_accepted(labs: Labs, outcome: str) -> None:
    stored(labs.ours)
    asked_id = _stop(labs.member)
    response = _told(labs.member, asked_id, outcome)
    assert (response.status_code, response.json()) == (200, {"outcome": "went_on"})
    assert Preflight.objects.get().outcome == "went_on"


def test_the_same_work_run_within_a_week_takes_it_back(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.member)
    other = stored(
        labs.ours, minutes=_minutes_from_now(10), state=RunState.RUNNING, wire={"seeds": seeds(2)}
    )
    judged(other)
    assert Avoided.objects.get().withdrawn_us is None
    again = stored(labs.ours, minutes=_minutes_from_now(20), state=RunState.RUNNING)
    judged(again)
    avoided = Avoided.objects.get()
    assert avoided.withdrawn_us is not None
    assert avoided.by_run == again


def test_run_with_the_data_known_by_names_only_takes_it_back_too(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.member)
    judged(
        stored(
            labs.ours, minutes=_minutes_from_now(20), state=RunState.RUNNING, wire={"data": WEAK}
        )
    )
    assert Avoided.objects.get().withdrawn_us is not None


def test_a_probe_of_the_same_work_takes_nothing_back(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.member)
    probe = stored(
        labs.ours, minutes=_minutes_from_now(20), state=RunState.RUNNING, intent=Intent.PROBE
    )
    assert judged(probe) is None
    assert Avoided.objects.get().withdrawn_us is None


def test_the_same_work_after_a_week_is_another_decision(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.member)
    judged(stored(labs.ours, minutes=_minutes_from_now(WEEK_MINUTES + 5), state=RunState.RUNNING))
    assert Avoided.objects.get().withdrawn_us is None


def test_another_labs_run_takes_nothing_back(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.member)
    judged(stored(labs.theirs, minutes=_minutes_from_now(5), state=RunState.RUNNING))
    assert Avoided.objects.get().withdrawn_us is None


def test_only_who_asked_may_say(labs: Labs, refused: Refused) -> None:
    stored(labs.ours)
    asked_id = str(asked(labs.member, body())["asked"])
    for other in (labs.viewer, labs.outsider, labs.node):
        refused(_told(other, asked_id, "stopped"), 404, "not_found")
    refused(_told(labs.member, str(uuid4()), "stopped"), 404, "not_found")
    assert Preflight.objects.get().outcome == ""


def test_a_node_says_what_became_of_its_question(labs: Labs) -> None:
    stored(labs.ours)
    _stop(labs.node)
    assert Avoided.objects.count() == 1


@pytest.mark.parametrize(
    "content", [{}, {"outcome": "ran"}, {"outcome": "stopped", "more": 1}, [], None]
)
def test_bad_input_is_told_in_words(labs: Labs, refused: Refused, content: Any) -> None:
    asked_id = str(asked(labs.member, body())["asked"])
    refused(labs.member("POST", f"preflight/{asked_id}/outcome/", content), 400)


def test_wrong_method_and_nobody(labs: Labs, refused: Refused) -> None:
    address = f"preflight/{uuid4()}/outcome/"
    refused(labs.member("GET", address), 405)
    refused(labs.nobody("POST", address, {"outcome": "stopped"}), 401)


def test_a_week_is_counted_in_hours() -> None:
    from apps.preflight.services.preflight import WITHDRAWN_WITHIN_US

    assert WITHDRAWN_WITHIN_US == 168 * US_PER_HOUR
