"""Places of a planned training: the row of the chosen node has the figures of its estimate, and the
others rest on the lab's own runs.
"""

from typing import Any

import pytest

from apps.planner.choices import Basis
from apps.planner.evidence import read_evidence
from apps.planner.formulas.time_and_energy import Probe
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place
from apps.planner.models import Estimate
from apps.planner.places.needs import job_needs
from apps.planner.places.place import CloudChoice
from apps.planner.places.place import Place as RunPlace
from apps.planner.places.selectors import places_for
from apps.planner.presets import presets
from apps.planner.services import ComputedEstimate, create_estimate, estimate_from
from tests.builders import T0, SmallLab, small_lab
from tests.planner.places.support import T4, add_node, report_gpus
from tests.planner.support import A100, finished
from tests.runs.fingerprints import parsed

NOW = T0 + 3_600_000_000
NOWHERE = CloudChoice(regions=("none",))
pytestmark = pytest.mark.django_db


def job(small: SmallLab, **more: Any) -> JobInput:
    return JobInput(
        model=presets()["resnet50"],
        training=Training(gpus=1),
        work=Work(samples=1000, epochs=30, batch=10),
        place=Place(node=small.node, card=A100),
        **more,
    )


def compare(small: SmallLab, planned: JobInput) -> tuple[ComputedEstimate, dict[str, RunPlace]]:
    """Return the figures of the estimate and those of the places by card."""
    evidence = read_evidence(small.lab, planned, NOW)
    computed = estimate_from(evidence, planned)
    places = places_for(small.lab, job_needs(evidence, computed, None), NOW, NOWHERE)
    return computed, {place.card.name: place for place in places.places}


@pytest.mark.parametrize("basis", [Basis.OWN_RUNS, Basis.PROBE, Basis.OPERATIONS, Basis.CATALOGUE])
def test_the_chosen_node_has_the_figures_of_the_estimate(basis: Basis) -> None:
    small = small_lab()
    more: dict[str, Any] = {}
    if basis == Basis.CATALOGUE:
        report_gpus(small.node, [A100])
    else:
        run = finished(
            small, minute=0, minutes=5, gpu_mj=60_000_000, cpu_mj=6_000_000,
            params={"epochs": 10},
        )  # fmt: skip
        if basis == Basis.OWN_RUNS:
            more["fingerprint"] = parsed()
        elif basis == Basis.PROBE:
            more["probe"] = Probe(90_000_000, 100, 500_000, gpu_mw=200_000)
        else:
            estimate, _ = create_estimate(lab=small.lab, job=job(small), person=None, now=T0)
            Estimate.objects.filter(pk=estimate.pk).update(run=run)
    report_gpus(add_node(small, "gpu-2"), [T4])
    computed, places = compare(small, job(small, **more))
    assert computed.figures is not None
    assert computed.basis == basis
    chosen = places[A100]
    for name in ("basis", "time_us", "gpu_energy_mj", "node_energy_mj"):
        assert getattr(chosen, name) == getattr(computed.figures, name), name
    assert chosen.node_energy_mj is not None
    other = places[T4]
    assert other.basis == Basis.CATALOGUE
    scaled_from = A100 if basis in (Basis.OWN_RUNS, Basis.PROBE) else ""
    assert other.reference_card == scaled_from
