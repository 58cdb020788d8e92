"""Hours of billed instances that a collector measured: they are counted there, not twice."""

from collections import defaultdict

from apps.billing.choices import Category, Charge
from apps.billing.collectors import covered_us, instances_of
from apps.billing.models import BilledMonth, BillingItem
from apps.core.database.bulk_writes import update_columns
from apps.core.units import US_PER_HOUR


def set_covered_hours(month: BilledMonth) -> bool:
    """Write the covered hours of the items of a month; return whether they changed.

    Several items of an instance and day, as of two prices, share its covered hours in their order.
    """
    nodes = instances_of(month.lab)
    items = BillingItem.objects.filter(
        month=month, charge=Charge.USAGE, category=Category.COMPUTE, gpu=""
    ).exclude(resource="")
    by_use: dict[tuple[str, int, int], list[BillingItem]] = defaultdict(list)
    for item in items.order_by("pk"):
        by_use[item.resource, item.start_us, item.end_us].append(item)
    changed: list[BillingItem] = []
    for (resource, start_us, end_us), same in by_use.items():
        node = nodes.get(resource)
        left = 0
        if node is not None:
            left = covered_us(node, start_us, end_us) * 10**6 // US_PER_HOUR
        for item in same:
            covered = min(left, max(item.amount_millionths, 0))
            left -= covered
            if item.covered_millionths != covered:
                item.covered_millionths = covered
                changed.append(item)
    update_columns(changed, ["covered_millionths"])
    return bool(changed)
