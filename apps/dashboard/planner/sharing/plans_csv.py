"""Rows of the plans for their CSV."""

from collections.abc import Iterator

from apps.dashboard.planner.range_cells import Bounds, RangeCell
from apps.dashboard.planner.sharing.cells import exact_range
from apps.dashboard.planner.sharing.result import PlanCard, SharingResult
from apps.planner.gpu_sharing.jobs import Range

PLANS_HEAD = ("plan", "job", "quantity", "unit", "low", "likely", "high", "text")
Line = tuple[str, str, str, str, int | None, int | None, int | None, str]


def plan_lines(result: SharingResult) -> Iterator[Line]:
    """Yield the jobs, and the figures, places and reasons of each plan."""
    yield _line(
        "card", "", "memory", "byte", exact_range(result.card.memory_bytes), result.card.name
    )
    yield _line("card", "", "idle_power", "mw", result.idle_mw)
    for row in result.rows:
        job, name = row.chosen.job, row.chosen.name
        busy = job.busy
        yield _line("alone", name, "memory", "byte", exact_range(job.memory_bytes))
        use = Range(busy.mean_ppm, busy.mean_ppm, busy.p95_ppm) if busy else None
        yield _line("alone", name, "utilization", "ppm", use)
        yield _line("alone", name, "time", "us", exact_range(job.duration_us))
        yield _line("alone", name, "energy", "mj", exact_range(job.gpu_mj))
    for left_out in result.uncounted:
        yield _line("alone", left_out.row.chosen.name, "left_out", "", None, left_out.reason.value)
    for cell in result.alone:
        yield _cell_line("alone", cell)
    for plan in result.plans:
        yield from _plan_lines(plan)


def _plan_lines(card: PlanCard) -> Iterator[Line]:
    plan = card.plan
    yield _line(card.key, "", "verdict", "", None, plan.verdict.value)
    yield _line(card.key, "", "model", "", None, f"{plan.model.name}: {plan.model.formula}")
    for cell in card.cells:
        yield _cell_line(card.key, cell)
    for each in card.places:
        name, place = each.row.chosen.name, each.place
        if place.profile:
            yield _line(card.key, name, "slice", "sm", exact_range(each.sm_count), place.profile)
        yield _line(card.key, name, "slowdown", "ppm", place.slowdown_ppm)
        yield _line(card.key, name, "time", "us", place.duration_us)
    for left_out in card.left_out:
        yield _line(card.key, left_out.row.chosen.name, "left_out", "", None, left_out.reason.value)


def _cell_line(plan: str, cell: RangeCell) -> Line:
    return _line(plan, "", cell.key, cell.unit, cell.range)


def _line(
    plan: str, job: str, quantity: str, unit: str, figure: Bounds | None, text: str = ""
) -> Line:
    if figure is None:
        return plan, job, quantity, unit, None, None, None, text
    return plan, job, quantity, unit, figure.low, figure.likely, figure.high, text
