"""Serving a model: energy, emissions and cost of a month by the lab's own service runs, else by
MLPerf Inference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

from apps.accounts.models import Lab
from apps.carbon.figures.energy import figures_of_runs
from apps.catalog.data_files import rows_of
from apps.catalog.packs import DATA
from apps.planner.choices import ServingBasis
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.service_energy import MLPERF, OWN_SERVICE, monthly_energy
from apps.planner.site_conditions import SiteConditions
from apps.runs.models import Metric, Run
from apps.runs.selectors import fallen_metrics
from apps.runs.service_counts import REQUESTS, CountState, served

MLPERF_POWER = DATA / "mlperf_power.csv"
SCENARIO = "Server"  # requests at random moments, with a limit of their latency


@dataclass(frozen=True)
class ServingInput:
    """A planned service. ``service``: a past service run that counted its requests. ``benchmark``:
    of MLPerf Inference.
    """

    requests_per_day: int
    service: Run | None = None
    benchmark: str = ""


@dataclass(frozen=True)
class ServingEstimate:
    """A month of serving. ``energy_mj`` None: no basis, see ``missing``."""

    basis: ServingBasis
    energy_mj: Range | None = None
    emission_ug: Range | None = None
    cost_ucurrency: Range | None = None
    source: str = ""
    missing: str = ""


@cache
def benchmarks() -> dict[str, tuple[tuple[str, Fraction], ...]]:
    """Return the measured (accelerator, µJ per request) of each benchmark of MLPerf Inference."""
    result: dict[str, tuple[tuple[str, Fraction], ...]] = {}
    for row in rows_of(MLPERF_POWER):
        is_usable = row["joules_per_unit"] and row["throughput_unit"] == "samples/s"
        if is_usable and row["scenario"].lower() == SCENARIO.lower():
            energy_uj = Fraction(Decimal(row["joules_per_unit"]) * 1_000_000)
            name = row["benchmark"]
            result[name] = (*result.get(name, ()), (row["accelerator"], energy_uj))
    return result


def estimate_serving(
    *, lab: Lab, serving: ServingInput, conditions: SiteConditions
) -> ServingEstimate:
    """Return the estimate of a month of serving. At most five queries."""
    if serving.service is not None:
        per_request = _of_service(lab, serving.service)
        if isinstance(per_request, str):
            return ServingEstimate(ServingBasis.NONE, missing=per_request)
        spread, basis, source = OWN_SERVICE, ServingBasis.OWN_SERVICE, serving.service.name
        values: Sequence[Fraction] = [per_request]
    elif serving.benchmark:
        rows = benchmarks()[serving.benchmark]
        values = [energy_uj for _, energy_uj in rows]
        accelerators = ", ".join(sorted({name for name, _ in rows}))
        spread, basis = MLPERF, ServingBasis.MLPERF
        source = f"MLPerf Inference v4.1, {serving.benchmark}, {SCENARIO}: {accelerators}"
    else:
        return ServingEstimate(
            ServingBasis.NONE, missing="Neither a service run nor a benchmark was given."
        )
    energy_mj = monthly_energy(serving.requests_per_day, values, spread)
    return ServingEstimate(
        basis, energy_mj, conditions.emission(energy_mj), conditions.cost(energy_mj), source
    )


def _of_service(lab: Lab, run: Run) -> Fraction | str:
    """Return µJ per request of a service run, or why it is unknown."""
    metric = Metric.objects.filter(run=run, name=REQUESTS).first()
    if metric is None:
        return "The service run has no metric 'requests'."
    count = served(
        metric.last_value,
        metric.min_value,
        metric.max_value,
        has_fallen=bool(fallen_metrics([metric])),
    )
    if count.state != CountState.COUNTED:
        return "The requests of the service run are not a running total above 0."
    figure = figures_of_runs(lab, [run.uuid]).get(run.uuid)
    if figure is None or figure.energy_mj <= 0:
        return "The energy of the service run was not measured."
    return Fraction(figure.energy_mj * 1000, count.number)
