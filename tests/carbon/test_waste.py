"""Energy that could have been saved: its kinds are disjoint, follow the decisions about findings,
and are the same from the ledger and from rolled days.
"""

from uuid import UUID

import pytest

from apps.carbon.figures.energy import figure, figures_by
from apps.carbon.figures.figure_query import ANY_WASTE, WASTES, FigureQuery
from apps.carbon.models import UseDay
from apps.carbon.rollups.writer import roll_up
from apps.core.units import US_PER_HOUR, hour_of
from apps.preflight.choices import Certainty, FindingState, Verdict
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import use

pytestmark = pytest.mark.django_db
MIDNIGHT = hour_of(T0) - 9  # of the lab's zone
QUERY = FigureQuery("energy_mj", MIDNIGHT, MIDNIGHT + 24)
RUN_MJ = 6_000_001


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def find(lab: SmallLab, uuid: UUID, original: UUID, **facts: str) -> DuplicateFinding:
    """Store a finding: open, verified and a duplicate unless stated otherwise."""
    found = {
        "verdict": Verdict.DUPLICATE,
        "certainty": Certainty.VERIFIED,
        "state": FindingState.OPEN,
        **facts,
    }
    decided = None if found["state"] == FindingState.OPEN else T0
    return DuplicateFinding.objects.create(
        lab=lab.lab,
        run=Run.objects.get(uuid=uuid),
        original=Run.objects.get(uuid=original),
        detected_us=T0,
        decided_us=decided,
        **found,
    )


def wasted_mj(lab: SmallLab) -> dict[str, int]:
    """Return the energy by kind of waste, after comparing each with its filter."""
    parts = figures_by(lab.lab, QUERY, ["waste"])
    assert sum(part.energy_mj for part in parts.values()) == figure(lab.lab, QUERY).energy_mj
    everything = sum(part.energy_mj for (waste,), part in parts.items() if waste)
    assert figure(lab.lab, QUERY.replace(waste=ANY_WASTE)).energy_mj == everything
    for waste in set(WASTES) - {ANY_WASTE}:
        alone = figure(lab.lab, QUERY.replace(waste=waste)).energy_mj
        assert alone == (parts[waste,].energy_mj if (waste,) in parts else 0)
    return {waste: part.energy_mj for (waste,), part in parts.items() if waste}


def test_findings_decide_what_is_a_duplicate(lab: SmallLab) -> None:
    original, *repeats = use(lab, runs=8)
    idle_mj = figure(lab.lab, QUERY.replace(consumer="idle")).energy_mj
    assert wasted_mj(lab) == {"idle": idle_mj}
    find(lab, repeats[0], original)
    find(lab, repeats[1], original, verdict=Verdict.CONCURRENT)
    find(lab, repeats[2], original, verdict=Verdict.NEAR)
    find(lab, repeats[3], original, certainty=Certainty.POSSIBLE)
    find(lab, repeats[4], original, state=FindingState.INTENTIONAL)
    find(lab, repeats[5], original, state=FindingState.DISMISSED)
    find(
        lab,
        repeats[6],
        original,
        certainty=Certainty.POSSIBLE,
        state=FindingState.CONFIRMED,
    )
    assert wasted_mj(lab) == {"idle": idle_mj, "duplicate": 3 * RUN_MJ}


def test_a_failed_duplicate_counts_once(lab: SmallLab) -> None:
    original, repeat, failed, killed = use(lab, runs=4)
    Run.objects.filter(uuid__in=[repeat, failed]).update(state=RunState.FAILED)
    Run.objects.filter(uuid=killed).update(state=RunState.KILLED)
    find(lab, repeat, original)
    wasted = wasted_mj(lab)
    assert wasted["duplicate"] == wasted["failed"] == RUN_MJ


def test_the_energy_of_a_failed_probe_counts_and_is_no_waste(lab: SmallLab) -> None:
    _, probe = use(lab, runs=2)
    before = figure(lab.lab, QUERY).energy_mj
    Run.objects.filter(uuid=probe).update(state=RunState.FAILED, intent=Intent.PROBE)
    assert figure(lab.lab, QUERY).energy_mj == before
    assert "failed" not in wasted_mj(lab)


def test_a_decision_shows_in_days_that_are_rolled_up_already(lab: SmallLab) -> None:
    original, repeat = use(lab, runs=2)
    found = find(lab, repeat, original)
    before = wasted_mj(lab)
    assert roll_up(lab=lab.lab, now=(MIDNIGHT + 100) * US_PER_HOUR)
    assert UseDay.objects.exists()
    assert wasted_mj(lab) == before
    DuplicateFinding.objects.filter(pk=found.pk).update(
        state=FindingState.INTENTIONAL, decided_us=T0
    )
    assert "duplicate" not in wasted_mj(lab)
