"""Plans of what may go, and for how long what is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, Sum

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import LineOutcome, PlanState
from apps.artifacts.going import going
from apps.artifacts.models import Plan, PlanLine
from apps.artifacts.proposing import days_of
from apps.artifacts.retention import DEFAULT_DAYS, REVIEWED, Retention
from apps.artifacts.summing import PlanSums, sums_of
from apps.artifacts.telling import lines_told
from apps.core.errors import InvalidInput
from apps.dashboard.calc import size
from apps.dashboard.contexts.plan_parts import Cost, ToldPart, cost, told_part
from apps.fleet.models import Node

PAGE_ROWS = 50
CSV_HEAD = (
    "artifact", "digest", "path", "bytes", "why", "last_copy", "owner", "due_at_us", "storage_mj_a_year",
    "storage_ug_a_year", "retrain_mj", "retrain_ug", "goes", "objection", "outcome", "word",
)  # fmt: skip


@dataclass(frozen=True)
class PlanRow:
    """A plan in the list."""

    plan: Plan
    lines: int
    size: str


@dataclass(frozen=True)
class DaysRow:
    """For how many days a class is kept; None: it is never proposed."""

    kept: Retention
    days: int | None
    is_reviewed: bool
    usual: int


@dataclass(frozen=True)
class PlansPage:
    """All plans, the machines that one can be made for, and what is kept for how long."""

    open: list[PlanRow]
    over: list[PlanRow]
    nodes: list[Node]
    projects: list[Project]
    days: list[DaysRow]
    project: Project | None


def plans_page(lab: Lab, *, project: Project | None) -> PlansPage:
    """Return the page. ``project``: whose days are shown; None: the lab's."""
    found = lab.plans.select_related("node", "project", "made_by").annotate(
        many=Count("lines", filter=Q(lines__chosen=True)), sum=Sum("lines__artifact__bytes", filter=Q(lines__chosen=True))
    )
    rows = [PlanRow(plan, plan.many, size(plan.sum or 0)) for plan in found.order_by("-made_us", "-pk")[:200]]
    days = days_of(lab, project)
    return PlansPage(
        [row for row in rows if row.plan.state in (PlanState.DRAFT, PlanState.TOLD, PlanState.APPROVED)],
        [row for row in rows if row.plan.state not in (PlanState.DRAFT, PlanState.TOLD, PlanState.APPROVED)],
        list(Node.objects.filter(lab=lab, copies__isnull=False).distinct().order_by("hostname", "pk")),
        list(lab.projects.order_by("name", "pk")),
        [DaysRow(kept, days[kept], kept in REVIEWED, usual) for kept, usual in DEFAULT_DAYS.items()],
        project,
    )


@dataclass(frozen=True)
class LineRow:
    """A line. ``storage``: a year of keeping it; ``retrain``: making it again; both with what that emits. ``stays``: why it
    does not go although it was ticked."""

    line: PlanLine
    size: str
    storage: Cost
    retrain: Cost
    stays: str
    mine: bool


@dataclass(frozen=True)
class PlanPage:
    """One plan. ``mine``: how many ticked lines are the visitor's own, or theirs to look at as they were told of them."""

    plan: Plan
    rows: list[LineRow]
    first: int
    number: int
    sums: PlanSums
    chosen_size: str
    storage: Cost
    retrain: Cost
    told: ToldPart
    mine: int
    is_grace_over: bool
    before: str
    after: str
    command: str
    outcomes: list[tuple[LineOutcome, int]]

    @property
    def in_trash(self) -> int:
        """Return how many lines lie in a trash folder."""
        return dict(self.outcomes).get(LineOutcome.TRASHED, 0)


def plan_page(*, plan: Plan, params: Mapping[str, str], user: User, now: int) -> PlanPage:
    """Return a page of a plan's lines, the largest first. Raises InvalidInput."""
    start = _start(params.get("page", ""))
    mine = _mine(plan, user)
    lines = plan.lines.select_related("artifact__owner", "artifact__project", "copy", "objected_by", "retrain_run")
    if params.get("mine") == "1":
        lines = lines.filter(mine)
    number = lines.count()
    stays = _stays(plan, now)
    listed = list(lines.order_by("-artifact__bytes", "pk")[start : start + PAGE_ROWS])
    sums = sums_of(plan)
    return PlanPage(
        plan, [_row(line, stays, user) for line in listed], start + 1, number, sums, size(sums.bytes),
        cost(sums.storage_mj, sums.storage_ug, at_least=bool(sums.unknown_medium), factorless=bool(sums.without_factor)),
        cost(sums.retrain_mj, sums.retrain_ug, at_least=bool(sums.unmeasured), factorless=bool(sums.runs_without_factor)),
        told_part(plan), plan.lines.filter(mine, chosen=True).count(),
        plan.grace_until_us is not None and now >= plan.grace_until_us,
        _href(params, start - PAGE_ROWS) if start else "",
        _href(params, start + PAGE_ROWS) if start + PAGE_ROWS < number else "",
        f"labcarbon-collect apply-plan {settings.SITE_URL}/artifacts/plans/{plan.uuid}/", _outcomes(plan),
    )  # fmt: skip


def _mine(plan: Plan, user: User) -> Q:
    """Return which lines a person was told of, or owns."""
    notice = plan.notices.filter(user=user).select_related("plan__lab").first()
    return lines_told(notice) if notice else Q(artifact__owner=user)


def _stays(plan: Plan, now: int) -> dict[int, str]:
    """Return why lines stay, of a plan that is approved: what came after it counts."""
    if plan.state != PlanState.APPROVED:
        return {}
    return {each.line.pk: each.stays for each in going(plan, now) if each.line.chosen and each.stays}


def _row(line: PlanLine, stays: Mapping[int, str], user: User) -> LineRow:
    return LineRow(
        line, size(line.artifact.bytes), cost(line.storage_mj, line.storage_ug), cost(line.retrain_mj, line.retrain_ug),
        stays.get(line.pk, ""), line.artifact.owner_id == user.pk,
    )  # fmt: skip


def _outcomes(plan: Plan) -> list[tuple[LineOutcome, int]]:
    rows = plan.lines.exclude(outcome="").values("outcome").annotate(many=Count("pk")).order_by("outcome")
    return [(LineOutcome(row["outcome"]), row["many"]) for row in rows]


def _start(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(f"{text[:40]!r} is no page.", field="page", hint="Pages are numbered from 1.")
    return (int(text[:9]) - 1) * PAGE_ROWS


def _href(params: Mapping[str, str], start: int) -> str:
    mine = {"mine": "1"} if params.get("mine") == "1" else {}
    return f"?{urlencode({**mine, 'page': start // PAGE_ROWS + 1})}"


def plan_lines(plan: Plan) -> Sequence[tuple[object, ...]]:
    """Return all lines as the CSV has them. Empty: not known."""
    rows = plan.lines.select_related("artifact__owner", "copy").order_by("-artifact__bytes", "pk")
    return [
        (
            line.artifact.name, line.artifact.digest, line.copy.path, line.artifact.bytes, Retention(line.kept).label,
            line.is_last_copy, line.artifact.owner.username if line.artifact.owner else "", line.due_us, line.storage_mj,
            line.storage_ug, line.retrain_mj, line.retrain_ug, line.chosen, line.objection, line.outcome, line.word,
        )
        for line in rows
    ]  # fmt: skip
