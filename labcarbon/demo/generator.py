"""Fills an empty installation with the demo lab, through the services that real data takes."""

from collections.abc import Callable

from apps.accounts.models import Lab
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import decide
from labcarbon.demo import artifacts, hardware, measurements, runs
from labcarbon.demo.lab import DemoLab, add_node, add_rule, create
from labcarbon.demo.plan import first_hour, machines, runs_of

Report = Callable[[str], None]


def generate(*, now: int, seed: int = 1, multiplier: int = 1, report: Report) -> Lab:
    """Create the lab so that its last window ends at ``now`` (µs UTC). ``multiplier``: times four
    machines with their runs, cards and artifacts.
    """
    now_hour = now // US_PER_HOUR
    made = create(first_hour(now_hour) * US_PER_HOUR)
    planned = machines(seed, now_hour, multiplier)
    nodes = []
    for number, machine in enumerate(planned, 1):
        work = runs_of(machine, seed, now_hour)
        node = add_node(made, machine)
        runs.add_runs(made, node, machine, work, now)
        count = measurements.upload(node, machine, work, seed, now)
        nodes.append((machine, node))
        report(f"machine {number} of {len(planned)}: {machine.name}, {count} windows")
        _run_jobs()
        if machine.name.startswith("gpu-01"):
            suffix = machine.name.removeprefix("gpu-01")
            artifacts.add_artifacts(made, node, work, now, suffix)
    report("hardware and artifacts")
    add_rule(made)
    hardware.add_hardware(made, nodes, now)
    artifacts.curate(made, nodes[0][1], now)
    _run_jobs()
    _confirm_duplicates(made, now)
    report("sums of days")
    _run_jobs()
    return made.lab


def _run_jobs() -> None:
    while run_until_idle(worker="demo"):
        pass


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
