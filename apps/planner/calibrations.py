"""Reads of scored estimates, and ranges that are widened by them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.accounts.models import Lab
from apps.core.units import PPM
from apps.planner.formulas.calibration import Calibration, Outcome, calibrate, widen
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures
from apps.planner.models import Estimate

MAX_OUTCOMES = 200  # of each basis, the newest
_MAX_ROWS = 4 * MAX_OUTCOMES
# Figures of an estimate: name, unit of its columns.
QUANTITIES = {"time": "us", "gpu_energy": "mj", "node_energy": "mj"}
Calibrations = Mapping[str, Mapping[str, Calibration]]  # by basis, then by quantity


@dataclass(frozen=True)
class ScoredEstimate:
    """A scored estimate with its outcomes by quantity. Unmeasured quantities are left out."""

    estimate: Estimate
    outcomes: Mapping[str, Outcome]


def scored_estimates(lab: Lab) -> list[ScoredEstimate]:
    """Return the newest scored estimates of a lab. Of equal work with the same basis only the
    newest counts: its repetitions say the same again. One query.
    """
    rows = (
        Estimate.objects.filter(lab=lab, scored_us__isnull=False)
        .select_related("run")
        .order_by("-created_us", "-pk")[:_MAX_ROWS]
    )
    seen: set[tuple[str, int]] = set()
    numbers: dict[str, int] = defaultdict(int)
    found = []
    for row in rows:
        work = (row.basis, row.f2 if row.f2 is not None else row.f2_weak or 0)
        if (work[1] and work in seen) or numbers[row.basis] >= MAX_OUTCOMES:
            continue
        seen.add(work)
        numbers[row.basis] += 1
        outcomes = {
            name: outcome for name in QUANTITIES if (outcome := outcome_in(row, name)) is not None
        }
        found.append(ScoredEstimate(row, outcomes))
    return found


def outcome_in(estimate: Estimate, name: str) -> Outcome | None:
    """Return the range of a quantity before its widening, and the actual value. None: unknown."""
    unit = QUANTITIES[name]
    actual = getattr(estimate, f"actual_{name}_{unit}")
    likely = getattr(estimate, f"{name}_likely_{unit}")
    if actual is None or likely is None:
        return None
    low, high = (
        estimate.facts.get(
            f"unwidened_{name}_{end}_{unit}", getattr(estimate, f"{name}_{end}_{unit}")
        )
        for end in ("low", "high")
    )
    return Outcome(Range(low, likely, high), actual)


def calibrations_from(scored: list[ScoredEstimate]) -> Calibrations:
    """Return the calibration of each basis and quantity."""
    outcomes: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for each in scored:
        for name, outcome in each.outcomes.items():
            outcomes[each.estimate.basis][name].append(outcome)
    return {
        basis: {name: calibrate(listed) for name, listed in quantities.items()}
        for basis, quantities in outcomes.items()
    }


def calibrations_of(lab: Lab) -> Calibrations:
    """Return the calibration of a lab. One query."""
    return calibrations_from(scored_estimates(lab))


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
