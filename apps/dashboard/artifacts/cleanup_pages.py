"""Pages of cleanup plans and retention periods."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from django.urls import reverse

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import ItemOutcome, MailState, PlanState
from apps.artifacts.cleanup.freed_space import FreedSpace, freed_space
from apps.artifacts.cleanup.notifications import (
    FormerOwners,
    Recipient,
    former_owners,
    items_by_owner,
    not_notified,
    notified_items,
)
from apps.artifacts.cleanup.other_copies import fully_selected
from apps.artifacts.cleanup.plan_check import check_items
from apps.artifacts.cleanup.proposals import own_periods
from apps.artifacts.cleanup.retention import DEFAULT_DAYS, REVIEWED_CLASSES, RetentionClass
from apps.artifacts.cleanup.retention_settings import format_period
from apps.artifacts.cleanup.totals import (
    PlanTotals,
    artifact_storage_mj,
    item_break_even,
    plan_totals,
)
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy, Notification
from apps.artifacts.storage_model import to_ppm
from apps.core.errors import InvalidInput
from apps.dashboard.artifacts.storage_cost import break_even_cell, break_even_sentence
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import size


@dataclass(frozen=True)
class CostQuantities:
    """Energy and location-based emissions, None if unknown. ``is_factorless``: part of it has no
    factor.
    """

    energy: Projected | None
    emission: Projected | None
    is_factorless: bool


@dataclass(frozen=True)
class NotificationPart:
    """Notifications of a plan. ``missing``: recipients not notified yet. ``absent``: items without
    an owner in the lab.

    ``mails``: mails are enabled. ``unmailed``: notifications while mails were disabled.
    """

    notifications: list[Notification]
    missing: list[Recipient]
    absent: FormerOwners
    mails: bool
    mailed: int
    unmailed: int


def cost_quantities(
    energy_mj: int | None,
    emission_ug: int | None,
    *,
    at_least: bool = False,
    factorless: bool = False,
) -> CostQuantities:
    """Return energy and emissions as quantities. ``at_least``: some energy is in neither sum."""
    return CostQuantities(
        None if energy_mj is None else estimated(energy_mj, at_least=at_least),
        None
        if emission_ug is None
        else estimated(emission_ug, "emission_ug", at_least=at_least or factorless),
        factorless or (energy_mj is not None and emission_ug is None),
    )


def notification_part(plan: CleanupPlan) -> NotificationPart:
    """Return the notifications of a plan; for a draft its future recipients."""
    notifications = list(plan.notifications.order_by("name", "pk"))
    is_open = plan.state in (PlanState.DRAFT, PlanState.NOTIFIED)
    mailed = sum(notice.mail == MailState.SENT for notice in notifications)
    off = sum(notice.mail == MailState.OFF for notice in notifications)
    counts = items_by_owner(plan) if is_open else {}
    unnotified = not_notified(plan, counts) if is_open else []
    return NotificationPart(
        notifications,
        unnotified,
        former_owners(plan, counts) if is_open else FormerOwners([], 0, 0),
        settings.MAIL_ON,
        mailed,
        off,
    )


PAGE_ROWS = 50
CSV_COLUMNS = (
    "artifact", "digest", "path", "bytes", "why", "last_copy", "owner", "due_at_us",
    "storage_mj_a_year", "storage_ug_a_year", "retrain_mj", "retrain_ug", "break_even_ppm_a_year",
    "goes", "stays", "objection", "outcome", "word", "freed_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class PlanRow:
    """A plan in the list."""

    plan: CleanupPlan
    lines: int
    size: str


@dataclass(frozen=True)
class PeriodRow:
    """The retention period of a class. ``inherited``: the period without an own one.

    'never': the class is never proposed.
    """

    retention_class: RetentionClass
    days: str
    is_reviewed: bool
    inherited: str
    is_of_lab: bool


@dataclass(frozen=True)
class PlansPage:
    """All plans and the retention periods. ``has_copies``: there are copies on nodes."""

    open: list[PlanRow]
    closed: list[PlanRow]
    has_copies: bool
    periods: list[PeriodRow]
    project: Project | None


def plans_page(lab: Lab, *, project: Project | None) -> PlansPage:
    """Return the page. ``project``: whose periods are listed; None: the lab's."""
    plans = list(
        lab.cleanup_plans.select_related("node", "project", "created_by").order_by(
            "-created_us", "-pk"
        )[:200]
    )
    totals = _selected_totals(plans)
    rows = [
        PlanRow(plan, lines, size(byte_count))
        for plan in plans
        for lines, byte_count in [totals.get(plan.pk, (0, 0))]
    ]
    return PlansPage(
        [
            row
            for row in rows
            if row.plan.state in (PlanState.DRAFT, PlanState.NOTIFIED, PlanState.APPROVED)
        ],
        [
            row
            for row in rows
            if row.plan.state not in (PlanState.DRAFT, PlanState.NOTIFIED, PlanState.APPROVED)
        ],
        Copy.objects.filter(lab=lab, node__isnull=False).exists(),
        _period_rows(lab, project),
        project,
    )


def _selected_totals(plans: Sequence[CleanupPlan]) -> dict[int, tuple[int, int]]:
    """Return the number of the selected items and the bytes that they free, by plan. Plans without
    any are left out. Two queries, more if copies share files.
    """
    items = CleanupItem.objects.filter(plan__in=plans, selected=True).order_by()
    sums = items.values_list("plan").annotate(lines=Count("pk"), bytes=Sum("artifact__bytes"))
    excess: Counter[int] = Counter()
    for freed in freed_space(plans).values():
        excess[freed.plan_id] += freed.size - freed.bytes if freed.is_selected else 0
    return {plan: (count, int(number) - excess[plan]) for plan, count, number in sums}


def _period_rows(lab: Lab, project: Project | None) -> list[PeriodRow]:
    of_lab = own_periods(lab, None)
    own = own_periods(lab, project) if project else of_lab
    inherited = {**DEFAULT_DAYS, **(of_lab if project else {})}
    days = {**inherited, **own}
    return [
        PeriodRow(
            retention_class,
            format_period(days[retention_class]),
            retention_class in REVIEWED_CLASSES,
            format_period(inherited[retention_class]),
            project is not None and retention_class in of_lab,
        )
        for retention_class in DEFAULT_DAYS
    ]


@dataclass(frozen=True)
class ItemRow:
    """An item. ``storage``: a year of storage; ``retrain``: retraining; both with emissions.

    ``pays``: break-even reuse probability, short and as a sentence, '' if unknown.
    ``blocked_reason``: why a selected item is not eligible. ``copy_stays``: another copy remains.
    ``is_ticked``: the checkbox is checked.
    """

    item: CleanupItem
    size: str
    freed_bytes: int | None
    freed: str
    storage: CostQuantities
    retrain: CostQuantities
    pays: tuple[str, str]
    blocked_reason: str
    copy_stays: bool
    mine: bool
    is_ticked: bool

    @property
    def can_be_excluded(self) -> bool:
        """Return whether an objection can exclude the item."""
        return self.item.selected and self.item.outcome in ("", ItemOutcome.REFUSED)

    @property
    def is_excluded(self) -> bool:
        """Return whether an objection excluded an item that the machine had refused."""
        return not self.item.selected and self.item.outcome == ItemOutcome.REFUSED


@dataclass(frozen=True)
class PlanPage:
    """One plan. ``mine``: number of selected items that the visitor owns or was notified of."""

    plan: CleanupPlan
    rows: list[ItemRow]
    first: int
    number: int
    sums: PlanTotals
    selected_size: str
    storage: CostQuantities
    retrain: CostQuantities
    reuse: str
    notified: NotificationPart
    mine: int
    is_grace_over: bool
    before: str
    after: str
    command: str
    outcomes: list[tuple[ItemOutcome, int]]

    @property
    def in_trash(self) -> int:
        """Return the number of trashed items."""
        return dict(self.outcomes).get(ItemOutcome.TRASHED, 0)


def plan_page(
    *, plan: CleanupPlan, params: Mapping[str, str], user: User, now: int, ticks: Mapping[str, bool]
) -> PlanPage:
    """Return a page of a plan's items, the largest first. ``ticks``: posted checkboxes that were
    not saved.

    Raises InvalidInput.
    """
    start = _parse_page(params.get("page", ""))
    mine = _own_items_condition(plan, user)
    items = plan.items.select_related(
        "artifact__owner", "artifact__project", "copy", "objected_by", "retrain_run"
    )
    own_counts = plan.items.filter(mine).aggregate(
        all=Count("pk"), ticked=Count("pk", filter=Q(selected=True))
    )
    if params.get("mine") == "1":
        items, number = items.filter(mine), own_counts["all"]
    else:
        number = plan.items.count()
    page_items = _largest_items(items, start)
    totals = plan_totals(plan)
    return PlanPage(
        plan,
        _rows(plan, page_items, user, now, ticks),
        start + 1,
        number,
        totals,
        size(totals.bytes),
        cost_quantities(
            totals.storage_mj,
            totals.storage_ug,
            at_least=bool(totals.unknown_medium),
            factorless=bool(totals.without_factor),
        ),
        cost_quantities(
            totals.retrain_mj,
            totals.retrain_ug,
            at_least=bool(totals.unmeasured),
            factorless=bool(totals.runs_without_factor),
        ),
        "" if totals.break_even is None else break_even_sentence(totals.break_even),
        notification_part(plan),
        own_counts["ticked"],
        plan.grace_until_us is not None and now >= plan.grace_until_us,
        _href(params, start - PAGE_ROWS) if start else "",
        _href(params, start + PAGE_ROWS) if start + PAGE_ROWS < number else "",
        (
            "labcarbon-collect apply-plan "
            f"{settings.SITE_URL}{reverse('cleanup-plan', args=[plan.uuid])}"
        ),
        _outcomes(plan),
    )


def _largest_items(items: QuerySet[CleanupItem], start: int) -> list[CleanupItem]:
    """Return a page of items. Sorting only primary keys is much faster than sorting whole rows."""
    numbers = list(
        items.order_by("-artifact__bytes", "pk").values_list("pk", flat=True)[
            start : start + PAGE_ROWS
        ]
    )
    by_pk = items.in_bulk(numbers)
    return [by_pk[number] for number in numbers if number in by_pk]


def _own_items_condition(plan: CleanupPlan, user: User) -> Q:
    """Return the condition for items that a person owns or was notified of."""
    notification = plan.notifications.filter(user=user).select_related("plan__lab").first()
    return notified_items(notification) if notification else Q(artifact__owner=user)


def _rows(
    plan: CleanupPlan, items: Sequence[CleanupItem], user: User, now: int, ticks: Mapping[str, bool]
) -> list[ItemRow]:
    reasons = _blocked_reasons(plan, items, now)
    artifacts = [item.artifact_id for item in items]
    storage_mj, fully_selected_ids = (
        artifact_storage_mj(plan, artifacts),
        fully_selected(plan, artifacts),
    )
    freed = freed_space([plan])
    return [
        _row(
            item,
            freed.get(item.pk),
            item_break_even(item, storage_mj),
            reasons,
            fully_selected_ids,
            user,
            ticks,
        )
        for item in items
    ]


def _blocked_reasons(plan: CleanupPlan, items: Sequence[CleanupItem], now: int) -> dict[int, str]:
    """Return the reasons that block items of an approved plan now."""
    if plan.state != PlanState.APPROVED:
        return {}
    return {
        result.item.pk: result.blocked_reason
        for result in check_items(plan, [item for item in items if item.selected], now)
    }


def _row(
    item: CleanupItem,
    freed: FreedSpace | None,
    break_even: Fraction | None,
    reasons: Mapping[int, str],
    fully_selected_ids: Collection[int],
    user: User,
    ticks: Mapping[str, bool],
) -> ItemRow:
    is_ticked = item.plan.state == PlanState.DRAFT and item.selected
    return ItemRow(
        item,
        size(item.artifact.bytes),
        freed.bytes if freed else None,
        size(freed.bytes) if freed and freed.bytes != freed.size else "",
        cost_quantities(freed.storage_mj, freed.storage_ug)
        if freed
        else cost_quantities(item.storage_mj, item.storage_ug),
        cost_quantities(item.retrain_mj, item.retrain_ug),
        ("", "")
        if break_even is None
        else (break_even_cell(break_even), break_even_sentence(break_even)),
        reasons.get(item.pk, ""),
        not item.is_last_copy and item.artifact_id not in fully_selected_ids,
        item.artifact.owner_id == user.pk,
        ticks.get(str(item.pk), is_ticked),
    )


def _outcomes(plan: CleanupPlan) -> list[tuple[ItemOutcome, int]]:
    rows = (
        plan.items.exclude(outcome="")
        .values("outcome")
        .annotate(many=Count("pk"))
        .order_by("outcome")
    )
    return [(ItemOutcome(row["outcome"]), row["many"]) for row in rows]


def _parse_page(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(
            f"Invalid page number {text[:40]!r}.", field="page", hint="The first page is 1."
        )
    return (int(text[:9]) - 1) * PAGE_ROWS


def _href(params: Mapping[str, str], start: int) -> str:
    mine = {"mine": "1"} if params.get("mine") == "1" else {}
    return f"?{urlencode({**mine, 'page': start // PAGE_ROWS + 1})}"


def plan_csv_rows(plan: CleanupPlan, now: int) -> Sequence[tuple[object, ...]]:
    """Return all items as rows of the CSV, with eligibility as on the page. Empty: unknown."""
    items = list(
        plan.items.select_related("artifact__owner", "copy").order_by("-artifact__bytes", "pk")
    )
    storage_mj, reasons = artifact_storage_mj(plan), _blocked_reasons(plan, items, now)
    freed = freed_space([plan])
    return [
        (
            item.artifact.name,
            item.artifact.digest,
            item.copy.path,
            item.artifact.bytes,
            RetentionClass(item.retention_class).label,
            item.is_last_copy,
            item.artifact.owner.username if item.artifact.owner else "",
            item.due_us,
            freed[item.pk].storage_mj if item.pk in freed else item.storage_mj,
            freed[item.pk].storage_ug if item.pk in freed else item.storage_ug,
            item.retrain_mj,
            item.retrain_ug,
            to_ppm(item_break_even(item, storage_mj)),
            item.selected and not reasons.get(item.pk),
            reasons.get(item.pk, ""),
            item.objection,
            item.outcome,
            item.message,
            freed[item.pk].bytes if item.pk in freed else item.artifact.bytes,
        )
        for item in items
    ]
