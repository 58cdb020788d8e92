"""Whether the energy of a run is counted, can still arrive, or was not measured."""

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.carbon.figures.energy import figures_of_runs
from apps.fleet.models import Node
from apps.ingest.models import DirtyHour
from apps.runs.choices import EnergyState, RunState
from apps.runs.models import Run
from apps.runs.selectors import energy_states
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.runs.fingerprints import a_run

COUNTED, NOT_YET, NOT_MEASURED = (
    EnergyState.COUNTED,
    EnergyState.NOT_COUNTED_YET,
    EnergyState.NOT_MEASURED,
)


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def ended(lab: SmallLab) -> Run:
    return a_run(lab.lab, node=lab.node, state=RunState.FINISHED, ended_us=T0 + MINUTE)


def uploaded(lab: SmallLab, at_us: int | None) -> None:
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=at_us)


def state(lab: SmallLab, run: Run) -> EnergyState:
    counted = figures_of_runs(lab.lab, [run.uuid])
    return energy_states(lab.lab, [run.uuid], counted)[run.uuid]


def window(lab: SmallLab, run: Run, device: str, *, settle: bool) -> None:
    shares = ((f"run:{run.uuid}", 5_000),)
    push(lab.node, [W(device, 5_000, shares=shares)], sent_at=T0 + 9 * MINUTE, settle=settle)


def test_a_running_run_can_still_get_energy(lab: SmallLab) -> None:
    assert state(lab, a_run(lab.lab)) == NOT_YET
    assert state(lab, a_run(lab.lab, state=RunState.LOST)) == NOT_MEASURED


def test_the_node_uploads_after_the_end_of_the_run(lab: SmallLab) -> None:
    run = ended(lab)
    for at_us, expected in (
        (None, NOT_MEASURED),
        (T0, NOT_YET),
        (T0 + MINUTE, NOT_YET),
        (T0 + MINUTE + 1, NOT_MEASURED),
    ):
        uploaded(lab, at_us)
        assert state(lab, run) == expected, at_us


def test_windows_wait_for_the_ledger(lab: SmallLab) -> None:
    run = ended(lab)
    window(lab, run, "gpu:GPU-0000-0001", settle=False)
    assert state(lab, run) == NOT_YET
    window(lab, run, "gpu:GPU-0000-0001", settle=True)
    assert state(lab, run) == COUNTED


def test_windows_that_are_never_counted_do_not_wait(lab: SmallLab) -> None:
    run = ended(lab)
    window(lab, run, f"meter:{lab.node.uuid}/bmc", settle=True)
    assert not DirtyHour.objects.exists()
    assert figures_of_runs(lab.lab, [run.uuid]) == {}
    assert state(lab, run) == NOT_MEASURED


def test_windows_of_another_lab_do_not_count(lab: SmallLab) -> None:
    run, other = ended(lab), small_lab(name="Other")
    window(other, run, "gpu:GPU-0000-0001", settle=False)
    assert state(lab, run) == NOT_MEASURED


def test_any_number_of_runs_needs_one_query(lab: SmallLab) -> None:
    runs = [ended(lab) for _ in range(20)]
    window(lab, runs[0], "gpu:GPU-0000-0001", settle=False)
    uuids = [run.uuid for run in runs]
    with CaptureQueriesContext(connection) as captured:
        states = energy_states(lab.lab, uuids, {uuids[1]})
    assert len(captured) == 1
    assert [states[uuid] for uuid in uuids[:3]] == [NOT_YET, COUNTED, NOT_MEASURED]
    with CaptureQueriesContext(connection) as captured:
        assert energy_states(lab.lab, uuids, uuids) == dict.fromkeys(uuids, COUNTED)
        nothing: list[UUID] = []
        assert energy_states(lab.lab, nothing, ()) == {}
    assert len(captured) == 0
