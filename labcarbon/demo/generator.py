"""Fills an empty installation with the demo lab, through the services that real data takes."""

from collections.abc import Callable

from django.db.models import F

from apps.accounts.models import Lab, User
from apps.core.jobs import enqueue, run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR
from apps.energy.services.ledger import settle_chunk
from apps.fleet.models import Node
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import decide
from labcarbon.demo import artifacts, hardware, measurements, runs
from labcarbon.demo.lab import DemoLab, add_node, add_rule, create
from labcarbon.demo.plan import DAYS, PEOPLE, Calendar, machines, runs_of

JOBS_PER_REPORT = 500
DELAYED_JOBS = ("assets.use", "carbon.roll_up", "energy.spread_idle")  # until changes end
SETTLED_HOURS = 2_000  # device-hours per transaction: no request waits for it
Report = Callable[[str], None]


def generate(
    *, now: int, report: Report, seed: int = 1, multiplier: int = 1, days: int = DAYS
) -> Lab:
    """Create the lab so that its last window ends at ``now`` (µs UTC). ``multiplier``: times four
    machines with their runs, cards and artifacts.
    """
    now_hour = now // US_PER_HOUR
    calendar = Calendar(now_hour, days)
    made = create(calendar)
    nodes = [(machine, add_node(made, machine)) for machine in machines(seed, calendar, multiplier)]
    run_until_idle(
        worker="demo"
    )  # those of their overhead: later they would settle each hour again
    for number, (machine, node) in enumerate(nodes, 1):
        work = runs_of(machine, seed, now_hour)
        runs.add_runs(made.people, node, machine, work, now)
        count = measurements.upload(node, machine, work, seed, now)
        report(f"machine {number} of {len(nodes)}: {machine.name}, {count} windows")
        if machine.name.startswith("gpu-01"):
            suffix = machine.name.removeprefix("gpu-01")
            artifacts.add_artifacts(made, node, work, now, suffix)
    add_rule(made)
    hardware.add_hardware(made, nodes, now)
    report("hardware and artifacts")
    for machine, node in nodes:
        while settle_chunk(node=node, limit=SETTLED_HOURS)[1]:
            pass
        report(f"ledger of {machine.name}")
    _join_jobs(made.lab)
    _run_jobs(report)
    artifacts.curate(made, nodes[0][1], now)
    _confirm_duplicates(made, now)
    _run_jobs(report)
    return made.lab


def upload_recent(*, calendar: Calendar, now: int, seed: int, multiplier: int) -> int:
    """Upload the runs and windows of a demo since its last ones, for each node that is neither
    silent nor retired. Return the number of windows.
    """
    people = {user.username: user for user in User.objects.filter(username__in=PEOPLE)}
    count = 0
    for machine in machines(seed, calendar, multiplier):
        node = Node.objects.filter(uuid=machine.uuid, retired_us__isnull=True).first()
        if node is None or machine.to_hour is not None:
            continue
        positions = measurements.positions_of(node, machine)
        since_us = min((position.end_us for position in positions.values()), default=now)
        work = [
            run
            for run in runs_of(machine, seed, now // US_PER_HOUR)
            if run.to_hour * US_PER_HOUR >= since_us
        ]
        runs.add_runs(people, node, machine, work, now)
        windows = list(measurements.windows_after(machine, work, positions, seed, now))
        count += measurements.send(node, machine, windows, seed)
    return count


def _join_jobs(lab: Lab) -> None:
    """Replace the jobs of single runs and days by those of the lab, which compute the same."""
    for kind, of_lab in (("attribution.run", "attribution.lab"), ("assets.use", "assets.use_all")):
        Job.objects.filter(kind=kind).delete()
        enqueue(kind=of_lab, key=str(lab.pk))


def _run_jobs(report: Report) -> None:
    """Run the jobs that a worker would run: ledger, rollups, duplicates, charges."""
    waiting = Job.objects.filter(done__lt=F("requested"))
    while True:
        waiting.filter(kind__in=DELAYED_JOBS).update(due_us=0)
        if not run_until_idle(worker="demo", limit=JOBS_PER_REPORT):
            return
        report(f"daily rollups and duplicates: {waiting.filter(due_us=0).count()} jobs remain")


def _confirm_duplicates(made: DemoLab, now: int) -> None:
    found = DuplicateFinding.objects.filter(lab=made.lab).order_by("pk")
    if chosen := list(found.values_list("pk", flat=True)[:2]):
        decide(
            lab=made.lab,
            finding_ids=chosen,
            state=FindingState.CONFIRMED,
            reason="",
            by=made.admin,
            is_manager=True,
            now=now,
        )
