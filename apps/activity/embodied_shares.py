"""Embodied carbon of the GPUs of cloud instances in a period: shares that activities state. They
are in no total, since the provider's hardware is no asset of the lab.
"""

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.activity.models import Activity
from apps.core.units import US_PER_HOUR

_COLUMNS = ("embodied_ug", "embodied_low_ug", "embodied_high_ug")


@dataclass(frozen=True)
class EmbodiedShare:
    """Shares of a period in µg CO2e, with the range. ``unknown``: activities without a figure."""

    value_ug: int
    low_ug: int
    high_ug: int
    activities: int
    unknown: int


def part_of(total: int, span: tuple[int, int], period: tuple[int, int]) -> int:
    """Return the part of an amount, spread evenly over a span, that is in a period.

    The parts of adjacent periods sum to the amount exactly: each is a difference of amounts since
    the begin of the span, half up.
    """
    start, end = span

    def until(time: int) -> int:
        passed = min(max(time, start), end) - start
        return (2 * total * passed + (end - start)) // (2 * (end - start))

    return until(period[1]) - until(period[0])


def embodied_share(lab: Lab, from_hour: int, to_hour: int) -> EmbodiedShare:
    """Return the shares of a period. Three queries."""
    period = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    rows = Activity.objects.filter(
        lab=lab, withdrawn_us=None, start_us__lt=period[1], end_us__gt=period[0]
    )
    known = rows.exclude(embodied_ug=None)
    inside = known.filter(start_us__gte=period[0], end_us__lte=period[1])
    whole = inside.aggregate(number=Count("pk"), **{name: Sum(name) for name in _COLUMNS})
    sums = [whole[name] or 0 for name in _COLUMNS]
    number = whole["number"]
    partly: QuerySet[Activity] = known.filter(Q(start_us__lt=period[0]) | Q(end_us__gt=period[1]))
    for start_us, end_us, *amounts in partly.values_list("start_us", "end_us", *_COLUMNS):
        number += 1
        for i, amount in enumerate(amounts):
            sums[i] += part_of(amount or 0, (start_us, end_us), period)
    unknown = rows.filter(embodied_ug=None, inputs__has_key="gpus").count()
    value_ug, low_ug, high_ug = sums
    return EmbodiedShare(value_ug, low_ug, high_ug, number, unknown)
