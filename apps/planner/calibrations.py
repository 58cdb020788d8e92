"""Outcomes of scored estimates, and ranges that are widened by them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from django.db.models import F, QuerySet, Window
from django.db.models.functions import Coalesce, RowNumber

from apps.accounts.models import Lab
from apps.core.units import PPM
from apps.planner.formulas.calibration import Calibration, Outcome, calibrate, widen
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures
from apps.planner.models import Estimate

MAX_OUTCOMES = 200  # of each basis, the newest
# Figures of an estimate: name, unit of its columns.
QUANTITIES = {"time": "us", "gpu_energy": "mj", "node_energy": "mj"}
Calibrations = Mapping[str, Mapping[str, Calibration]]  # by basis, then by quantity


def calibrations_of(lab: Lab) -> Calibrations:
    """Return the calibration of each basis and quantity of a lab. One query."""
    outcomes: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for estimate in _newest_scored(lab):
        for name in QUANTITIES:
            if (outcome := _outcome(estimate, name)) is not None:
                outcomes[estimate.basis][name].append(outcome)
    return {
        basis: {name: calibrate(listed) for name, listed in quantities.items()}
        for basis, quantities in outcomes.items()
    }


def _newest_scored(lab: Lab) -> QuerySet[Estimate]:
    """Return the newest scored estimates of each basis. Of equal work only the newest counts, since
    its repetitions say the same again.
    """
    newest_first = [F("created_us").desc(), F("pk").desc()]
    work = Coalesce("f2", "f2_weak", -F("pk"))  # keys of work are not negative
    works = (
        Estimate.objects.filter(lab=lab, scored_us__isnull=False)
        .annotate(
            repetition=Window(RowNumber(), partition_by=["basis", work], order_by=newest_first)
        )
        .filter(repetition=1)
    )
    return (
        Estimate.objects.filter(pk__in=works.values("pk"))
        .annotate(place=Window(RowNumber(), partition_by="basis", order_by=newest_first))
        .filter(place__lte=MAX_OUTCOMES)
    )


def _outcome(estimate: Estimate, name: str) -> Outcome | None:
    """Return the range of a quantity before its widening, and the actual value. None: unknown."""
    unit = QUANTITIES[name]
    actual = getattr(estimate, f"actual_{name}_{unit}")
    likely = getattr(estimate, f"{name}_likely_{unit}")
    if actual is None or likely is None:
        return None
    low, high = (
        estimate.facts.get(f"unwidened_{column}", getattr(estimate, column))
        for column in (f"{name}_low_{unit}", f"{name}_high_{unit}")
    )
    return Outcome(Range(low, likely, high), actual)


def with_calibration(figures: Figures, calibrations: Calibrations) -> Figures:
    """Return the figures with ranges that are as wide as the outcomes of this basis need. The facts
    keep the factors in ppm, and the ends without them, by which later outcomes are judged.
    """
    of_basis = calibrations.get(figures.basis, {})
    time_us, facts = _widened(figures.time_us, "time", of_basis)
    gpu_mj, gpu_facts = _widened(figures.gpu_energy_mj, "gpu_energy", of_basis)
    node_mj, node_facts = _widened(figures.node_energy_mj, "node_energy", of_basis)
    assert time_us is not None
    return replace(
        figures,
        time_us=time_us,
        gpu_energy_mj=gpu_mj,
        node_energy_mj=node_mj,
        facts={**figures.facts, **facts, **gpu_facts, **node_facts},
    )


def _widened(
    figure: Range | None, name: str, of_basis: Mapping[str, Calibration]
) -> tuple[Range | None, dict[str, int]]:
    calibration = of_basis.get(name)
    if figure is None or calibration is None or calibration.widening_ppm == PPM:
        return figure, {}
    wide = widen(figure, calibration.widening_ppm)
    if wide == figure:  # without width, or from 0 on: a factor changes nothing
        return figure, {}
    unit = QUANTITIES[name]
    return wide, {
        f"widening_{name}_ppm": calibration.widening_ppm,
        f"unwidened_{name}_low_{unit}": figure.low,
        f"unwidened_{name}_high_{unit}": figure.high,
    }
