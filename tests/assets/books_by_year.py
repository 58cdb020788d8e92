"""Everything that a lab's register contributes to figures, by year: to compare before and after."""

from collections import Counter
from collections.abc import Hashable
from datetime import UTC, datetime

from apps.assets.balances import charged_by, through
from apps.assets.models import EmbodiedCharge
from apps.carbon.figures.embodied import embodied
from apps.carbon.figures.figure_query import INVENTORY, FigureQuery
from tests.builders import SmallLab

YEARS = range(2021, 2031)


def hour_of_year(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) // 3600


def books_by_year(lab: SmallLab) -> Hashable:
    """Return inventory and charges of each year by owner and reason, in µg, and all charge rows."""
    now = (hour_of_year(2030) + 8_000) * 3_600 * 1_000_000
    years = []
    for year in YEARS:
        start, end = hour_of_year(year), hour_of_year(year + 1)
        query = FigureQuery(metric=INVENTORY, from_hour=start, to_hour=min(end, through(now)))
        part = embodied(lab.lab, query, now)
        charged = charged_by(
            lab.lab, from_hour=start, to_hour=end, now=now, group_by=("project", "kind", "asset")
        )
        off = charged_by(lab.lab, from_hour=start, to_hour=end, now=now, written_off=True)
        years.append(
            (
                year,
                str(part),
                tuple(sorted(charged.items(), key=str)),
                tuple(sorted(off.items(), key=str)),
            )
        )
    rows = EmbodiedCharge.objects.filter(lab=lab.lab).values_list(
        "asset", "from_hour", "to_hour", "project", "kind", "amount_ug"
    )
    return (tuple(years), frozenset(Counter(rows).items()))
