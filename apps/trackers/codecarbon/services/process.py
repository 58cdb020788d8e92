"""From what CodeCarbon told to runs and energy windows. Idempotent: a message is worked on once, whatever is asked again."""

from uuid import NAMESPACE_URL, UUID, uuid5

from django.db import transaction
from django.db.models import F

from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S
from apps.energy.source_precedence import COMPONENT
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.calc import WindowIn
from apps.ingest.services import accept_declared
from apps.runs.choices import RunState, Teller
from apps.runs.models import ExternalId, Run
from apps.runs.services.runs import RunFacts, put_run
from apps.trackers.choices import Door
from apps.trackers.codecarbon.parsing import COMPONENTS, Stretch, Told, parsed, placed, read_told, same_readings
from apps.trackers.models import CodeCarbonInterval, CodeCarbonPost, CodeCarbonRun, SameMachine


def find_same_machine(interval: CodeCarbonInterval) -> int:
    """Compare an interval with those of other runs on equal hardware at the same time, and note which runs look like one
    machine measured twice; return how many matched. Called once for each interval, as it comes in."""
    told = interval.told
    if not told.signature:
        return 0
    length_us = interval.end_us - interval.start_us
    others = (
        CodeCarbonInterval.objects.filter(
            told__signature=told.signature,
            told__source__lab_id=told.source.lab_id,
            at_us__range=(interval.start_us, interval.end_us + length_us),
            start_us__lt=interval.end_us,
            end_us__gt=interval.start_us,
        )
        .exclude(told=told)
        .order_by("told_id", "start_us")
    )
    mine = _stretch(interval)
    matched = {other.told_id: other for other in others if same_readings(mine, _stretch(other))}
    for other in matched.values():
        first, again = sorted((interval, other), key=lambda row: row.told_id)
        found, _ = SameMachine.objects.get_or_create(
            first_id=first.told_id, again_id=again.told_id, defaults={"intervals": 0, "energy_mj": 0}
        )
        SameMachine.objects.filter(pk=found.pk).update(
            intervals=F("intervals") + 1, energy_mj=F("energy_mj") + again.energy_mj
        )
    return len(matched)


def _stretch(row: CodeCarbonInterval) -> Stretch:
    return Stretch(row.start_us, row.end_us, row.gpu_mj, row.cpu_mj, row.ram_mj)


TOOL = "codecarbon"
QUIET = "trackers.codecarbon_quiet"
CHUNK = 20  # messages a transaction: some tens of milliseconds on SQLite
QUIET_US = 15 * 60 * US_PER_S
_NAMES = {"gpu": "GPU", "cpu": "CPU", "ram": "Memory"}


def work_on_run(*, pk: int) -> int:
    """Work on all that was told of a run and waits; return how many messages there were."""
    total = 0
    while done := _work_chunk(pk):
        total += done
    return total


@transaction.atomic
def _work_chunk(pk: int) -> int:
    told = CodeCarbonRun.objects.select_for_update(of=("self",)).filter(pk=pk).first()
    if told is None:
        return 0
    told = CodeCarbonRun.objects.select_related(
        "source__lab", "source__node", "source__project", "source__token", "run"
    ).get(pk=pk)
    waiting = list(told.posts.filter(worked=False).order_by("id")[:CHUNK])
    for post in waiting:
        try:
            post.problem = _count(told, post)
        except InvalidInput as error:
            post.problem = error.message[:300]
        post.worked = True
        post.save(update_fields=["worked", "problem"])
    if waiting and told.run is not None:
        _heard(told, waiting)
    return len(waiting)


def _count(told: CodeCarbonRun, post: CodeCarbonPost) -> str:
    """Turn one message into energy; return why it is not counted, '' if it is. Raises InvalidInput for its content."""
    reading = _reading(told, post)
    if reading is None:
        return "The same was told before."
    at_us = reading.at_us if reading.at_us is not None else post.received_us
    if told.intervals.filter(at_us=at_us, energy_mj=reading.energy_mj).exists():
        return "The same was told before."
    near = told.intervals.filter(end_us__gt=at_us - max(reading.duration_us, US_PER_S) - QUIET_US)
    place = placed(
        reading,
        received_us=post.received_us,
        taken=list(near.values_list("start_us", "end_us")),
        live=post.door != Door.FILE,
    )
    if place is None:
        return "Another message told of the same time."
    if told.run is None and not _begin(told, place.start_us):
        return "This run is known already from another token or file."
    interval = CodeCarbonInterval.objects.create(
        told=told,
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
    problem = _store(told, interval, post, imputed=place.imputed)
    find_same_machine(interval)
    return problem


def _reading(told: CodeCarbonRun, post: CodeCarbonPost) -> Told | None:
    """Return what a message adds to what is known; None: nothing. Records of a run are cumulative."""
    reading = read_told(parsed(bytes(post.body)), client_pue_ppm=told.source.client_pue_ppm)
    if post.door == Door.EMISSION:
        return reading
    if told.posts.filter(door=Door.EMISSION).exists():
        raise InvalidInput("This run was told interval by interval: its total would count it twice.")
    earlier = told.posts.filter(worked=True, problem="").exclude(door=Door.EMISSION).order_by("-id").first()
    if earlier is None:
        return reading
    before = read_told(parsed(bytes(earlier.body)), client_pue_ppm=told.source.client_pue_ppm)
    added = reading.less(before)
    return added if added.duration_us or added.energy_mj else None


def run_uuid(told: CodeCarbonRun) -> UUID:
    """Return the UUID of our run: never one that a client could choose, as it would name another's."""
    return uuid5(NAMESPACE_URL, f"labcarbon:codecarbon:{told.source.lab_id}:{told.uuid}")


def _begin(told: CodeCarbonRun, started_us: int) -> bool:
    """Make the run; return whether it is this token's (the same id of the same tool is the same run)."""
    source = told.source
    if ExternalId.objects.filter(lab=source.lab, tool=TOOL, value=str(told.uuid)).exists():
        return False
    name = str(told.facts.get("project_name") or (source.token.name if source.token else TOOL))[:200]
    facts = RunFacts(
        name=name,
        started_us=started_us,
        project=source.project.slug,
        host=source.node.hostname if source.bound else "",
        node_uuid=source.node.uuid,
    )
    run, _ = put_run(lab=source.lab, uuid=run_uuid(told), facts=facts, by=None, bound_node=None)
    Run.objects.filter(pk=run.pk).update(teller=Teller.CODECARBON)
    ExternalId.objects.create(lab=source.lab, run=run, tool=TOOL, value=str(told.uuid))
    told.run = run
    told.save(update_fields=["run"])
    return True


def _store(told: CodeCarbonRun, interval: CodeCarbonInterval, post: CodeCarbonPost, *, imputed: bool) -> str:
    """Write an interval's windows through ingest; return why one was set aside, '' if none was."""
    source, run = told.source, told.run
    assert run is not None
    for component in COMPONENTS:
        energy_mj: int = getattr(interval, f"{component}_mj")
        if energy_mj == 0 and component == "gpu" and not told.facts.get("gpu_count"):
            continue  # no GPU is not a GPU that drew nothing
        device, _ = Device.objects.get_or_create(
            lab=source.lab,
            key=f"declared:{source.node.uuid}/cc-{told.pk}-{component}",
            defaults={
                "kind": DeviceKind.DECLARED,
                "node": source.node,
                "name": f"{_NAMES[component]}, told by CodeCarbon"[:200],
                "facts": {COMPONENT: component},
            },
        )
        window = WindowIn(
            device=device.key,
            epoch=TOOL,
            sequence=interval.pk,
            start_us=interval.start_us,
            end_us=interval.end_us,
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
            device=device,
            windows=[window],
            batch_uuid=uuid5(NAMESPACE_URL, f"labcarbon:codecarbon:{interval.pk}"),
            origin=f"CodeCarbon, run {told.uuid}, {post.get_door_display().lower()}"[:200],
            now=max(post.received_us, interval.end_us),
        )
        if answer[0] not in {"accepted", "duplicate"}:
            return f"Its {component} energy was set aside: {' '.join(answer[1:])}."
    return ""


def _heard(told: CodeCarbonRun, posts: list[CodeCarbonPost]) -> None:
    """Bring the run's start, end and state up to date with its intervals."""
    ends = told.intervals.order_by("start_us").values_list("start_us", "end_us")
    first, last = ends.first(), told.intervals.order_by("-end_us").values_list("end_us", flat=True).first()
    if first is None or last is None:
        return
    assert told.run is not None
    run = Run.objects.select_for_update(of=("self",)).get(pk=told.run.pk)
    run.started_us = min(first[0], last)
    run.seen_us = max([run.seen_us or 0, *(post.received_us for post in posts)])
    if all(post.door == Door.EMISSION for post in posts):
        run.state, run.ended_us = RunState.RUNNING, None  # it goes on; that it is over is never said
        enqueue(kind=QUIET, key=str(told.pk), due_us=run.seen_us + QUIET_US)
    else:
        run.state, run.ended_us = RunState.FINISHED, last
    run.save(update_fields=["started_us", "seen_us", "state", "ended_us"])


@transaction.atomic
def end_quiet_run(*, pk: int, now: int) -> None:
    """Take a run of which nothing was heard for three of its intervals (at least 15 minutes) for over: lost, as CodeCarbon
    never says that a run ended or how. A later word revives it."""
    told = CodeCarbonRun.objects.filter(pk=pk).first()
    run = Run.objects.select_for_update(of=("self",)).filter(codecarbon=told).first() if told else None
    if told is None or run is None or run.state != RunState.RUNNING or run.seen_us is None:
        return
    spans = list(told.intervals.order_by("-end_us").values_list("start_us", "end_us")[:3])
    patience_us = max(QUIET_US, 3 * max(end - start for start, end in spans))
    if run.seen_us + patience_us > now:
        enqueue(kind=QUIET, key=str(pk), due_us=run.seen_us + patience_us)
        return
    run.state, run.ended_us = RunState.LOST, spans[0][1]
    run.save(update_fields=["state", "ended_us"])


def end_quiet_run_now(*, pk: int) -> None:
    """Do :func:`end_quiet_run` as of now."""
    end_quiet_run(pk=pk, now=now_us())
