"""The chart of what lies on which medium, by project."""

from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

from apps.artifacts.choices import Medium
from apps.artifacts.storage_model import Lot
from apps.dashboard.artifacts.charts import BytesOf, kept_bars
from apps.dashboard.charts import Chart
from apps.dashboard.formatting import Unit, size_unit

MOST_BARS = 8
_COLOURS = {Medium.HDD: "s1", Medium.SSD: "s2", Medium.OBJECT: "s3", Medium.TAPE: "s4", Medium.UNKNOWN: "s-off"}


def storage_chart(projects: Sequence[tuple[str, int | None]], lots: Sequence[Lot]) -> Chart:
    """Return a bar of bytes for each of the largest projects (names with numbers, the largest first), and one for the
    rest, stacked by medium; what lies on an unknown one is hatched."""
    first = dict.fromkeys(pk for _, pk in projects[:MOST_BARS])
    rest = len(projects) - len(first)
    names = [name for name, _ in projects[:MOST_BARS]] + ([f"{rest} more projects"] if rest else [])
    place = {pk: row for row, pk in enumerate(first)}
    sums: Counter[tuple[str, int]] = Counter()
    for lot in lots:
        sums[lot.medium, place.get(lot.project_id, len(place))] += lot.bytes
    unit = size_unit([sum(each for (_, row), each in sums.items() if row == wanted) for wanted in range(len(names))])
    media = [medium for medium in Medium if any(key[0] == medium for key in sums)]
    summary = f"Bytes of all copies by project, stacked by medium, {unit.name}: most of it of {names[0]}."
    return kept_bars(
        name="storage", summary=summary, kinds=names, projects=[_bar(each, sums, len(names), unit) for each in media],
        unit=unit.name,
    )  # fmt: skip


def _bar(medium: Medium, sums: Counter[tuple[str, int]], rows: int, unit: Unit) -> BytesOf:
    href = "/artifacts/?" + urlencode({"medium": medium.value})
    values = [sums[medium, row] / unit.divisor for row in range(rows)]
    return BytesOf(str(medium.label), _COLOURS[medium], href, values, is_hatched=medium == Medium.UNKNOWN)
