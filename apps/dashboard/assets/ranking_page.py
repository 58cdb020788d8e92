"""The fleet by carbon per useful hour, with the reasons for each rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from apps.accounts.models import Lab
from apps.assets.device_usage import MS_PER_HOUR
from apps.assets.models import Asset
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.ranking import Ranked, Ranking, ranking
from apps.core.units import UG_PER_G
from apps.dashboard.assets.replacement_page import amount
from apps.dashboard.figures import Projected, Quantity, quantity
from apps.dashboard.formatting import Unit, grams_per_kwh, percent, significant, unit_for
from apps.dashboard.periods import Period

MAX_ROWS = 100
HALF, DIRTIER, OLD_YEARS = Decimal("0.5"), Decimal("1.25"), 5
CSV_HEADER = (
    "asset", "name", "model", "state", "from_utc", "to_utc", "used_hours", "measured_hours",
    "use_emission_ug_co2e", "embodied_charge_ug_co2e", "ug_co2e_per_used_hour", "energy_mj",
    "idle_energy_mj", "grid_ug_per_kwh", "not_ranked_because",
)  # fmt: skip


@dataclass(frozen=True)
class RankRow:
    """A ranked asset. ``per_hour`` is '' if it was not used."""

    row: Ranked
    place: int
    per_hour: str
    hours: str
    used: str
    uses: list[Quantity]
    embodied: Projected
    idle: str
    grid: str
    reasons: list[str]


@dataclass(frozen=True)
class RankingPage:
    """The page, highest first. ``more``: rows in the CSV only. ``unknown``: assets that are not
    ranked, with reason.
    """

    period: Period
    rows: list[RankRow]
    more: int
    unknown: list[tuple[Asset, str]]
    unknown_more: int
    without_meter: int
    unit: Unit
    first: RankRow | None


def ranking_page(*, lab: Lab, period: Period) -> RankingPage:
    """Return the ranking over the whole days of ``period``.

    The number of queries does not depend on the number of assets.
    """
    result = ranking(lab=lab, from_hour=period.from_hour, to_hour=period.to_hour)
    unit = unit_for("emission_ug", [row.total_ug for row in result.ranked], column=True)
    grids = [row.ug_per_kwh for row in result.ranked if row.ug_per_kwh]
    usual = median(grids) if grids else 0
    rows = [
        _row(row, i + 1, unit, usual, result.to_hour)
        for i, row in enumerate(result.ranked[:MAX_ROWS])
    ]
    return RankingPage(
        period=Period(result.from_hour, result.to_hour, period.zone),
        rows=rows,
        more=len(result.ranked) - len(rows),
        unknown=[(row.asset, row.unknown) for row in result.unknown[:MAX_ROWS]],
        unknown_more=max(0, len(result.unknown) - MAX_ROWS),
        without_meter=result.without_meter,
        unit=unit,
        first=rows[0] if rows else None,
    )


def _row(row: Ranked, place: int, unit: Unit, usual: float, hour: int) -> RankRow:
    per_hour = row.ug_per_hour
    return RankRow(
        row=row,
        place=place,
        per_hour="" if per_hour is None else significant(Decimal(per_hour) / UG_PER_G),
        hours=significant(Decimal(row.used_ms) / MS_PER_HOUR),
        used=percent(row.used_ms, max(row.measured_ms, row.used_ms)),
        uses=[quantity(query, figure, unit) for query, figure in row.uses],
        embodied=amount(row.charged_ug or 0, unit),
        idle=percent(row.idle_mj, row.use.energy_mj) if row.use.energy_mj > 0 else "–",
        grid="–" if row.ug_per_kwh is None else grams_per_kwh(row.ug_per_kwh),
        reasons=list(_reasons(row, usual, hour)),
    )


def _reasons(row: Ranked, usual: float, hour: int) -> Iterator[str]:
    """Yield the reasons for the rank of an asset."""
    if not row.used_ms:
        yield "not used"
    elif row.use.energy_mj > 0 and row.idle_mj > HALF * row.use.energy_mj:
        yield "more than half of the energy is idle"
    if row.ug_per_kwh and row.ug_per_kwh > DIRTIER * Decimal(usual):
        yield "higher grid intensity than the other assets"
    if row.charged_ug and row.charged_ug > HALF * row.total_ug:
        yield "mostly embodied carbon"
    years = (hour - row.bought_hour) // 8_760
    if years >= OLD_YEARS:
        yield f"{years} years old"


def ranking_rows(result: Ranking) -> Iterator[list[object]]:
    """Yield the rows of the CSV: ranked assets, then the others with the reason."""
    span = [iso_hour(result.from_hour), iso_hour(result.to_hour)]
    for row in (*result.ranked, *result.unknown):
        use, model = row.use, row.asset.model
        yield [
            row.asset.pk,
            row.asset.name,
            model.name if model else "",
            row.asset.state,
            *span,
            f"{row.used_ms / MS_PER_HOUR:.3f}",
            f"{row.measured_ms / MS_PER_HOUR:.3f}",
            None if use.without_factor_mj else use.emission_ug,
            row.charged_ug,
            None if row.unknown else row.ug_per_hour,
            use.energy_mj,
            row.idle_mj,
            row.ug_per_kwh,
            row.unknown,
        ]
