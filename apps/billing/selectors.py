"""Reads of billed months."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.activity.models import Activity
from apps.billing.choices import Category, Charge
from apps.billing.models import BilledMonth, BillingAccount, BillingFile, BillingItem, BillingTag
from apps.core.errors import NotFound

_CURRENT = Q(is_current=True)


@dataclass
class MonthSums:
    """Sums of the items of a month. Hours are those of instances and GPUs, in millionths.

    ``costs_ucurrency``: by charge. ``problem_lines``: lines of items without energy.
    """

    hours_millionths: int = 0
    covered_millionths: int = 0
    costs_ucurrency: dict[str, int] = field(default_factory=dict)
    problem_lines: int = 0

    @property
    def cost_ucurrency(self) -> int:
        return sum(self.costs_ucurrency.values())


@dataclass(frozen=True)
class UseRow:
    """Use of a month by type, region and project. Amounts: millionths of h, GB-months or GB."""

    category: str
    instance_type: str
    gpu: str
    medium: str
    region: str
    project: str
    amount_millionths: int
    covered_millionths: int
    cost_ucurrency: int
    problem: str


def months_of(lab: Lab) -> QuerySet[BilledMonth]:
    """Return the current months of a lab, the latest first."""
    months = BilledMonth.objects.filter(_CURRENT, lab=lab)
    return months.select_related("file").order_by("-month", "provider", "account")


def month_of_lab(lab: Lab, pk: int) -> BilledMonth:
    """Return a current month of the lab. Raises NotFound."""
    month = months_of(lab).select_related("file", "lab").filter(pk=pk).first()
    if month is None:
        raise NotFound("There is no such billed month.", hint="Open the list of billed months.")
    return month


def previous_of(months: Iterable[BilledMonth]) -> dict[tuple[str, str], BilledMonth]:
    """Return the current versions of months, other than themselves, by account and month."""
    listed = list(months)
    if not listed:
        return {}
    first = listed[0]
    rows = BilledMonth.objects.filter(
        _CURRENT,
        lab_id=first.lab_id,
        provider=first.provider,
        month__in={each.month for each in listed},
    ).exclude(pk__in=[each.pk for each in listed])
    return {(row.account, row.month): row for row in rows}


def month_sums(months: Iterable[BilledMonth]) -> dict[int, MonthSums]:
    """Return the sums of months by id. One query."""
    ids = [month.pk for month in months]
    sums = {pk: MonthSums() for pk in ids}
    rows = (
        BillingItem.objects.filter(month__in=ids)
        .values("month", "charge", "category")
        .annotate(
            amount=Sum("amount_millionths"),
            covered=Sum("covered_millionths"),
            cost=Sum("cost_ucurrency"),
            wrong=Sum("lines", filter=~Q(problem="")),
        )
    )
    for row in rows:
        of_month = sums[row["month"]]
        if row["category"] == Category.COMPUTE:
            of_month.hours_millionths += row["amount"]
            of_month.covered_millionths += row["covered"]
        costs = of_month.costs_ucurrency
        costs[row["charge"]] = costs.get(row["charge"], 0) + row["cost"]
        of_month.problem_lines += row["wrong"] or 0
    return sums


def use_rows(month: BilledMonth) -> list[UseRow]:
    """Return the use of a month, the most expensive first."""
    names = ("category", "instance_type", "gpu", "medium", "region", "project__slug", "problem")
    rows = (
        BillingItem.objects.filter(month=month, charge=Charge.USAGE)
        .values(*names)
        .annotate(
            amount=Sum("amount_millionths"),
            covered=Sum("covered_millionths"),
            cost=Sum("cost_ucurrency"),
        )
        .order_by("-cost", *names)
    )
    return [
        UseRow(
            category=row["category"],
            instance_type=row["instance_type"],
            gpu=row["gpu"],
            medium=row["medium"],
            region=row["region"],
            project=row["project__slug"] or "",
            amount_millionths=row["amount"],
            covered_millionths=row["covered"],
            cost_ucurrency=row["cost"],
            problem=row["problem"],
        )
        for row in rows
    ]


def month_of_activity(activity: Activity) -> BilledMonth | None:
    """Return the month whose bill an activity follows from, None for other activities."""
    return BilledMonth.objects.filter(uses__activity=activity).first()


def has_days_to_come(month: BilledMonth, now: int) -> bool:
    """Return whether days of a month have not ended, so that their use is not counted yet."""
    return BillingItem.objects.filter(month=month, end_us__gt=now).exists()


def activities_of_month(month: BilledMonth) -> QuerySet[Activity]:
    """Return the activities of a month that count, by day."""
    rows = Activity.objects.filter(billed_use__month=month, withdrawn_us=None)
    return rows.select_related("project").order_by("start_us", "-energy_mj", "pk")


def item_rows(month: BilledMonth) -> Iterator[BillingItem]:
    """Return the items of a month."""
    rows = BillingItem.objects.filter(month=month).select_related("project")
    return rows.order_by("start_us", "pk").iterator(chunk_size=1_000)


def files_of(lab: Lab, number: int) -> list[BillingFile]:
    """Return the latest exports of a lab."""
    rows = BillingFile.objects.filter(lab=lab).select_related("created_by")
    return list(rows.order_by("-created_us", "-pk")[:number])


def known_accounts(file: BillingFile) -> dict[str, BillingAccount]:
    """Return what the lab decided for the accounts of a provider."""
    rows = BillingAccount.objects.filter(lab=file.lab, provider=file.provider)
    return {row.account: row for row in rows.select_related("project")}


def known_tags(file: BillingFile, key: str) -> dict[str, str]:
    """Return the projects (short names) of the values of a tag."""
    rows = BillingTag.objects.filter(lab=file.lab, provider=file.provider, key=key)
    return dict(rows.values_list("value", "project__slug"))


def earlier_options(file: BillingFile) -> dict[str, str]:
    """Return the options of the last export of the provider that was assigned."""
    rows = BillingFile.objects.filter(lab=file.lab, provider=file.provider).exclude(options={})
    last = rows.exclude(pk=file.pk).order_by("-created_us", "-pk").first()
    return dict(last.options) if last else {}
