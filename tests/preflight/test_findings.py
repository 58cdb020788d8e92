"""Repeats found afterwards, and what persons decide of them."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.audit import with_names
from apps.accounts.models import AuditEntry
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue, run_until_idle
from apps.preflight import selectors
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import decide, reopen
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from tests.builders import T0, SmallLab, small_lab
from tests.preflight.support import judged, metric, seeds, stored
from tests.preflight.test_ask import WEAK
from tests.runs.fingerprints import hex64, parsed


def _two(lab: SmallLab, **facts: Any) -> DuplicateFinding:
    first = stored(lab, user=lab.owner)
    second = stored(lab, minutes=5, user=lab.owner, **facts)
    found = judged(second)
    assert found is not None
    assert (found.run, found.original) == (second, first)
    return found


def _decide(
    lab: SmallLab,
    repeat: DuplicateFinding,
    state: FindingState,
    reason: str = "because",
    **facts: Any,
) -> list[DuplicateFinding]:
    facts = {"by": lab.owner, "is_manager": True, "now": T0 + 1, **facts}
    return decide(lab=lab.lab, finding_ids=[repeat.pk], state=state, reason=reason, **facts)


def test_a_repeat_is_found_and_the_first_run_is_none(lab: SmallLab) -> None:
    found = _two(lab)
    assert (found.verdict, found.certainty, found.state) == ("duplicate", "verified", "open")
    assert judged(found.original) is None


def test_probes_do_not_crowd_out_runs_with_equal_keys(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "_MAX_WITH_KEYS", 5)
    original = stored(lab)
    for minute in range(1, 7):
        stored(lab, minutes=minute, intent=Intent.PROBE)
    assert selectors.runs_with_keys_of(stored(lab, minutes=10)) == {original.pk}


def test_a_probe_repeats_nothing_and_is_not_repeated(lab: SmallLab) -> None:
    stored(lab, intent=Intent.PROBE)
    first = stored(lab, minutes=5)
    probe = stored(lab, minutes=10, intent=Intent.PROBE)
    assert judged(first) is None
    assert judged(probe) is None


def test_it_becomes_sure_when_the_digest_arrives(lab: SmallLab) -> None:
    first, second = stored(lab, wire={"data": WEAK}), stored(lab, minutes=5, wire={"data": WEAK})
    found = judged(second)
    assert found is not None
    assert (found.certainty, found.unverified_parts) == ("possible", ["data"])
    for run in (first, second):
        put_fingerprint(run=run, payload=parsed())
    sure = judged(second)
    assert sure is not None
    assert (sure.pk, sure.certainty, sure.unverified_parts) == (found.pk, "verified", [])


def test_an_open_finding_goes_when_contents_differ(lab: SmallLab) -> None:
    stored(lab)
    second = stored(lab, minutes=5, wire={"data": WEAK})
    assert judged(second) is not None
    put_fingerprint(
        run=second, payload=parsed(data={"weak": hex64("stat"), "verified": hex64("a byte")})
    )
    assert judged(second) is None
    assert not DuplicateFinding.objects.exists()


def test_what_a_person_decided_stays(lab: SmallLab) -> None:
    stored(lab)
    second = stored(lab, minutes=5, wire={"data": WEAK})
    found = judged(second)
    assert found is not None
    _decide(lab, found, FindingState.INTENTIONAL)
    put_fingerprint(
        run=second, payload=parsed(data={"weak": hex64("stat"), "verified": hex64("a byte")})
    )
    kept = judged(second)
    assert kept is not None
    assert (kept.state, kept.certainty) == ("intentional", "possible")


def test_a_running_one_becomes_a_duplicate_when_it_ends_well_and_nothing_when_the_machine_fails(
    lab: SmallLab,
) -> None:
    first = stored(lab, state=RunState.RUNNING)
    second = stored(lab, minutes=5, state=RunState.RUNNING)
    found = judged(second)
    assert found is not None
    assert found.verdict == "concurrent"
    Run.objects.filter(pk=first.pk).update(state=RunState.FINISHED, ended_us=first.started_us + 1)
    found = judged(second)
    assert found is not None
    assert found.verdict == "duplicate"
    Run.objects.filter(pk=first.pk).update(state=RunState.FAILED, failure="node")
    assert judged(second) is None


@pytest.mark.parametrize(
    ("state", "point", "kept"),
    [
        ("running", "", True),
        ("failed", "p1", True),
        ("failed", "p2", False),
        ("finished", "", False),
    ],
)
def test_will_fail_is_kept_only_of_what_failed_there(
    lab: SmallLab, state: str, point: str, kept: bool
) -> None:
    stored(lab, state=RunState.FAILED, failure="user_error", failure_point="p1")
    second = stored(lab, minutes=5, state=RunState(state), failure_point=point)
    assert (judged(second) is not None) is kept


def test_the_same_run_told_by_two_trackers_is_no_repeat_and_a_later_one_with_the_same_curves_is(
    lab: SmallLab,
) -> None:
    first, told_twice, later = stored(lab), stored(lab, minutes=1), stored(lab, minutes=30)
    for run in (first, told_twice, later):
        metric(run, "loss", 0.25)
    assert judged(told_twice) is None
    assert judged(later) is not None


def test_nested_runs_and_seeds_are_no_repeats(lab: SmallLab) -> None:
    outer = stored(lab, state=RunState.RUNNING)
    inner = stored(lab, minutes=1, parent=outer)
    fold = stored(lab, minutes=2, parent=outer)
    for run in (inner, fold, stored(lab, minutes=3, wire={"seeds": seeds(2)})):
        assert judged(run) is None


def test_another_labs_runs_are_no_repeats(lab: SmallLab) -> None:
    stored(lab)
    assert judged(stored(small_lab(name="Theirs"), minutes=5)) is None


def test_the_job_judges_and_a_run_that_is_gone_is_nothing_to_it(lab: SmallLab) -> None:
    stored(lab)
    second = stored(lab, minutes=5)
    enqueue(kind="preflight.judge", key=str(second.pk))
    enqueue(kind="preflight.judge", key="987654321")
    assert run_until_idle(worker="test") >= 2
    assert DuplicateFinding.objects.get().run == second


def test_what_is_told_of_runs_judges_them_and_those_that_repeat_them(lab: SmallLab) -> None:
    first = stored(lab, state=RunState.RUNNING)
    stored(lab, minutes=5, state=RunState.RUNNING)
    run_until_idle(worker="test")
    assert DuplicateFinding.objects.get().verdict == "concurrent"
    first.refresh_from_db()
    first.state, first.ended_us = RunState.FINISHED, first.started_us + 1
    first.save()
    run_until_idle(worker="test")
    assert DuplicateFinding.objects.get().verdict == "duplicate"
    put_fingerprint(
        run=first, payload=parsed(data={"weak": hex64("other"), "verified": hex64("other")})
    )
    run_until_idle(worker="test")
    assert not DuplicateFinding.objects.exists()


def test_decide_and_undo_are_recorded(lab: SmallLab) -> None:
    found = _two(lab)
    _decide(lab, found, FindingState.DISMISSED, reason="the data loader was fixed outside")
    found.refresh_from_db()
    assert (found.state, found.decided_by, found.decided_us) == ("dismissed", lab.owner, T0 + 1)
    reopen(lab=lab.lab, finding_ids=[found.pk], by=lab.owner, is_manager=True, now=T0 + 2)
    found.refresh_from_db()
    assert (found.state, found.decided_by, found.decided_us, found.reason) == (
        "open",
        None,
        None,
        "",
    )
    acts = AuditEntry.objects.filter(lab=lab.lab, action__startswith="repeat.").order_by("sequence")
    assert [row.action for row in acts] == ["repeat.decided", "repeat.reopened"]
    assert with_names(acts[0]).details["reason"] == "the data loader was fixed outside"


def test_decisions_are_refused_in_words(lab: SmallLab) -> None:
    found = _two(lab)
    with pytest.raises(InvalidInput, match="reason"):
        _decide(lab, found, FindingState.DISMISSED, reason="")
    with pytest.raises(InvalidInput, match="Unknown decision"):
        _decide(lab, found, FindingState.OPEN)
    with pytest.raises(InvalidInput, match="400"):
        _decide(lab, found, FindingState.CONFIRMED, reason="x" * 401)
    with pytest.raises(InvalidInput, match="No findings selected"):
        decide(
            lab=lab.lab,
            finding_ids=[],
            state=FindingState.CONFIRMED,
            reason="",
            by=lab.owner,
            is_manager=True,
            now=T0,
        )
    with pytest.raises(NotFound):
        _decide(small_lab(name="Theirs"), found, FindingState.CONFIRMED)
    _decide(lab, found, FindingState.CONFIRMED)
    with pytest.raises(Conflict, match="already"):
        _decide(lab, found, FindingState.DISMISSED)


def test_a_member_decides_of_own_runs_only(lab: SmallLab) -> None:
    found = _two(lab)
    somebody = small_lab(name="Elsewhere").owner
    with pytest.raises(Conflict, match="other people"):
        _decide(lab, found, FindingState.CONFIRMED, by=somebody, is_manager=False)
    _decide(lab, found, FindingState.CONFIRMED, is_manager=False)


def test_the_database_forbids_the_impossible(lab: SmallLab) -> None:
    found = _two(lab)
    with pytest.raises(IntegrityError), transaction.atomic():
        DuplicateFinding.objects.filter(pk=found.pk).update(original=found.run)
    with pytest.raises(IntegrityError), transaction.atomic():
        DuplicateFinding.objects.filter(pk=found.pk).update(state=FindingState.CONFIRMED)
