"""Reads of the metric curves of finished runs: when each was as good as at its best."""

from collections.abc import Collection
from math import isfinite

from django.db.models import Min, Q

from apps.core.units import PPM
from apps.planner.formulas.what_ifs import LEAST_EVALUATIONS, TOLERANCE_PPM, PastCurve
from apps.runs.metric_summary import is_lower_better, select_headline_metric
from apps.runs.models import Metric, MetricPoint


def read_past_curves(run_ids: Collection[int]) -> list[PastCurve]:
    """Return the curve of the headline metric of each run that has one. Two queries, whatever the
    length of the curves.
    """
    if not run_ids:
        return []
    by_run: dict[int, dict[str, Metric]] = {}
    rows = Metric.objects.filter(
        run__in=list(run_ids), count__gte=LEAST_EVALUATIONS, last_step__gt=0
    )
    for metric in rows.order_by("run_id", "name"):
        by_run.setdefault(metric.run_id, {})[metric.name] = metric
    headlines = {
        metric.pk: metric
        for metrics in by_run.values()
        if (name := select_headline_metric(metrics)) is not None
        for metric in (metrics[name],)
    }
    condition = Q()
    for metric in headlines.values():
        condition |= _as_good_as_best(metric)
    if not condition:
        return []
    first = (
        MetricPoint.objects.filter(condition)
        .values("metric")
        .annotate(best_step=Min("step"))
        .values_list("metric", "best_step")
    )
    return [
        PastCurve(metric.count, best_step, metric.last_step or 0)
        for pk, best_step in first.order_by("metric")
        for metric in (headlines[pk],)
    ]


def _as_good_as_best(metric: Metric) -> Q:
    is_lower = is_lower_better(metric.name)
    best = metric.min_value if is_lower else metric.max_value
    if best is None or not isfinite(best):
        return Q()
    distance = abs(best) * TOLERANCE_PPM / PPM
    if is_lower:
        return Q(metric=metric.pk, value__lte=best + distance)
    return Q(metric=metric.pk, value__gte=best - distance)
