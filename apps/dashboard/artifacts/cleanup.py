"""Plans of what may go, and for how long what is kept."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import LineOutcome, MailState, PlanState
from apps.artifacts.cleanup.eligibility import going_of
from apps.artifacts.cleanup.notifications import Absent, ToTell, absent, by_owner, lines_told, untold
from apps.artifacts.cleanup.other_copies import all_going
from apps.artifacts.cleanup.proposals import own_days
from apps.artifacts.cleanup.retention import DEFAULT_DAYS, REVIEWED, Retention
from apps.artifacts.cleanup.retention_settings import NEVER
from apps.artifacts.cleanup.totals import PlanSums, break_even_of, kept_with, sums_of
from apps.artifacts.models import Copy, Notice, Plan, PlanLine
from apps.artifacts.storage_model import in_ppm
from apps.core.errors import InvalidInput
from apps.dashboard.artifacts.storage_cost import reuse_short, reuse_words
from apps.dashboard.figures import WouldBe, estimated
from apps.dashboard.formatting import size
from apps.fleet.models import Node


@dataclass(frozen=True)
class Cost:
    """Energy and what it emits, location-based. None: not known. ``is_factorless``: some of it has no factor."""

    energy: WouldBe | None
    emission: WouldBe | None
    is_factorless: bool


@dataclass(frozen=True)
class ToldPart:
    """Who was told of a plan; ``missing``: who never was; ``absent``: lines whose owner is not in the lab. ``mails``:
    whether mails are sent now; ``unmailed``: how many were told while none were."""

    notices: list[Notice]
    missing: list[ToTell]
    absent: Absent
    mails: bool
    mailed: int
    unmailed: int


def cost(energy_mj: int | None, emission_ug: int | None, *, at_least: bool = False, factorless: bool = False) -> Cost:
    """Return energy and emissions as a page shows them. ``at_least``: some energy is in neither sum."""
    return Cost(
        None if energy_mj is None else estimated(energy_mj, at_least=at_least),
        None if emission_ug is None else estimated(emission_ug, "emission_ug", at_least=at_least or factorless),
        factorless or (energy_mj is not None and emission_ug is None),
    )


def told_part(plan: Plan) -> ToldPart:
    """Return who was told. A draft's are those who will be."""
    notices = list(plan.notices.order_by("name", "pk"))
    is_open = plan.state in (PlanState.DRAFT, PlanState.TOLD)
    mailed = sum(notice.mail == MailState.SENT for notice in notices)
    off = sum(notice.mail == MailState.OFF for notice in notices)
    lines = by_owner(plan) if is_open else {}
    missing = untold(plan, lines) if is_open else []
    return ToldPart(notices, missing, absent(plan, lines) if is_open else Absent([], 0, 0), settings.MAIL_ON, mailed, off)


PAGE_ROWS = 50
CSV_HEAD = (
    "artifact", "digest", "path", "bytes", "why", "last_copy", "owner", "due_at_us", "storage_mj_a_year",
    "storage_ug_a_year", "retrain_mj", "retrain_ug", "break_even_ppm_a_year", "goes", "stays", "objection", "outcome",
    "word",
)  # fmt: skip


@dataclass(frozen=True)
class PlanRow:
    """A plan in the list."""

    plan: Plan
    lines: int
    size: str


@dataclass(frozen=True)
class DaysRow:
    """For how many days a class is kept. ``field``: what its field holds; ``otherwise``: the days where that is empty, of
    the lab or usual. 'never': it is never proposed."""

    kept: Retention
    days: str
    is_reviewed: bool
    field: str
    otherwise: str
    is_of_lab: bool


@dataclass(frozen=True)
class PlansPage:
    """All plans, the machines that one can be made for, and what is kept for how long."""

    open: list[PlanRow]
    over: list[PlanRow]
    nodes: list[Node]
    projects: list[Project]
    days: list[DaysRow]
    project: Project | None


def plans_page(lab: Lab, *, project: Project | None, typed: Mapping[str, str]) -> PlansPage:
    """Return the page. ``project``: whose days are shown; None: the lab's. ``typed``: days that could not be recorded."""
    found = list(lab.plans.select_related("node", "project", "made_by").order_by("-made_us", "-pk")[:200])
    ticked = _ticked(found)
    rows = [PlanRow(plan, lines, size(many)) for plan in found for lines, many in [ticked.get(plan.pk, (0, 0))]]
    return PlansPage(
        [row for row in rows if row.plan.state in (PlanState.DRAFT, PlanState.TOLD, PlanState.APPROVED)],
        [row for row in rows if row.plan.state not in (PlanState.DRAFT, PlanState.TOLD, PlanState.APPROVED)],
        list(Node.objects.filter(Exists(Copy.objects.filter(node=OuterRef("pk"))), lab=lab).order_by("hostname", "pk")),
        list(lab.projects.order_by("name", "pk")),
        _days_rows(lab, project, typed),
        project,
    )


def _ticked(plans: Sequence[Plan]) -> dict[int, tuple[int, int]]:
    """Return how many lines of each plan are ticked, and their bytes; what has none is left out. One query."""
    lines = PlanLine.objects.filter(plan__in=plans, chosen=True).order_by()
    sums = lines.values_list("plan").annotate(lines=Count("pk"), bytes=Sum("artifact__bytes"))
    return {plan: (many, int(number)) for plan, many, number in sums}


def _days_rows(lab: Lab, project: Project | None, typed: Mapping[str, str]) -> list[DaysRow]:
    of_lab = own_days(lab, None)
    own = own_days(lab, project) if project else of_lab
    otherwise = {**DEFAULT_DAYS, **(of_lab if project else {})}
    days = {**otherwise, **own}
    return [
        DaysRow(
            kept, _days(days[kept]), kept in REVIEWED,
            typed.get(f"days:{kept.value}", _days(own[kept]) if kept in own else ""), _days(otherwise[kept]),
            project is not None and kept in of_lab,
        )
        for kept in DEFAULT_DAYS
    ]  # fmt: skip


def _days(days: int | None) -> str:
    return NEVER if days is None else str(days)


@dataclass(frozen=True)
class LineRow:
    """A line. ``storage``: a year of keeping it; ``retrain``: making it again; both with what that emits. ``pays``: from
    which chance of reuse on keeping its artifact pays, short and in a sentence, '' where that is not known. ``stays``: why
    it does not go although it was ticked. ``copy_stays``: another copy is there, and does not go by this plan.
    ``is_ticked``: whether its box is."""

    line: PlanLine
    size: str
    storage: Cost
    retrain: Cost
    pays: tuple[str, str]
    stays: str
    copy_stays: bool
    mine: bool
    is_ticked: bool

    @property
    def may_be_spared(self) -> bool:
        """Return whether it would go, or be tried again, unless somebody objects."""
        return self.line.chosen and self.line.outcome in ("", LineOutcome.REFUSED)

    @property
    def is_spared(self) -> bool:
        """Return whether somebody objected to what the machine had left: it is not tried again."""
        return not self.line.chosen and self.line.outcome == LineOutcome.REFUSED


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
    reuse: str
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


def plan_page(*, plan: Plan, params: Mapping[str, str], user: User, now: int, ticks: Mapping[str, bool]) -> PlanPage:
    """Return a page of a plan's lines, the largest first. ``ticks``: by line, as they were posted and could not be kept.
    Raises InvalidInput."""
    start = _start(params.get("page", ""))
    mine = _mine(plan, user)
    lines = plan.lines.select_related("artifact__owner", "artifact__project", "copy", "objected_by", "retrain_run")
    of_mine = plan.lines.filter(mine).aggregate(all=Count("pk"), ticked=Count("pk", filter=Q(chosen=True)))
    if params.get("mine") == "1":
        lines, number = lines.filter(mine), of_mine["all"]
    else:
        number = plan.lines.count()
    listed = _largest(lines, start)
    sums = sums_of(plan)
    return PlanPage(
        plan, _rows(plan, listed, user, now, ticks), start + 1, number, sums, size(sums.bytes),
        cost(sums.storage_mj, sums.storage_ug, at_least=bool(sums.unknown_medium), factorless=bool(sums.without_factor)),
        cost(sums.retrain_mj, sums.retrain_ug, at_least=bool(sums.unmeasured), factorless=bool(sums.runs_without_factor)),
        "" if sums.break_even is None else reuse_words(sums.break_even),
        told_part(plan), of_mine["ticked"],
        plan.grace_until_us is not None and now >= plan.grace_until_us,
        _href(params, start - PAGE_ROWS) if start else "",
        _href(params, start + PAGE_ROWS) if start + PAGE_ROWS < number else "",
        f"labcarbon-collect apply-plan {settings.SITE_URL}/artifacts/plans/{plan.uuid}/", _outcomes(plan),
    )  # fmt: skip


def _largest(lines: QuerySet[PlanLine], start: int) -> list[PlanLine]:
    """Return a page of lines. To sort numbers is much quicker than to sort all that is known."""
    numbers = list(lines.order_by("-artifact__bytes", "pk").values_list("pk", flat=True)[start : start + PAGE_ROWS])
    by_pk = lines.in_bulk(numbers)
    return [by_pk[number] for number in numbers if number in by_pk]


def _mine(plan: Plan, user: User) -> Q:
    """Return which lines a person was told of, or owns."""
    notice = plan.notices.filter(user=user).select_related("plan__lab").first()
    return lines_told(notice) if notice else Q(artifact__owner=user)


def _rows(plan: Plan, lines: Sequence[PlanLine], user: User, now: int, ticks: Mapping[str, bool]) -> list[LineRow]:
    stays = _stays(plan, lines, now)
    artifacts = [line.artifact_id for line in lines]
    kept, gone = kept_with(plan, artifacts), all_going(plan, artifacts)
    return [_row(line, break_even_of(line, kept), stays, gone, user, ticks) for line in lines]


def _stays(plan: Plan, lines: Sequence[PlanLine], now: int) -> dict[int, str]:
    """Return why some lines stay, of a plan that is approved: what came after it counts."""
    if plan.state != PlanState.APPROVED:
        return {}
    return {each.line.pk: each.stays for each in going_of(plan, [line for line in lines if line.chosen], now)}


def _row(
    line: PlanLine, pays_from: Fraction | None, stays: Mapping[int, str], gone: Collection[int], user: User,
    ticks: Mapping[str, bool],
) -> LineRow:  # fmt: skip
    is_ticked = line.plan.state == PlanState.DRAFT and line.chosen
    return LineRow(
        line, size(line.artifact.bytes), cost(line.storage_mj, line.storage_ug), cost(line.retrain_mj, line.retrain_ug),
        ("", "") if pays_from is None else (reuse_short(pays_from), reuse_words(pays_from)),
        stays.get(line.pk, ""), not line.is_last_copy and line.artifact_id not in gone, line.artifact.owner_id == user.pk,
        ticks.get(str(line.pk), is_ticked),
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


def plan_lines(plan: Plan, now: int) -> Sequence[tuple[object, ...]]:
    """Return all lines as the CSV has them, with what goes and stays as on the page. Empty: not known."""
    rows = list(plan.lines.select_related("artifact__owner", "copy").order_by("-artifact__bytes", "pk"))
    kept, stays = kept_with(plan), _stays(plan, rows, now)
    return [
        (
            line.artifact.name, line.artifact.digest, line.copy.path, line.artifact.bytes, Retention(line.kept).label,
            line.is_last_copy, line.artifact.owner.username if line.artifact.owner else "", line.due_us, line.storage_mj,
            line.storage_ug, line.retrain_mj, line.retrain_ug, in_ppm(break_even_of(line, kept)),
            line.chosen and not stays.get(line.pk), stays.get(line.pk, ""), line.objection, line.outcome, line.word,
        )
        for line in rows
    ]  # fmt: skip
