"""Energy and emissions of a service by served requests and tokens."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.carbon.figures.energy import Figure
from apps.dashboard.figures import EnergyAndEmissions, Projected, estimated
from apps.dashboard.formatting import grouped
from apps.runs.choices import Intent
from apps.runs.models import Metric, Run
from apps.runs.selectors import fallen_metrics
from apps.runs.service_counts import PER, REQUESTS, TOKENS, CountState, amount_per, served

_PROBLEMS = {
    CountState.NONE_YET: "none yet",
    CountState.FELL: "unknown: the count fell, so it does not contain everything since the start",
    CountState.NOT_A_COUNT: "unknown: the metric is not a running total of whole numbers",
}


@dataclass(frozen=True)
class ServedRow:
    """Requests or tokens. ``number`` '': ``problem`` gives the reason. ``energy`` None: the energy
    of the run is unknown. ``emission_missing``: why the emissions are unknown.
    """

    metric: str
    per: str
    number: str
    problem: str
    energy: Projected | None
    emission: Projected | None
    emission_missing: str


def serving_rows(
    run: Run, metrics: Iterable[Metric], figure: Figure, figures: EnergyAndEmissions
) -> list[ServedRow] | None:
    """Return what a service has served, with energy and emissions per 1 000 requests and per
    million tokens. None for other runs. ``figure``: the sums of the run, shown as ``figures``.
    """
    if run.intent != Intent.SERVICE:
        return None
    by_name = {metric.name: metric for metric in metrics}
    counted = [by_name[name] for name in (REQUESTS, TOKENS) if name in by_name]
    fallen = fallen_metrics(counted) if counted else set()
    return [_row(metric, metric.pk in fallen, figure, figures) for metric in counted]


def _row(
    metric: Metric, has_fallen: bool, figure: Figure, figures: EnergyAndEmissions
) -> ServedRow:
    found = served(metric.last_value, metric.min_value, metric.max_value, has_fallen=has_fallen)
    per = PER[metric.name]
    is_known = found.state == CountState.COUNTED and bool(figure.entries)
    missing = figures.emission.missing

    def amount(value: int, of: str, *, at_least: bool = False) -> Projected | None:
        if not is_known:
            return None
        return estimated(amount_per(value, found.number, per), of, at_least=at_least)

    return ServedRow(
        metric=metric.name,
        per=f"per {grouped(per)} {metric.name}",
        number=grouped(found.number) if found.state == CountState.COUNTED else "",
        problem=_PROBLEMS.get(found.state, ""),
        energy=amount(figure.energy_mj, "energy_mj"),
        emission=None
        if missing
        else amount(figure.emission_ug, "emission_ug", at_least=figures.emission.at_least),
        emission_missing=missing,
    )
