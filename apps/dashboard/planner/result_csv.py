"""Rows of the result of the planner for its CSV."""

from collections.abc import Iterator

from apps.dashboard.planner.checkpoints import checkpoint_lines
from apps.dashboard.planner.planner_page import PlannerPage
from apps.dashboard.planner.result import Result
from apps.dashboard.planner.what_ifs import what_if_lines

RESULT_HEAD = ("section", "name", "value", "unit", "verdict", "lesson_verdict", "lesson_cards")
_ENDS = ("low", "likely", "high")
_CELL_UNITS = {
    "time": "us", "energy": "mj", "carbon": "ug", "market": "ug", "embodied": "ug",
    "efficiency": "usample_per_joule",
}  # fmt: skip
Line = tuple[str, str, int | None, str, str, str, int | None]


def result_lines(page: PlannerPage) -> Iterator[Line]:
    """Yield counts, the estimate, parts of the memory, cards, and the assumptions that decide."""
    result = page.result
    for fact in result.facts if result else []:
        yield "model", fact.name, fact.value, "count", "", "", None
    yield from _estimate_lines(page)
    yield from what_if_lines(page.what_ifs)
    yield from checkpoint_lines(page.checkpoints)
    yield from _place_lines(page)
    if result is None:  # without a model
        return
    yield from _memory_lines(result)
    for section, rows in (("lab", result.lab_rows), ("catalogue", result.market_rows)):
        for card in rows:
            name = f"{card.name}: {card.detail}"
            yield (
                section,
                name,
                card.memory_bytes,
                "byte",
                card.verdict,
                card.lesson_verdict,
                card.cards,
            )
    for each in result.assumptions:
        yield "assumption", each.key, each.total_bytes, "byte", "", "", each.cards


def _estimate_lines(page: PlannerPage) -> Iterator[Line]:
    for row in page.estimate.rows if page.estimate else []:
        for end in _ENDS:
            value = None if row.range is None else getattr(row.range, end)
            yield "estimate", f"{row.key}_{end}", value, row.unit, "", "", None


def _place_lines(page: PlannerPage) -> Iterator[Line]:
    for row in page.places.rows if page.places else []:
        place = row.place
        for cell in row.cells:
            unit = _CELL_UNITS.get(cell.key, "ucurrency")
            for end in _ENDS:
                name = f"{place.key}: {cell.key}_{end}"
                value = None if cell.range is None else getattr(cell.range, end)
                yield "place", name, value, unit, place.fit or "", "", None


def _memory_lines(result: Result) -> Iterator[Line]:
    for part in result.bar.parts:
        yield "lesson_memory", part.name, part.bytes, "byte", "", "", None
    yield "lesson_memory", "total", result.lesson.total_bytes, "byte", "", "", None
    for each_part in result.refined.parts:
        for end in _ENDS:
            name, count = f"{each_part.key}_{end}", getattr(each_part.bytes, end)
            yield "refined_memory", name, count, "byte", "", "", None
    for end in _ENDS:
        count = getattr(result.refined.total, end)
        yield "refined_memory", f"total_{end}", count, "byte", "", "", None
