"""What MLflow told of a run, beside what counts."""

from dataclasses import dataclass

from apps.dashboard.figures import WouldBe
from apps.dashboard.formatting import exact, shown, unit_for
from apps.runs.models import Run
from apps.trackers.mlflow.selectors import told_by_mlflow
from apps.trackers.models import MlflowRun


@dataclass(frozen=True)
class MlflowTold:
    """``energy`` as MLflow's watts make it, None where it told none; ``superseded`` None: nothing gave way to a collector.
    ``bound``: the machine is known."""

    told: MlflowRun
    energy: WouldBe | None
    superseded: WouldBe | None
    cards: int
    bound: bool


def mlflow_told(run: Run) -> MlflowTold | None:
    """Return what MLflow told of a run, or None. A fixed number of queries."""
    found = told_by_mlflow(run)
    if found is None:
        return None
    return MlflowTold(
        told=found.told,
        energy=_told(found.energy_mj) if found.cards else None,
        superseded=_told(found.superseded_mj) if found.superseded_mj else None,
        cards=found.cards,
        bound=found.told.source.bound or found.told.node_uuid is not None or found.told.joined,
    )


def _told(energy_mj: int) -> WouldBe:
    unit = unit_for("energy_mj", [energy_mj])
    return WouldBe(shown(energy_mj, unit), unit.name, exact(energy_mj, "energy_mj"), "", False)
