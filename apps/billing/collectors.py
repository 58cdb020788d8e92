"""Instances with a collector: their ids at the provider, and the hours that it measured."""

from django.db.models import Max

from apps.accounts.models import Lab
from apps.core.units import US_PER_HOUR
from apps.energy.models import DeviceHour
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Node

FACT = "cloud_instance_id"  # reported by the collector


def instances_of(lab: Lab) -> dict[str, int]:
    """Return the nodes of a lab by the id of their cloud instance."""
    nodes = Node.objects.filter(lab=lab, facts__has_key=FACT)
    return {
        str(instance): pk for pk, instance in nodes.values_list("pk", f"facts__{FACT}") if instance
    }


def covered_us(node: int, start_us: int, end_us: int) -> int:
    """Return the time in a period that the collector of a node measured: of each hour, that of its
    device with most.
    """
    hours = (
        DeviceHour.objects.filter(
            node_id=node,
            hour__gte=start_us // US_PER_HOUR,
            hour__lt=-(-end_us // US_PER_HOUR),
        )
        .exclude(device__kind=DeviceKind.DECLARED)
        .values("hour")
        .annotate(most=Max("covered_us"))
    )
    return sum(row["most"] for row in hours)
