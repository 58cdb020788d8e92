"""Instances with a collector: their ids at the provider, and the hours that it measured."""

from collections.abc import Sequence

from django.db.models import Max

from apps.accounts.models import Lab
from apps.billing.models import BillingItem
from apps.core.units import US_PER_HOUR
from apps.energy.models import DeviceHour
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Node

FACT = "cloud_instance_id"  # reported by the collector


def instances_of(lab: Lab) -> dict[str, list[int]]:
    """Return the nodes of a lab by the id of their instance: several if it was installed anew."""
    found: dict[str, list[int]] = {}
    nodes = Node.objects.filter(lab=lab, facts__has_key=FACT).order_by("pk")
    for pk, instance in nodes.values_list("pk", f"facts__{FACT}"):
        if instance:
            found.setdefault(str(instance), []).append(pk)
    return found


def known_instances(lab: Lab) -> frozenset[str]:
    """Return the ids of instances with a collector, those of recorded bills too: a node that is
    enrolled anew may not report its id any more.
    """
    recorded = BillingItem.objects.filter(month__lab=lab, month__is_current=True)
    stored = recorded.exclude(resource="").values_list("resource", flat=True).distinct()
    return frozenset((*instances_of(lab), *stored))


def covered_us(nodes: Sequence[int], start_us: int, end_us: int) -> int:
    """Return the time in a period that the collectors of an instance measured: of each hour, that
    of the device with most.
    """
    hours = (
        DeviceHour.objects.filter(
            node_id__in=nodes,
            hour__gte=start_us // US_PER_HOUR,
            hour__lt=-(-end_us // US_PER_HOUR),
        )
        .exclude(device__kind=DeviceKind.DECLARED)
        .values("hour")
        .annotate(most=Max("covered_us"))
    )
    return sum(row["most"] for row in hours)
