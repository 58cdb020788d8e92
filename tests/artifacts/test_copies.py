"""Where things lie: since when, and for how long what lies there is kept."""

import msgspec
import pytest

from apps.artifacts.choices import CopyState
from apps.artifacts.cleanup.proposals import propose_copies
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.cleanup.retention_settings import set_retention_periods
from apps.artifacts.models import Copy
from apps.artifacts.parsing import parse_copy_states
from apps.artifacts.services.copies import record_copy_states
from apps.core.clock import utc
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER
from tests.artifacts.support import edge, register_rows, row
from tests.builders import T0, SmallLab

PATH = "/ckpt/last.pt"


def _found(lab: SmallLab, content: str, now: int) -> Copy:
    """Something is found under the path, written long ago (copied with its time)."""
    copies = [{"path": PATH, "medium": "hdd", "modified_at": utc(T0 - DAY_US).isoformat()}]
    register_rows(
        lab,
        row(
            content,
            kind="checkpoint",
            copies=copies,
            facts={"step": 0},
            runs=[edge(Run.objects.get())],
        ),
        now=now,
    )
    return Copy.objects.get(path=PATH)


def test_the_same_content_in_its_place_was_found_when_it_was_found_first(
    lab: SmallLab, run: Run
) -> None:
    assert _found(lab, "a", T0).first_observed_us == T0
    again = _found(lab, "a", LATER)
    assert (again.first_observed_us, again.last_observed_us) == (T0, LATER)


@pytest.mark.parametrize("state", ["missing", "corrupt"])
def test_what_was_missing_and_is_found_again_was_there_before(
    lab: SmallLab, run: Run, state: str
) -> None:
    _found(lab, "a", T0)
    gone = parse_copy_states(
        msgspec.json.encode({"copies": [{"path": PATH, "state": state}]})
    ).copies
    assert record_copy_states(lab=lab.lab, node=lab.node, rows=gone, now=T0 + DAY_US) == 1
    assert (_found(lab, "a", LATER).first_observed_us, Copy.objects.get(path=PATH).state) == (
        T0,
        "present",
    )


def test_other_content_in_a_known_place_is_found_anew_and_not_due(lab: SmallLab, run: Run) -> None:
    _found(lab, "a", T0)
    assert _found(lab, "b", LATER).first_observed_us == LATER
    assert PATH not in {each.copy.path for each in propose_copies(lab.lab, lab.node, now=LATER)}
    assert PATH in {
        each.copy.path for each in propose_copies(lab.lab, lab.node, now=LATER + 14 * DAY_US)
    }
    assert _found(lab, "a", LATER + DAY_US).first_observed_us == LATER + DAY_US, (
        "also what lay there once"
    )


@pytest.mark.parametrize("state", [CopyState.TRASHED, CopyState.DELETED])
def test_what_is_back_where_a_plan_took_it_away_is_found_anew_and_not_due(
    lab: SmallLab, run: Run, state: CopyState
) -> None:
    _found(lab, "a", T0)
    Copy.objects.filter(path=PATH).update(state=state)
    back = _found(lab, "a", LATER)
    assert (back.first_observed_us, back.state) == (LATER, "present")
    assert PATH not in {each.copy.path for each in propose_copies(lab.lab, lab.node, now=LATER)}
    assert _found(lab, "a", LATER + DAY_US).first_observed_us == LATER


def test_the_period_counts_from_the_files_own_time_if_that_is_older_than_the_first_scan(
    lab: SmallLab, run: Run
) -> None:
    _found(lab, "a", LATER)  # written a day before T0
    due = {each.copy.path: each.due_us for each in propose_copies(lab.lab, lab.node, now=LATER)}
    assert due[PATH] == T0 - DAY_US + 14 * DAY_US


def test_a_period_of_0_days_is_due_at_once(lab: SmallLab, run: Run) -> None:
    periods = {"intermediate": "0"}
    set_retention_periods(lab=lab.lab, project=None, days=periods, by=lab.owner, now=T0)
    _found(lab, "a", T0)
    due = {each.copy.path: each.due_us for each in propose_copies(lab.lab, lab.node, now=T0)}
    assert due[PATH] == T0 - DAY_US
