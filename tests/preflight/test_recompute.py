"""A database of before with fingerprints ``lc1`` only: verdicts before and after."""

from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from apps.core.jobs import run_until_idle
from apps.preflight.choices import Certainty, FindingState, Verdict
from apps.preflight.models import Avoided, DuplicateFinding, Preflight
from apps.preflight.services import recompute
from apps.preflight.services.recompute import preview, request_recompute
from apps.runs.choices import Tier
from apps.runs.models import Fingerprint, Run, TierKey
from tests.builders import T0, SmallLab, small_lab
from tests.preflight.support import stored
from tests.runs.fingerprints import hex64

pytestmark = pytest.mark.django_db
_LC1 = {"version": "lc1", "dropped": ["run_name"], "labels": None, "not_compared": None}


def _before(small: SmallLab, minutes: int, **wire: Any) -> Run:
    """Store a run as an older server did: its keys are those of ``lc1``, without the entry."""
    run = stored(small, minutes=minutes, wire={**_LC1, **wire})
    TierKey.objects.filter(run=run, tier__in=(Tier.CODE_PARAMS, Tier.CODE_PARAMS_WEAK)).delete()
    for key in TierKey.objects.filter(run=run, tier=Tier.F1):
        TierKey.objects.filter(run=run, tier=Tier.F1, key=key.key).update(key=7)
    return run


def _find(run: Run, original: Run, **facts: Any) -> DuplicateFinding:
    return DuplicateFinding.objects.create(
        lab=run.lab,
        run=run,
        original=original,
        detected_us=T0,
        **{"verdict": Verdict.DUPLICATE, "certainty": Certainty.VERIFIED, **facts},
    )


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


@pytest.fixture
def findings(small: SmallLab) -> dict[str, DuplicateFinding]:
    first = _before(small, 0)
    repeat = _before(small, 2)
    other = _before(small, 4, entry=hex64("train_vit.py"), entry_name="train_vit.py")
    decided = _before(small, 6)
    return {
        "repeat": _find(repeat, first),
        "other script": _find(other, first),
        "decided": _find(
            decided, first, state=FindingState.CONFIRMED, decided_us=T0, decided_by=small.owner
        ),
    }


def test_the_command_shows_each_direction_and_changes_nothing(
    findings: dict[str, DuplicateFinding],
) -> None:
    before = list(DuplicateFinding.objects.order_by("pk").values())
    keys = sorted(TierKey.objects.values_list("run", "tier", "key"))
    output = StringIO()
    call_command("recompute_verdicts", stdout=output)
    text = output.getvalue()
    assert "1 verified duplicate → possible duplicate" in text
    assert "1 verified duplicate → no finding" in text
    assert "1 decided" in text
    assert list(DuplicateFinding.objects.order_by("pk").values()) == before
    assert sorted(TierKey.objects.values_list("run", "tier", "key")) == keys


def test_the_preview_is_what_the_recomputation_does(
    small: SmallLab, findings: dict[str, DuplicateFinding]
) -> None:
    changes, decided = preview(lab=small.lab, on_finding=lambda: None)
    assert decided == 1
    request_recompute(lab=small.lab)
    run_until_idle(worker="test")
    after = {row.pk: row for row in DuplicateFinding.objects.all()}
    assert sum(changes.values()) == 2
    assert changes["verified duplicate", "possible duplicate"] == 1
    assert after[findings["repeat"].pk].certainty == Certainty.POSSIBLE
    assert "labels" in after[findings["repeat"].pk].not_compared
    assert changes["verified duplicate", "no finding"] == 1
    assert findings["other script"].pk not in after


def test_a_decided_finding_does_not_change(
    small: SmallLab, findings: dict[str, DuplicateFinding]
) -> None:
    before = DuplicateFinding.objects.filter(pk=findings["decided"].pk).values().get()
    request_recompute(lab=small.lab)
    run_until_idle(worker="test")
    assert DuplicateFinding.objects.filter(pk=findings["decided"].pk).values().get() == before


def test_an_interrupted_recomputation_continues(
    small: SmallLab, findings: dict[str, DuplicateFinding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute, "RUNS_PER_JOB", 1)
    monkeypatch.setattr(recompute, "FINDINGS_PER_JOB", 1)
    last = recompute._recompute_keys(small.lab, 0)
    assert last == Fingerprint.objects.order_by("pk").first().pk  # type: ignore[union-attr]
    recompute.recompute(f"{small.lab.pk} keys {last}")  # as a worker after its restart
    run_until_idle(worker="test")
    assert not TierKey.objects.filter(tier=Tier.F1, key=7).exists()
    with_code = TierKey.objects.filter(tier=Tier.CODE_PARAMS).values_list("run", flat=True)
    assert set(with_code) == set(Fingerprint.objects.values_list("pk", flat=True))


def test_a_stopped_run_is_still_withdrawn_by_the_same_work(small: SmallLab) -> None:
    original = _before(small, 0)
    preflight = Preflight.objects.create(
        lab=small.lab, uuid=uuid4(), at_us=T0, verdict=Verdict.DUPLICATE, level="warn",
        certainty=Certainty.VERIFIED, matches=[str(original.uuid)],
    )  # fmt: skip
    Avoided.objects.create(
        lab=small.lab, preflight=preflight, run=original, f1=7, f1_weak=None, at_us=T0
    )
    request_recompute(lab=small.lab)
    run_until_idle(worker="test")
    avoided = Avoided.objects.get()
    keys = TierKey.objects.filter(run=original, tier=Tier.F1).values_list("key", flat=True)
    assert avoided.f1 in keys
    assert avoided.f1 != 7


def test_a_run_with_lc1_alone_is_never_verified_again(small: SmallLab) -> None:
    _before(small, 0)
    request_recompute(lab=small.lab)
    repeat = stored(small, minutes=2)  # by a new collector
    run_until_idle(worker="test")
    found = DuplicateFinding.objects.get(run=repeat)
    assert (found.verdict, found.certainty) == (Verdict.DUPLICATE, Certainty.POSSIBLE)
    assert {"labels", "environment variables"} <= set(found.not_compared)
