"""Rows of the result of the planner for its CSV."""

from collections.abc import Iterator

from apps.dashboard.planner.result import Result

RESULT_HEAD = ("section", "name", "value", "unit", "verdict", "lesson_verdict", "lesson_cards")
Line = tuple[str, str, int | None, str, str, str, int | None]


def result_lines(result: Result) -> Iterator[Line]:
    """Yield counts, parts of the memory, cards, and the assumptions that decide."""
    for fact in result.facts:
        yield "model", fact.name, fact.value, "count", "", "", None
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
        for row in rows:
            name = f"{row.name}: {row.detail}"
            yield (
                section,
                name,
                row.memory_bytes,
                "byte",
                row.verdict,
                row.lesson_verdict,
                row.cards,
            )
    for each in result.assumptions:
        yield "assumption", each.key, each.total_bytes, "byte", "", "", each.cards
