"""Derive attributions from rules, claims and placements. The only writer of attributions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.attribution import selectors
from apps.attribution.models import Attribution, AttributionRule
from apps.attribution.precedence import Rule, Span, Use, differences, spans
from apps.attribution.signals import attribution_changed
from apps.core.intervals import changed_span, hull
from apps.core.jobs import enqueue
from apps.core.sql import ATTRIBUTION, lock_exclusive, lock_shared
from apps.core.units import hour_of
from apps.ingest.models import Consumer
from apps.runs.models import Run
from apps.runs.services.ignored_params import recompute_charged_runs

Pair = tuple[int, int]  # consumer id, node id
CHUNK = 500  # pairs per transaction: some tens of milliseconds on SQLite


def attribute_new(*, lab: Lab, node_id: int, consumer_ids: Iterable[int]) -> None:
    """Derive the attributions of new consumers on a node, in the transaction that settles their
    energy.
    """
    lock_shared(ATTRIBUTION, lab.pk)
    requested_ids = set(consumer_ids)
    known = Attribution.objects.filter(node_id=node_id, consumer_id__in=requested_ids).values_list(
        "consumer_id", flat=True
    )
    missing = sorted(requested_ids - set(known))
    uses, _ = (
        selectors.uses(lab, [(consumer_id, node_id) for consumer_id in missing])
        if missing
        else ({}, {})
    )
    if uses:
        _write(_derive(uses, rules_now(lab)))


def rules_now(lab: Lab) -> list[Rule]:
    """Return the lab's rules for the calculation."""
    return [selectors.as_rule(row) for row in selectors.rules_of(lab).select_related(None)]


def derive(lab: Lab, pairs: Iterable[Pair], rules: list[Rule]) -> dict[Pair, list[Span]]:
    """Return the attribution spans of each pair under ``rules`` and active claims. A fixed
    number of queries.
    """
    return _derive(selectors.uses(lab, pairs)[0], rules)


def _derive(uses: dict[Pair, Use], rules: list[Rule]) -> dict[Pair, list[Span]]:
    claims = selectors.live_claims({consumer_id for consumer_id, _ in uses})
    placements = selectors.placements({node_id for _, node_id in uses})
    by_user = _Rules(rules)
    return {
        (consumer_id, node_id): spans(
            use,
            rules=by_user.of(use),
            claims=claims.get(consumer_id, []),
            placements=placements.get(node_id, []),
        )
        for (consumer_id, node_id), use in uses.items()
    }


@dataclass
class _Rules:
    """Rules by OS user: most rules of a lab name one user."""

    rules: list[Rule]

    def __post_init__(self) -> None:
        self._by_user: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._by_user.setdefault(rule.os_user, []).append(rule)

    def of(self, use: Use) -> list[Rule]:
        named = self._by_user.get(use.os_user, []) if use.os_user else []
        return [*self._by_user.get("", []), *named]


def _write(derived: dict[Pair, list[Span]]) -> None:
    Attribution.objects.bulk_create(
        [
            Attribution(
                consumer_id=consumer_id,
                node_id=node_id,
                from_hour=span.from_hour,
                to_hour=span.to_hour,
                project_id=span.project_id,
                person_id=span.person_id,
                way=span.way,
                rule_id=span.rule_id,
                claim_id=span.claim_id,
                os_user=span.os_user,
                program=span.program,
            )
            for (consumer_id, node_id), pair_spans in sorted(derived.items())
            for span in pair_spans
        ],
        batch_size=500,
    )


def as_span(row: Attribution) -> Span:
    """Return an attribution as a span."""
    return Span(
        row.from_hour,
        row.to_hour,
        row.project_id,
        row.person_id,
        row.way,
        row.rule_id,
        row.claim_id,
        row.os_user,
        row.program,
    )


def _as_spans(lab: Lab, pairs: list[Pair]) -> dict[Pair, list[Span]]:
    requested_pairs = set(pairs)
    stored_spans: dict[Pair, list[Span]] = {pair: [] for pair in requested_pairs}
    rows = Attribution.objects.filter(
        consumer_id__in={consumer_id for consumer_id, _ in requested_pairs}
    ).order_by("from_hour")
    for row in rows:
        if (row.consumer_id, row.node_id) in requested_pairs:
            span = as_span(row)
            stored_spans[row.consumer_id, row.node_id].append(span)
    return stored_spans


@transaction.atomic
def reattribute(*, lab: Lab, pairs: list[Pair]) -> int:
    """Derive pairs again and save the changes. Return the number of changed pairs.

    The exclusive lock waits for all ``settle`` transactions that started before a rule was saved.
    """
    lock_exclusive(ATTRIBUTION, lab.pk)
    uses, runs = selectors.uses(lab, pairs)
    derived = _derive(uses, rules_now(lab))
    stored_spans = _as_spans(lab, list(derived))
    changed = {pair: uses for pair, uses in derived.items() if stored_spans[pair] != uses}
    for pair in changed:
        Attribution.objects.filter(consumer_id=pair[0], node_id=pair[1]).delete()
    _write(changed)
    _charge_runs(runs, derived)
    if changed:  # the shares of idle energy depend on the use of projects
        enqueue(kind="energy.spread_idle", key=str(lab.pk))
        _notify_changes(lab, stored_spans, changed)
    return len(changed)


def _notify_changes(
    lab: Lab, before: dict[Pair, list[Span]], after: dict[Pair, list[Span]]
) -> None:
    """Send the signal with the consumers and hours whose charge changed."""
    span = hull(
        changed_span(_charged_history(before[pair]), _charged_history(pair_spans))
        for pair, pair_spans in after.items()
    )
    if span is not None:
        consumer_ids = {consumer_id for consumer_id, _ in after}
        attribution_changed.send(
            sender=Attribution,
            lab=lab,
            consumer_ids=consumer_ids,
            from_hour=span[0],
            to_hour=span[1],
        )


def _charged_history(spans_: list[Span]) -> list[tuple[int, int, object]]:
    return [
        (s.from_hour, s.to_hour, (s.project_id, s.person_id, s.os_user, s.program)) for s in spans_
    ]


def reattribute_lab(*, lab: Lab) -> int:
    """Derive all attributions of a lab in chunks. Return the number of changed pairs."""
    changed, last = 0, (0, 0)
    while pairs := _pairs_after(lab, last):
        changed += reattribute(lab=lab, pairs=pairs)
        last = pairs[-1]
    charge_unmeasured(lab=lab)
    return changed


def _pairs_after(lab: Lab, last: Pair) -> list[Pair]:
    later = Q(consumer_id__gt=last[0]) | Q(consumer_id=last[0], node_id__gt=last[1])
    return _pairs(Attribution.objects.filter(later, consumer__lab=lab), CHUNK)


def reattribute_rule(*, rule: AttributionRule) -> int:
    """Derive the attributions that match a rule again. Return the number of changed pairs."""
    rows, runs = selectors.attributed_by_rule(rule.lab, rule)
    pairs = _pairs(rows)
    changed = 0
    for start in range(0, len(pairs), CHUNK):
        changed += reattribute(lab=rule.lab, pairs=pairs[start : start + CHUNK])
    charge_unmeasured(lab=rule.lab, among=runs)
    return changed


@dataclass(frozen=True)
class Move:
    """A span of a consumer on a node that would be charged to another project. None:
    unattributed.
    """

    consumer_id: int
    node_id: int
    from_hour: int
    to_hour: int
    before: int | None
    after: int | None


def moves(*, lab: Lab, rules: list[AttributionRule], without: bool = False) -> list[Move]:
    """Return the changes of charge if rules were saved, or with ``without`` if they were
    removed. Writes nothing.
    """
    rule_ids = {row.pk for row in rules if row.pk is not None}
    others = [row for row in rules_now(lab) if row.id not in rule_ids]
    drafts = [
        replace(selectors.as_rule(row), id=row.pk or 2**62 + i) for i, row in enumerate(rules)
    ]
    pairs = sorted(
        {pair for row in rules for pair in _pairs(selectors.attributed_by_rule(lab, row)[0])}
    )
    moves_: list[Move] = []
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        stored_spans = _as_spans(lab, part)
        for pair, after in derive(lab, part, others if without else [*others, *drafts]).items():
            for from_hour, to_hour, project_before, project_after in differences(
                stored_spans[pair], after
            ):
                moves_.append(
                    Move(pair[0], pair[1], from_hour, to_hour, project_before, project_after)
                )
    return moves_


def _pairs(rows: QuerySet[Attribution], limit: int | None = None) -> list[Pair]:
    pairs = rows.order_by("consumer_id", "node_id").values_list("consumer_id", "node_id").distinct()
    return list(pairs[:limit] if limit else pairs)


def reattribute_run(*, lab: Lab, run: Run) -> None:
    """Derive the attribution of a new or changed run."""
    consumers = list(
        Consumer.objects.filter(lab=lab, run_uuid=run.uuid).values_list("pk", flat=True)
    )
    pairs = _pairs(Attribution.objects.filter(consumer_id__in=consumers))
    if pairs:
        reattribute(lab=lab, pairs=pairs)
    else:
        _charge_unmeasured(lab, [run])


def reattribute_consumers(*, lab: Lab, consumer_ids: Iterable[int]) -> None:
    """Derive the attributions of consumers whose claims changed."""
    pairs = _pairs(Attribution.objects.filter(consumer_id__in=set(consumer_ids)))
    for start in range(0, len(pairs), CHUNK):
        reattribute(lab=lab, pairs=pairs[start : start + CHUNK])


def _at_start(run: Run, pair_spans: list[Span]) -> Span:
    hour = max(0, hour_of(run.started_us))
    return next(
        (span for span in pair_spans if span.from_hour <= hour < span.to_hour), pair_spans[-1]
    )


def _charge_runs(runs: Mapping[int, Run], derived: dict[Pair, list[Span]]) -> None:
    """Store on runs the attribution at their start. With several nodes: that of the run's node,
    else of the first.
    """
    changed = []
    for (consumer_id, node_id), pair_spans in sorted(derived.items()):
        run = runs.get(consumer_id)
        if run is not None and (
            run.node_id in (None, node_id) or not _is_on_own_node(run, consumer_id, derived)
        ):
            changed += _charged(run, _at_start(run, pair_spans))
    _save_charges(changed)


def _save_charges(changed: list[Run]) -> None:
    with connection.cursor() as cursor:  # bulk_update would write a CASE for each row
        cursor.executemany(
            (
                "UPDATE runs_run SET charged_project_id = %s, charged_person_id = %s, charge_way "
                "= %s WHERE id = %s"
            ),
            [
                (run.charged_project_id, run.charged_person_id, run.attributed_by, run.pk)
                for run in changed
            ],
        )
    recompute_charged_runs(changed)


def _is_on_own_node(run: Run, consumer_id: int, derived: dict[Pair, list[Span]]) -> bool:
    return run.node_id is not None and (consumer_id, run.node_id) in derived


def _charged(run: Run, span: Span) -> list[Run]:
    charge = (span.project_id, span.person_id, span.way)
    if (run.charged_project_id, run.charged_person_id, run.attributed_by) == charge:
        return []
    run.charged_project_id, run.charged_person_id, run.attributed_by = charge
    return [run]


def charge_unmeasured(*, lab: Lab, among: QuerySet[Run] | None = None) -> None:
    """Store the attribution on runs without measured energy: imported history and jobs that just
    started.
    """
    measured_runs = Consumer.objects.filter(lab=lab, run_uuid__isnull=False).values("run_uuid")
    rows = Run.objects.filter(lab=lab) if among is None else among
    last = 0
    while runs := list(
        rows.filter(pk__gt=last).exclude(uuid__in=measured_runs).order_by("pk")[:CHUNK]
    ):
        _charge_unmeasured(lab, runs)
        last = runs[-1].pk


@transaction.atomic
def _charge_unmeasured(lab: Lab, runs: list[Run]) -> None:
    rules = _Rules(rules_now(lab))
    places = selectors.placements({run.node_id for run in runs if run.node_id is not None})
    changed = []
    for run in runs:
        use = selectors.use_of_run(run, run.node_id or 0)
        pair_spans = spans(
            use, rules=rules.of(use), claims=[], placements=places.get(run.node_id or 0, [])
        )
        changed += _charged(run, _at_start(run, pair_spans))
    _save_charges(changed)
