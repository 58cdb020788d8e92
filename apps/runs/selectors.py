"""Reads of runs."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Exists, F, Min, OuterRef, Q, QuerySet, Window
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Lag

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.core.sql import fetch_rows
from apps.core.text import uuid_range
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.fleet.selectors import require_node
from apps.ingest.models import ConsumerHour, DirtyHour
from apps.runs.choices import EnergyState, RunState, Tier
from apps.runs.code_similarity import find_similar_code
from apps.runs.metric_summary import select_headline_metric
from apps.runs.models import Fingerprint, Metric, MetricPoint, RefusedMessage, Run, TierKey
from apps.runs.services.fingerprints import lookup_param

MAX_SIBLINGS = 1000
_RELATED = ("project", "charged_project", "node", "user", "parent")


@dataclass(frozen=True)
class Siblings:
    """Numbers of other runs that share a tier, by name of the tier in lower case, each up to
    MAX_SIBLINGS.
    """

    counts: dict[str, int]


def runs_of(
    lab: Lab,
    *,
    project: str = "",
    state: str = "",
    text: str = "",
    intent: str = "",
    sweep: str = "",
    host: str = "",
    node: UUID | None = None,
    person: str = "",
    from_us: int | None = None,
    to_us: int | None = None,
    params: Mapping[str, str] | None = None,
) -> QuerySet[Run]:
    """Return the lab's runs, newest first, filtered by the slug of the project charged
    ('~unattributed': none), by state, by words in the name or the start of the UUID, intent,
    sweep, host, node, the account name of who ran it, start in ``[from_us, to_us)``, and
    parameters (name → value as text; also those of which only the hash is known).

    Raises InvalidInput for a project or node that the lab does not have.
    """
    runs = Run.objects.filter(lab=lab).select_related(*_RELATED).order_by("-started_us", "-id")
    if project == "~unattributed":
        runs = runs.filter(charged_project__isnull=True)
    elif project:
        require_project(lab, project)
        runs = runs.filter(charged_project__slug=project)
    if node:
        require_node(lab, node)
    exact = {"state": state, "intent": intent, "sweep": sweep, "node__uuid": node}
    runs = runs.filter(**{name: value for name, value in exact.items() if value})
    if text:
        runs = runs.filter(_text_condition(text))
    if host:
        runs = runs.filter(Q(host=host) | Q(host="", node__hostname=host))
    if person:
        runs = runs.filter(
            Q(charged_person__username=person) | Q(charged_person=None, user__username=person)
        )
    if from_us is not None:
        runs = runs.filter(started_us__gte=from_us)
    if to_us is not None:
        runs = runs.filter(started_us__lt=to_us)
    for number, (name, value) in enumerate((params or {}).items()):
        compared, digest = lookup_param(name, value)
        # An alias: a name with __ in it would be read as a path.
        transforms = (
            KeyTransform(compared, "fingerprint__params"),
            KeyTransform(compared, "fingerprint__seeds"),
        )
        runs = runs.alias(**{f"param_{number}": transforms[0], f"seed_{number}": transforms[1]})
        runs = runs.filter(Q(**{f"param_{number}": digest}) | Q(**{f"seed_{number}": digest}))
    return runs


def _text_condition(text: str) -> Q:
    """Match names with all words of ``text``, and UUIDs that begin with it."""
    condition = Q()
    for word in text.split():
        condition &= Q(name__icontains=word)
    span = uuid_range(text)
    return condition | Q(uuid__range=span) if span else condition


def run_of(lab: Lab, uuid: UUID) -> Run | None:
    """Return the lab's run, or None."""
    return Run.objects.filter(lab=lab, uuid=uuid).select_related(*_RELATED, "fingerprint").first()


def siblings_of(run: Run) -> Siblings:
    """Return numbers of other runs with the same work (f1), the same except seeds (f2), the same
    recipe (f3), or all parameters except one (left_out). ``*_weak``: by names, sizes and times. One
    query.
    """
    tiers = (
        Tier.F1,
        Tier.F1_WEAK,
        Tier.F2,
        Tier.F2_WEAK,
        Tier.F3,
        Tier.F3_WEAK,
        Tier.LEFT_OUT,
        Tier.LEFT_OUT_WEAK,
    )
    query = (
        "SELECT %s AS tier, COUNT(*) AS found FROM (SELECT DISTINCT o.run_id FROM runs_tierkey k "
        "JOIN runs_tierkey o "
        "ON o.lab_id = k.lab_id AND o.tier = k.tier AND o.key = k.key AND o.run_id <> k.run_id "
        f"WHERE k.run_id = %s AND k.tier = %s AND k.lab_id = %s LIMIT {MAX_SIBLINGS}) t"
    )
    params = [value for tier in tiers for value in (tier.value, run.pk, tier.value, run.lab_id)]
    counts = {
        row["tier"]: row["found"]
        for row in fetch_rows(" UNION ALL ".join([query] * len(tiers)), params)
    }
    return Siblings({tier.name.lower(): counts.get(tier.value, 0) for tier in tiers})


@dataclass(frozen=True)
class SimilarCode:
    """Runs of the same family with similar but different code: number, newest run, and lowest
    similarity (0.95 to 1).
    """

    runs: int
    newest: UUID
    min_similarity: float


def find_similar_code_runs(run: Run, normal: str) -> SimilarCode | None:
    """Return the runs with similar code among the newest MAX_SIBLINGS of the family, or None. At
    most six queries.
    """
    similar = find_similar_code(run.lab, normal)
    if not similar:
        return None
    own = TierKey.objects.filter(run=run, tier__in=(Tier.F4, Tier.F4_WEAK)).values_list(
        "tier", "key"
    )
    family: set[int] = set()
    for tier, key in own:
        newest = (
            TierKey.objects.filter(lab=run.lab_id, tier=tier, key=key)
            .exclude(run=run)
            .order_by("-run_id")
        )
        family.update(newest.values_list("run_id", flat=True)[:MAX_SIBLINGS])
    rows_ = Fingerprint.objects.filter(run__in=family, code_normal__in=similar).order_by(
        "-run__started_us", "-run"
    )
    rows = list(rows_.values_list("run__uuid", "code_normal"))
    return (
        SimilarCode(len(rows), rows[0][0], min(similar[normal_form] for _, normal_form in rows))
        if rows
        else None
    )


def fingerprints_of(runs: Iterable[Run]) -> dict[int, Fingerprint]:
    """Return {run pk: fingerprint} for runs that have one. One query."""
    return {row.run_id: row for row in Fingerprint.objects.filter(run__in=[run.pk for run in runs])}


def metrics_of(run_ids: Sequence[int]) -> dict[int, tuple[str, float]]:
    """Return {run pk: (name, last value)} of the headline metric. One query."""
    named: dict[int, dict[str, float]] = {}
    metrics = Metric.objects.filter(run_id__in=run_ids, last_value__isnull=False).values_list(
        "run_id", "name", "last_value"
    )
    for run_id, name, value in metrics:
        if value is not None:
            named.setdefault(run_id, {})[name] = value
    headline = {run_id: select_headline_metric(values) for run_id, values in named.items()}
    return {
        run_id: (name, named[run_id][name]) for run_id, name in headline.items() if name is not None
    }


@dataclass(frozen=True)
class RefusedRun:
    """The refused messages of a node about one run. ``name`` as the node reports it, '' if it
    does not. ``reason``: of the first refusal.
    """

    uuid: UUID
    name: str
    messages: int
    reason: str
    received_us: int


def refused_runs(node: Node, *, limit: int) -> list[RefusedRun]:
    """Return the runs with refused messages of a node, oldest first. Two queries."""
    uuids = list(
        node.refused_messages.values("run_uuid")
        .annotate(first=Min("pk"), messages=Count("pk"))
        .order_by("first")[:limit]
    )
    rows = RefusedMessage.objects.in_bulk([group["first"] for group in uuids])
    return [
        RefusedRun(
            group["run_uuid"],
            str(row.body.get("name") or "")[:200],
            group["messages"],
            row.reason,
            row.received_us,
        )
        for group in uuids
        for row in [rows[group["first"]]]
    ]


def nodes_with_refused_messages(lab: Lab) -> QuerySet[Node]:
    """Return the nodes of a lab with refused run messages."""
    return Node.objects.filter(lab=lab, refused_messages__isnull=False).distinct()


def active_in(runs: QuerySet[Run], from_us: int | None, to_us: int | None) -> QuerySet[Run]:
    """Limit runs to those that were active in ``[from_us, to_us)``, None: open. The last window of
    a run can end an hour after it.
    """
    if to_us is not None:
        runs = runs.filter(started_us__lt=to_us)
    if from_us is not None:
        last_us = from_us - US_PER_HOUR
        runs = runs.filter(
            Q(ended_us__gte=last_us)
            | Q(ended_us__isnull=True) & ~Q(state=RunState.LOST)
            | Q(ended_us__isnull=True, started_us__gte=last_us)
            | Q(ended_us__isnull=True, last_report_us__gte=last_us)
        )
    return runs


def energy_states(
    lab: Lab, uuids: Collection[UUID], counted: Container[UUID]
) -> dict[UUID, EnergyState]:
    """Return the state of the energy of each run. ``counted``: runs with energy in the ledger. The
    energy of others can still arrive while they run, until their node has uploaded after their end,
    and while their windows wait for the ledger. At most one query.
    """
    others = {uuid for uuid in uuids if uuid not in counted}
    waiting: set[UUID] = set()
    if others:
        dirty = DirtyHour.objects.filter(device=OuterRef("device"), hour=OuterRef("hour"))
        windows = ConsumerHour.objects.filter(
            consumer__run_uuid=OuterRef("uuid"), consumer__lab=lab
        ).filter(Exists(dirty))
        is_open = Q(ended_us__isnull=True, state=RunState.RUNNING)
        is_node_behind = Q(node__last_push_us__lte=F("ended_us"))
        runs = Run.objects.filter(is_open | is_node_behind | Exists(windows), lab=lab)
        waiting.update(runs.filter(uuid__in=others).values_list("uuid", flat=True))
    return {
        uuid: EnergyState.COUNTED
        if uuid not in others
        else EnergyState.NOT_COUNTED_YET
        if uuid in waiting
        else EnergyState.NOT_MEASURED
        for uuid in uuids
    }


def fallen_metrics(metrics: Iterable[Metric]) -> set[int]:
    """Return the keys of the metrics with a value below that of the step before. One query."""
    points = (
        MetricPoint.objects.filter(metric__in=list(metrics), value__isnull=False)
        .annotate(
            previous=Window(Lag("value"), partition_by=[F("metric")], order_by=F("step").asc())
        )
        .filter(value__lt=F("previous"))
    )
    return set(points.values_list("metric_id", flat=True))
