"""Reads of attribution: rules, claims and known properties of consumers."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.attribution.models import Attribution, AttributionRule, Claim
from apps.attribution.precedence import (
    Claimed,
    ConsumerSpan,
    PlacementSpan,
    Rule,
    Use,
    namespace_of,
    user_and_program,
)
from apps.core.units import END_HOUR
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Placement
from apps.ingest.models import Consumer
from apps.runs.models import Run

# Consumers without a user: there is nothing to attribute.
UNUSED = ("idle", "overhead")
MOST_IDS = 30_000  # SQLite accepts 32 766 parameters


def rules_of(lab: Lab) -> QuerySet[AttributionRule]:
    """Return the lab's active rules, latest start first."""
    return (
        AttributionRule.objects.filter(lab=lab, withdrawn_us__isnull=True)
        .select_related("node", "site", "project", "person", "created_by")
        .order_by("-from_hour", "-id")
    )


def as_rule(row: AttributionRule) -> Rule:
    """Return a rule for the calculation."""
    return Rule(
        id=row.pk or 0,
        from_hour=row.from_hour,
        to_hour=END_HOUR if row.to_hour is None else row.to_hour,
        node_id=row.node_id,
        site_id=row.site_id,
        os_user=row.os_user,
        cluster=row.cluster,
        account=row.account,
        namespace=row.namespace,
        path_prefix=row.path_prefix,
        project_id=row.project_id,
        person_id=row.person_id,
    )


def attributed_by_rule(
    lab: Lab, rule: AttributionRule
) -> tuple[QuerySet[Attribution], QuerySet[Run]]:
    """Return the attributions and runs that a rule can match at any time. A rule of a site: of
    all nodes.
    """
    runs = Run.objects.filter(lab=lab)
    for name in ("os_user", "cluster", "account"):
        if getattr(rule, name):
            runs = runs.filter(**{name: getattr(rule, name)})
    if rule.namespace:
        runs = runs.none()
    named = bool(rule.os_user or rule.account or rule.namespace)
    ids = _consumers_of(lab, rule, runs) if named else set()
    attributions = Attribution.objects.filter(consumer__lab=lab)
    if named and len(ids) <= MOST_IDS:
        attributions = attributions.filter(consumer_id__in=ids)
    else:  # too many ids: all are derived again
        attributions = attributions.exclude(consumer__kind__in=UNUSED)
    if rule.node_id:
        attributions, runs = (
            attributions.filter(node_id=rule.node_id),
            runs.filter(node_id=rule.node_id),
        )
    return attributions, runs


def _consumers_of(lab: Lab, rule: AttributionRule, runs: QuerySet[Run]) -> set[int]:
    """Return the ids of the consumers that a rule of a user, account or namespace can match.

    Read separately: without statistics, a database can need minutes for one joined statement.
    """
    consumers = Consumer.objects.filter(lab=lab)
    ids = set(consumers.filter(run_uuid__in=runs.values("uuid")).values_list("pk", flat=True))
    if rule.os_user and not rule.account:
        for kind in ("proc", "container"):
            ids |= set(
                consumers.filter(key__startswith=f"{kind}:{rule.os_user}/").values_list(
                    "pk", flat=True
                )
            )
    elif rule.namespace:
        pods = consumers.filter(key__startswith="pod:", key__contains=f"/{rule.namespace}/")
        ids |= set(pods.values_list("pk", flat=True))
    return ids


def live_claims(consumer_ids: Iterable[int]) -> dict[int, list[Claimed]]:
    """Return the active claims of each consumer."""
    claims: dict[int, list[Claimed]] = defaultdict(list)
    for row in Claim.objects.filter(consumer_id__in=consumer_ids, undone_us__isnull=True):
        claims[row.consumer_id].append(
            Claimed(row.pk, row.from_hour, row.to_hour, row.project_id, row.node_id)
        )
    return claims


def unattributed(
    lab: Lab, used: Collection[tuple[str, str]], from_hour: int, to_hour: int
) -> list[ConsumerSpan]:
    """Return the unattributed spans in ``[from_hour, to_hour)`` of at most MOST_IDS (consumer
    key, node UUID) pairs.
    """
    nodes = {str(uuid): pk for pk, uuid in lab.nodes.values_list("pk", "uuid")}
    keys = {key for key, _ in used}
    ids = dict(Consumer.objects.filter(lab=lab, key__in=keys).values_list("key", "pk"))
    pairs = {(ids[key], nodes[node]) for key, node in used if key in ids and node in nodes}
    rows = Attribution.objects.filter(
        consumer_id__in=ids.values(),
        project__isnull=True,
        from_hour__lt=to_hour,
        to_hour__gt=from_hour,
    ).order_by("consumer_id", "node_id", "from_hour")
    return [
        ConsumerSpan(
            row.consumer_id, row.node_id, max(row.from_hour, from_hour), min(row.to_hour, to_hour)
        )
        for row in rows
        if (row.consumer_id, row.node_id) in pairs
    ]


def placements(node_ids: Iterable[int]) -> dict[int, list[PlacementSpan]]:
    """Return the placements of each node."""
    spans: dict[int, list[PlacementSpan]] = defaultdict(list)
    histories: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in Placement.objects.filter(ACTIVE, node_id__in=node_ids):
        histories[row.node_id].append((row.from_hour, row.site_id))
    for node_id, history in histories.items():
        spans[node_id] = [
            PlacementSpan(start, END_HOUR if end is None else end, site)
            for start, end, site in dated_intervals(history)
        ]
    return spans


def uses(
    lab: Lab, pairs: Iterable[tuple[int, int]]
) -> tuple[dict[tuple[int, int], Use], dict[int, Run]]:
    """Return the properties of each (consumer id, node id), and runs by consumer id. Idle and
    overhead are left out. Two queries.
    """
    use_pairs = list(pairs)
    consumers = (
        Consumer.objects.filter(lab=lab)
        .exclude(kind__in=UNUSED)
        .in_bulk({consumer for consumer, _ in use_pairs})
    )
    uuids = {consumer.run_uuid for consumer in consumers.values() if consumer.run_uuid}
    by_uuid = (
        {run.uuid: run for run in Run.objects.filter(lab=lab, uuid__in=uuids)} if uuids else {}
    )
    runs = {
        pk: by_uuid[row.run_uuid]
        for pk, row in consumers.items()
        if row.run_uuid and row.run_uuid in by_uuid
    }
    result = {}
    for consumer_id, node_id in use_pairs:
        consumer = consumers.get(consumer_id)
        if consumer is not None:
            run = runs.get(consumer_id)
            result[consumer_id, node_id] = (
                use_of_run(run, node_id, consumer.kind) if run else _use(consumer, node_id)
            )
    return result, runs


def use_of_run(run: Run, node_id: int, kind: str = "run") -> Use:
    """Return the properties of a run."""
    return Use(
        kind=kind,
        node_id=node_id,
        os_user=run.os_user,
        cluster=run.cluster,
        account=run.account,
        command=tuple(str(word) for word in run.command),
        program=run.name[:256],
        project_id=run.project_id,
        person_id=run.user_id,
    )


def _use(consumer: Consumer, node_id: int) -> Use:
    os_user, program = user_and_program(consumer.key)
    cluster, namespace = namespace_of(consumer.key)
    command = (program,) if program else ()
    name = program or namespace or ("" if consumer.kind == "unknown" else consumer.key)
    return Use(
        consumer.kind,
        node_id,
        os_user=os_user[:100],
        cluster=cluster,
        namespace=namespace,
        command=command,
        program=name[:256],
    )
