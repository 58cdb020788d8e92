"""Conversion of CodeCarbon messages to runs and energy windows.

Idempotent: each message is processed once.
"""

from uuid import NAMESPACE_URL, UUID, uuid5

from django.db import transaction
from django.db.models import F, Min

from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S
from apps.energy.source_precedence import COMPONENT
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import WindowIn
from apps.runs.choices import RunState, Source
from apps.runs.models import ExternalId, Run
from apps.runs.services.runs import RunFacts, put_run
from apps.trackers.codecarbon.choices import Channel
from apps.trackers.codecarbon.models import (
    CodeCarbonInterval,
    CodeCarbonPost,
    CodeCarbonRun,
    CodeCarbonSource,
    SharedMachine,
)
from apps.trackers.codecarbon.parsing import (
    COMPONENTS,
    Interval,
    Place,
    Reading,
    covers_same_time,
    created_at_us,
    description,
    parse_json,
    parse_reading,
    place_interval,
    same_readings,
)


def detect_shared_machine(interval: CodeCarbonInterval) -> int:
    """Record runs that look like one node measured twice; return the number of matches.

    The interval is compared with simultaneous ones on equal hardware. Called once per new interval.
    """
    tracked_run = interval.tracked_run
    if not tracked_run.signature:
        return 0
    length_us = interval.end_us - interval.start_us
    others = (
        CodeCarbonInterval.objects.filter(
            tracked_run__signature=tracked_run.signature,
            tracked_run__source__lab_id=tracked_run.source.lab_id,
            at_us__range=(interval.start_us, interval.end_us + length_us),
            start_us__lt=interval.end_us,
            end_us__gt=interval.start_us,
        )
        .exclude(tracked_run=tracked_run)
        .exclude(tracked_run__run=tracked_run.run_id)  # the same client
        .order_by("tracked_run_id", "start_us")
    )
    own = _interval(interval)
    matched = {
        other.tracked_run_id: other for other in others if same_readings(own, _interval(other))
    }
    for other in matched.values():
        primary, duplicate = sorted((interval, other), key=lambda row: row.tracked_run_id)
        pair, _ = SharedMachine.objects.get_or_create(
            primary_id=primary.tracked_run_id,
            duplicate_id=duplicate.tracked_run_id,
            defaults={"intervals": 0, "energy_mj": 0},
        )
        SharedMachine.objects.filter(pk=pair.pk).update(
            intervals=F("intervals") + 1, energy_mj=F("energy_mj") + duplicate.energy_mj
        )
    return len(matched)


def _interval(row: CodeCarbonInterval) -> Interval:
    return Interval(row.start_us, row.end_us, row.gpu_mj, row.cpu_mj, row.ram_mj)


TOOL = "codecarbon"
QUIET_CHECK = "trackers.codecarbon_quiet"
CHUNK = 20  # messages per transaction: some tens of milliseconds on SQLite
QUIET_US = 15 * 60 * US_PER_S
SAME_CLIENT_US = 10 * 60 * US_PER_S
_NAMES = {"gpu": "GPU", "cpu": "CPU", "ram": "Memory"}


def process_run(*, pk: int) -> int:
    """Process the queued messages of a run; return their number."""
    total = 0
    while done := _process_chunk(pk):
        total += done
    return total


@transaction.atomic
def _process_chunk(pk: int) -> int:
    tracked_run = CodeCarbonRun.objects.select_for_update(of=("self",)).filter(pk=pk).first()
    if tracked_run is None:
        return 0
    tracked_run = CodeCarbonRun.objects.select_related(
        "source__lab", "source__node", "source__project", "source__token", "run"
    ).get(pk=pk)
    waiting = list(tracked_run.posts.filter(processed=False).order_by("id")[:CHUNK])
    for post in waiting:
        try:
            post.problem = _process_message(tracked_run, post)
        except InvalidInput as error:
            post.problem = error.message[:300]
        post.processed = True
        post.save(update_fields=["processed", "problem"])
    if waiting and tracked_run.run is not None:
        _update_run(tracked_run, waiting)
    return len(waiting)


def _process_message(tracked_run: CodeCarbonRun, post: CodeCarbonPost) -> str:
    """Convert one message to energy; return why it is rejected, or ''. Raises InvalidInput for
    invalid content.
    """
    reading = _new_reading(tracked_run, post)
    if reading is None:
        return "Duplicate of an earlier message."
    at_us = reading.at_us if reading.at_us is not None else post.received_us
    if tracked_run.intervals.filter(at_us=at_us, energy_mj=reading.energy_mj).exists():
        return "Duplicate of an earlier message."
    place = _place(tracked_run, post, reading)
    if place is None:
        return "Another message covers the same time."
    if tracked_run.run is None:
        if not _link_run(tracked_run, at_us, place):
            return "This run is known already from another token or file."
        place = _place(tracked_run, post, reading) or place
    interval = CodeCarbonInterval.objects.create(
        tracked_run=tracked_run,
        post=post,
        at_us=at_us,
        start_us=place.start_us,
        end_us=place.end_us,
        gpu_mj=reading.gpu_mj,
        cpu_mj=reading.cpu_mj,
        ram_mj=reading.ram_mj,
        energy_mj=reading.energy_mj,
        client_ug=reading.client_ug,
    )
    problem = _store(tracked_run, interval, post, imputed=place.imputed)
    detect_shared_machine(interval)
    return problem


def _place(tracked_run: CodeCarbonRun, post: CodeCarbonPost, reading: Reading) -> Place | None:
    """Return the interval of a message beside all intervals of its run, or, if that leaves nothing,
    beside those of the same id. None if that leaves nothing either.
    """
    at_us = reading.at_us if reading.at_us is not None else post.received_us
    of_run = (
        {"tracked_run__run": tracked_run.run} if tracked_run.run else {"tracked_run": tracked_run}
    )
    nearby = CodeCarbonInterval.objects.filter(
        **of_run, end_us__gt=at_us - max(reading.duration_us, US_PER_S) - QUIET_US
    ).values_list("tracked_run_id", "start_us", "end_us")

    def place_beside(occupied: list[tuple[int, int]]) -> Place | None:
        return place_interval(
            reading,
            received_us=post.received_us,
            occupied=occupied,
            is_live=post.channel != Channel.FILE,
        )

    own = place_beside([(start, end) for pk, start, end in nearby if pk == tracked_run.pk])
    return own and (place_beside([(start, end) for _, start, end in nearby]) or own)


def _new_reading(tracked_run: CodeCarbonRun, post: CodeCarbonPost) -> Reading | None:
    """Return the new part of a message, or None. Records of a run are cumulative."""
    reading = parse_reading(
        parse_json(bytes(post.body)), client_pue_ppm=tracked_run.source.client_pue_ppm
    )
    if post.channel == Channel.INTERVAL:
        return reading
    if tracked_run.posts.filter(channel=Channel.INTERVAL).exists():
        raise InvalidInput("This run already has intervals. Its total would be counted twice.")
    earlier = (
        tracked_run.posts.filter(processed=True, problem="")
        .exclude(channel=Channel.INTERVAL)
        .order_by("-id")
        .first()
    )
    if earlier is None:
        return reading
    before = parse_reading(
        parse_json(bytes(earlier.body)), client_pue_ppm=tracked_run.source.client_pue_ppm
    )
    added = reading.less(before)
    return added if added.duration_us or added.energy_mj else None


def run_uuid(tracked_run: CodeCarbonRun) -> UUID:
    """Return the UUID of the run. A client cannot set it, so it cannot refer to another run."""
    return uuid5(
        NAMESPACE_URL, f"labcarbon:codecarbon:{tracked_run.source.lab_id}:{tracked_run.uuid}"
    )


def _link_run(tracked_run: CodeCarbonRun, at_us: int, place: Place) -> bool:
    """Link the run, or create it; return whether it belongs to this token (the same external id is
    the same run).
    """
    source = tracked_run.source
    if ExternalId.objects.filter(lab=source.lab, tool=TOOL, value=str(tracked_run.uuid)).exists():
        return False
    CodeCarbonSource.objects.select_for_update().get(pk=source.pk)  # concurrent first messages
    tracked_run.run = _run_of_same_client(tracked_run, at_us, place) or _create_run(
        tracked_run, place.start_us
    )
    ExternalId.objects.create(
        lab=source.lab, run=tracked_run.run, tool=TOOL, value=str(tracked_run.uuid)
    )
    tracked_run.save(update_fields=["run"])
    return True


def _run_of_same_client(tracked_run: CodeCarbonRun, at_us: int, place: Place) -> Run | None:
    """Return the run that this client created before, or None. ``at_us``: its first interval.

    The client waits two seconds for its id, and sends each interval in a thread of its own. Until
    an answer arrives, each thread creates the run again. So two runs of one client have the same
    description, and by its clock each was created before the other had an interval. Ranks of one
    job are alike too, but their intervals cover the same time.
    """
    created_us = created_at_us(tracked_run.facts, tracked_run.received_us)
    others = (
        CodeCarbonRun.objects.select_related("run")
        .filter(
            source=tracked_run.source_id,
            run__isnull=False,
            received_us__range=(
                tracked_run.received_us - SAME_CLIENT_US,
                tracked_run.received_us + SAME_CLIENT_US,
            ),
        )
        .annotate(first_us=Min("intervals__at_us"))
        .filter(first_us__gt=created_us)
        .order_by("pk")
    )
    for other in others:
        intervals = CodeCarbonInterval.objects.filter(tracked_run__run=other.run_id)
        if (
            description(other.facts) == description(tracked_run.facts)
            and created_at_us(other.facts, other.received_us) < at_us
            and not covers_same_time(place, intervals.values_list("start_us", "end_us"))
        ):
            return other.run
    return None


def _create_run(tracked_run: CodeCarbonRun, started_us: int) -> Run:
    source = tracked_run.source
    name = str(
        tracked_run.facts.get("project_name") or (source.token.name if source.token else TOOL)
    )[:200]
    facts = RunFacts(
        name=name,
        started_us=started_us,
        project=source.project.slug,
        host=source.node.hostname if source.bound else "",
        node_uuid=source.node.uuid,
    )
    run, _ = put_run(
        lab=source.lab, uuid=run_uuid(tracked_run), facts=facts, by=None, bound_node=None
    )
    Run.objects.filter(pk=run.pk).update(reported_by=Source.CODECARBON)
    return run


def _store(
    tracked_run: CodeCarbonRun, interval: CodeCarbonInterval, post: CodeCarbonPost, *, imputed: bool
) -> str:
    """Write the windows of an interval through ingest; return why one is quarantined, or ''."""
    source, run = tracked_run.source, tracked_run.run
    assert run is not None
    for component in COMPONENTS:
        energy_mj: int = getattr(interval, f"{component}_mj")
        if energy_mj == 0 and component == "gpu" and not tracked_run.facts.get("gpu_count"):
            continue  # no GPU: unknown, not zero
        device, _ = Device.objects.get_or_create(
            lab=source.lab,
            key=f"declared:{source.node.uuid}/cc-{tracked_run.pk}-{component}",
            defaults={
                "kind": DeviceKind.DECLARED,
                "node": source.node,
                "name": f"{_NAMES[component]} (CodeCarbon)"[:200],
                "facts": {COMPONENT: component},
            },
        )
        window = WindowIn(
            device=device.key,
            epoch=TOOL,
            sequence=interval.pk,
            start_us=interval.start_us,
            end_us=interval.end_us,
            mono_start_us=0,
            mono_end_us=0,
            counter_start=None,
            counter_end=None,
            energy_mj=energy_mj,
            measurement="imported",
            flags=0,
            shares=[(f"run:{run.uuid}", energy_mj)],
            split=True,
            imputed=imputed,
        )
        [answer] = accept_declared(
            node=source.node,
            devices=[device],
            windows=[window],
            batch_uuid=uuid5(NAMESPACE_URL, f"labcarbon:codecarbon:{interval.pk}"),
            origin=f"CodeCarbon, run {tracked_run.uuid}, {post.get_channel_display().lower()}"[
                :200
            ],
            now=max(post.received_us, interval.end_us),
        )
        if answer[0] not in {"accepted", "duplicate"}:
            return f"Its {component} energy was set aside: {' '.join(answer[1:])}."
    return ""


def _update_run(tracked_run: CodeCarbonRun, posts: list[CodeCarbonPost]) -> None:
    """Update start, end and state of the run from its intervals."""
    assert tracked_run.run is not None
    intervals = CodeCarbonInterval.objects.filter(tracked_run__run=tracked_run.run)
    ends = intervals.order_by("start_us").values_list("start_us", "end_us")
    first, last = (
        ends.first(),
        intervals.order_by("-end_us").values_list("end_us", flat=True).first(),
    )
    if first is None or last is None:
        return
    run = Run.objects.select_for_update(of=("self",)).get(pk=tracked_run.run.pk)
    run.started_us = min(first[0], last)
    run.last_report_us = max([run.last_report_us or 0, *(post.received_us for post in posts)])
    if all(post.channel == Channel.INTERVAL for post in posts):
        run.state, run.ended_us = RunState.RUNNING, None  # CodeCarbon never reports an end
        enqueue(kind=QUIET_CHECK, key=str(tracked_run.pk), due_us=run.last_report_us + QUIET_US)
    else:
        run.state, run.ended_us = RunState.FINISHED, last
    run.save(update_fields=["started_us", "last_report_us", "state", "ended_us"])


@transaction.atomic
def mark_quiet_run_lost(*, pk: int, now: int) -> None:
    """Mark a run as lost after three intervals without a message (at least 15 minutes).

    CodeCarbon never reports an end. A later message recovers the run.
    """
    tracked_run = CodeCarbonRun.objects.filter(pk=pk).first()
    run = (
        Run.objects.select_for_update(of=("self",)).filter(codecarbon=tracked_run).first()
        if tracked_run
        else None
    )
    if (
        tracked_run is None
        or run is None
        or run.state != RunState.RUNNING
        or run.last_report_us is None
    ):
        return
    intervals = CodeCarbonInterval.objects.filter(tracked_run__run=run)
    spans = list(intervals.order_by("-end_us").values_list("start_us", "end_us")[:3])
    timeout_us = max(QUIET_US, 3 * max(end - start for start, end in spans))
    if run.last_report_us + timeout_us > now:
        enqueue(kind=QUIET_CHECK, key=str(pk), due_us=run.last_report_us + timeout_us)
        return
    run.state, run.ended_us = RunState.LOST, spans[0][1]
    run.save(update_fields=["state", "ended_us"])


def mark_quiet_run_lost_now(*, pk: int) -> None:
    """Call :func:`mark_quiet_run_lost` with the current time."""
    mark_quiet_run_lost(pk=pk, now=now_us())
