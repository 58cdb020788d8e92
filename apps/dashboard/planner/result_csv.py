"""Rows of the result of the planner for its CSV."""

from collections.abc import Iterator

from apps.dashboard.planner.planner_page import PlannerPage

RESULT_HEAD = ("section", "name", "value", "unit", "verdict", "lesson_verdict", "lesson_cards")
Line = tuple[str, str, int | None, str, str, str, int | None]


def result_lines(page: PlannerPage) -> Iterator[Line]:
    """Yield counts, the estimate, parts of the memory, cards, and the assumptions that decide."""
    result = page.require_result()
    for fact in result.facts:
        yield "model", fact.name, fact.value, "count", "", "", None
    if page.estimate is not None:
        for row in page.estimate.rows:
            for end in ("low", "likely", "high"):
                value = None if row.range is None else getattr(row.range, end)
                yield "estimate", f"{row.key}_{end}", value, row.unit, "", "", None
    for part in result.bar.parts:
        yield "lesson_memory", part.name, part.bytes, "byte", "", "", None
    yield "lesson_memory", "total", result.lesson.total_bytes, "byte", "", "", None
    for each_part in result.refined.parts:
        for end in ("low", "likely", "high"):
            name, count = f"{each_part.key}_{end}", getattr(each_part.bytes, end)
            yield "refined_memory", name, count, "byte", "", "", None
    for end in ("low", "likely", "high"):
        count = getattr(result.refined.total, end)
        yield "refined_memory", f"total_{end}", count, "byte", "", "", None
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
