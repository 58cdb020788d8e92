"""What CodeCarbon told of a run, beside what counts."""

from dataclasses import dataclass

from apps.dashboard.figures import WouldBe
from apps.dashboard.formatting import exact, shown, unit_for
from apps.runs.models import Run
from apps.trackers.codecarbon.selectors import same_machine_of, told_of_run


@dataclass(frozen=True)
class Twice:
    """Another run that most likely measured the same machine at the same time."""

    run: Run
    energy: WouldBe


@dataclass(frozen=True)
class CodeCarbonTold:
    """As it was told, PUE divided out: not the ledger's figures, so without explanation. ``superseded`` None: nothing gave
    way to a collector; ``carbon`` None: it told none. ``bound``: its token names the machine."""

    energy: WouldBe
    carbon: WouldBe | None
    superseded: WouldBe | None
    not_counted: int
    waiting: int
    bound: bool
    twice: list[Twice]


def codecarbon_told(run: Run) -> CodeCarbonTold | None:
    """Return what CodeCarbon told of a run, or None. A fixed number of queries."""
    told = told_of_run(run)
    if told is None:
        return None
    return CodeCarbonTold(
        energy=_told("energy_mj", told.energy_mj),
        carbon=None if told.client_ug is None else _told("emission_ug", told.client_ug),
        superseded=_told("energy_mj", told.superseded_mj) if told.superseded_mj else None,
        not_counted=told.not_counted,
        waiting=told.waiting,
        bound=told.bound,
        twice=[
            Twice(other, _told("energy_mj", pair.energy_mj))
            for pair in same_machine_of(run)
            if (other := pair.again.run if pair.first.run_id == run.pk else pair.first.run) is not None
        ],
    )


def _told(metric: str, value: int) -> WouldBe:
    unit = unit_for(metric, [value])
    return WouldBe(shown(value, unit), unit.name, exact(value, metric), "", False)
