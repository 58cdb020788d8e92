"""Hours of billed instances that a collector measured: they are counted there, not twice."""

from collections import defaultdict

from django.db.models import Sum

from apps.billing.choices import Category, Charge
from apps.billing.collectors import covered_us, instances_of
from apps.billing.models import BilledMonth, BillingItem
from apps.core.database.bulk_writes import update_columns
from apps.core.units import US_PER_HOUR


def set_covered_hours(month: BilledMonth) -> None:
    """Write the covered hours of the items of a month.

    Items of an instance and day, as of two prices, share its covered hours in their order, after
    those of earlier billing months: a day can be on two bills. GPUs that are billed by themselves
    are covered in the same proportion as their instance. Hours of an instance whose node does not
    report its id any more stay as they are.
    """
    nodes = instances_of(month.lab)
    items = BillingItem.objects.filter(
        month=month, charge=Charge.USAGE, category=Category.COMPUTE
    ).exclude(resource="")
    by_use: dict[tuple[str, int, int], list[BillingItem]] = defaultdict(list)
    for item in items.order_by("pk"):
        by_use[item.resource, item.start_us, item.end_us].append(item)
    changed: list[BillingItem] = []
    for (resource, start_us, end_us), same in by_use.items():
        if resource not in nodes:
            changed += _from_replaced_version(month, same)
            continue
        measured = covered_us(nodes[resource], start_us, end_us) * 10**6 // US_PER_HOUR
        changed += _set(same, max(0, measured - _on_earlier_bills(month, same[0])))
    update_columns(changed, ["covered_millionths"])


def _set(items: list[BillingItem], measured: int) -> list[BillingItem]:
    """Distribute measured hours over items; return those that changed."""
    left = measured
    new: list[int] = []
    instances = [item for item in items if not item.gpu]
    for item in instances:
        covered = min(left, max(item.amount_millionths, 0))
        left -= covered
        new.append(covered)
    hours = sum(max(item.amount_millionths, 0) for item in instances)
    gpus = [item for item in items if item.gpu]
    for item in gpus:
        amount = max(item.amount_millionths, 0)
        new.append(amount * sum(new[: len(instances)]) // hours if hours else min(amount, measured))
    changed = []
    for item, covered in zip([*instances, *gpus], new, strict=True):
        if item.covered_millionths != covered:
            item.covered_millionths = covered
            changed.append(item)
    return changed


def _on_earlier_bills(month: BilledMonth, item: BillingItem) -> int:
    """Return the hours of the same instance and day on the bills of earlier months."""
    rows = BillingItem.objects.filter(
        month__lab=month.lab,
        month__provider=month.provider,
        month__is_current=True,
        month__month__lt=month.month,
        resource=item.resource,
        start_us=item.start_us,
        end_us=item.end_us,
        charge=Charge.USAGE,
        gpu="",
    )
    return rows.aggregate(sum=Sum("amount_millionths"))["sum"] or 0


def _from_replaced_version(month: BilledMonth, items: list[BillingItem]) -> list[BillingItem]:
    """Take over the covered hours of the version that a month replaces, for an instance that no
    node reports.
    """
    if month.is_current:
        return []
    first = items[0]
    rows = BillingItem.objects.filter(
        month__lab=month.lab,
        month__provider=month.provider,
        month__account=month.account,
        month__month=month.month,
        month__is_current=True,
        resource=first.resource,
        start_us=first.start_us,
        end_us=first.end_us,
        gpu="",
    )
    return _set(items, rows.aggregate(sum=Sum("covered_millionths"))["sum"] or 0)
