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
from apps.core.errors import InvalidInput
from apps.dashboard.calc import size
from apps.dashboard.figures import WouldBe, estimated
from apps.fleet.models import Node

PAGE_ROWS = 50
CSV_HEAD = (
    "artifact", "digest", "path", "bytes", "why", "last_copy", "owner", "due_at_us", "storage_mj_a_year", "retrain_mj",
    "goes", "objection", "outcome", "word",
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
    """A line. ``storage``: a year of keeping it; ``retrain``: what making it again takes; None: not known. ``stays``: why it
    does not go although it was ticked."""

    line: PlanLine
    size: str
    storage: WouldBe | None
    retrain: WouldBe | None
    stays: str
    mine: bool


@dataclass(frozen=True)
class PlanPage:
    """One plan. ``mine``: how many ticked lines are the visitor's own."""

    plan: Plan
    rows: list[LineRow]
    first: int
    number: int
    chosen: int
    chosen_size: str
    storage: WouldBe | None
    storage_unknown: int
    mine: int
    is_grace_over: bool
    before: str
    after: str
    command: str
    outcomes: list[tuple[str, int]]


def plan_page(*, plan: Plan, params: Mapping[str, str], user: User, now: int) -> PlanPage:
    """Return a page of a plan's lines, the largest first. Raises InvalidInput."""
    start = _start(params.get("page", ""))
    lines = plan.lines.select_related("artifact__owner", "artifact__project", "copy", "objected_by")
    if params.get("mine") == "1":
        lines = lines.filter(artifact__owner=user)
    number = lines.count()
    stays = _stays(plan)
    listed = list(lines.order_by("-artifact__bytes", "pk")[start : start + PAGE_ROWS])
    told = plan.lines.filter(chosen=True).aggregate(
        many=Count("pk"), bytes=Sum("artifact__bytes"), storage=Sum("storage_mj"),
        unknown=Count("pk", filter=Q(storage_mj=None)), mine=Count("pk", filter=Q(artifact__owner=user)),
    )  # fmt: skip
    return PlanPage(
        plan, [_row(line, stays, user) for line in listed], start + 1, number, told["many"], size(told["bytes"] or 0),
        estimated(told["storage"], at_least=bool(told["unknown"])) if told["storage"] is not None else None,
        told["unknown"], told["mine"],
        plan.grace_until_us is not None and now >= plan.grace_until_us,
        _href(params, start - PAGE_ROWS) if start else "",
        _href(params, start + PAGE_ROWS) if start + PAGE_ROWS < number else "",
        f"labcarbon-collect apply-plan {settings.SITE_URL}/artifacts/plans/{plan.uuid}/", _outcomes(plan),
    )  # fmt: skip


def _stays(plan: Plan) -> dict[int, str]:
    """Return why lines stay, of a plan that is approved: what came after it counts."""
    if plan.state != PlanState.APPROVED:
        return {}
    return {each.line.pk: each.stays for each in going(plan) if each.line.chosen and each.stays}


def _row(line: PlanLine, stays: Mapping[int, str], user: User) -> LineRow:
    return LineRow(
        line, size(line.artifact.bytes), None if line.storage_mj is None else estimated(line.storage_mj),
        None if line.retrain_mj is None else estimated(line.retrain_mj), stays.get(line.pk, ""),
        line.artifact.owner_id == user.pk,
    )  # fmt: skip


def _outcomes(plan: Plan) -> list[tuple[str, int]]:
    rows = plan.lines.exclude(outcome="").values("outcome").annotate(many=Count("pk")).order_by("outcome")
    return [(str(LineOutcome(row["outcome"]).label), row["many"]) for row in rows]


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
            line.retrain_mj, line.chosen, line.objection, line.outcome, line.word,
        )
        for line in rows
    ]  # fmt: skip
