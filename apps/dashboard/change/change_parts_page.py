"""Page object of why use changed: the parts of a change between two periods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.carbon.change.parts import (
    EFFICIENCY,
    MIX,
    PARTS,
    WORK,
    sum_parts,
)
from apps.carbon.coverage import DeviceTime, time_shares
from apps.core.errors import InvalidInput
from apps.dashboard.change.change_chart import waterfall
from apps.dashboard.change.division import (
    EMISSIONS,
    ENERGY,
    Division,
    compared_periods,
    divided_change,
    notes_of,
    subject_query,
)
from apps.dashboard.change.part_texts import PART_TEXTS
from apps.dashboard.charts import Chart
from apps.dashboard.figures import Projected, Quantity, estimated, quantity, signed
from apps.dashboard.formatting import Unit, percent, unit_for
from apps.dashboard.frame.period_steps import NO_COMPARISON, compared_period
from apps.dashboard.overview.energy_use import SPECIAL
from apps.dashboard.periods import Period

_OF_ALL = ("other", "difference")  # columns of receivers without project too
METRICS = {EMISSIONS: "Emissions", ENERGY: "Energy"}


@dataclass(frozen=True)
class PartRow:
    """A part with its amount. ``width``: of its bar, in percent of half the cell."""

    key: str
    label: str
    meaning: str
    value: int
    amount: Projected
    direction: str
    width: str


@dataclass(frozen=True)
class ChargeRow:
    """A project or receiver without project: device-hours (work and mix), energy per device-hour,
    all other parts, and the difference, which is their sum. Receivers without project have no
    device-hours.
    """

    key: str
    name: str
    href: str
    values: dict[str, int]
    cells: list[tuple[int, Projected | None]]


@dataclass(frozen=True)
class PeriodFacts:
    """A period with its figure and the share of its device time with data ('–': none expected)."""

    name: str
    whole: Quantity
    coverage: str


@dataclass(frozen=True)
class ChangePartsPage:
    """Content of the page. Without ``rows``, ``reason`` says why nothing is divided. ``gap``:
    energy without a factor, for which reason energy is divided instead of emissions.
    """

    period: Period
    earlier: str
    project: Project | None
    metric: str
    reason: str
    gap: Projected | None = None
    direction: str = ""
    difference: Projected | None = None
    percent: str = ""
    cause: str = ""
    cause_amount: Projected | None = None
    facts: Sequence[PeriodFacts] = ()
    notes: Sequence[str] = ()
    unit: str = ""
    chart: Chart | None = None
    rows: Sequence[PartRow] = ()
    total: Projected | None = None
    charges: Sequence[ChargeRow] = ()
    totals: Sequence[tuple[int, Projected | None]] = ()


def requested_metric(text: str) -> str:
    """Return a metric. Raises InvalidInput for another text."""
    if text not in METRICS:
        raise InvalidInput(
            f"{text[:40]!r} is not a metric of this page.",
            field="metric",
            hint=f"Use one of {', '.join(METRICS)}.",
        )
    return text


def change_parts_page(
    *, lab: Lab, project: Project | None, period: Period, comparison: str, metric: str, now: int
) -> ChangePartsPage:
    """Return the parts of a change. The number of queries does not depend on the number of rows."""
    period = period.measured_part(now)
    earlier = compared_period(period, comparison)
    if earlier is None:
        reason = "no earlier period is chosen"
        return ChangePartsPage(period, "", project, metric, reason)
    compared = compared_periods(lab, project, earlier, period, now)
    if compared.reason:
        return ChangePartsPage(period, earlier.label, project, metric, compared.reason)
    division = divided_change(lab, compared, metric)
    query = subject_query(lab, project, period, division.metric)
    whole = sum_parts(division.parts)
    unit = unit_for(division.metric, [division.difference, *whole.values()], column=True)
    names = dict(lab.projects.values_list("slug", "name"))
    cause, cause_ug = _cause(division, names)
    gap_mj = sum(figure.without_factor_mj for figure in division.figures)
    is_gap = metric == EMISSIONS and division.metric == ENERGY
    rows = _rows(whole, division.metric, unit)
    return ChangePartsPage(
        period=period,
        earlier=earlier.label,
        project=project,
        metric=division.metric,
        reason="",
        gap=estimated(gap_mj) if is_gap else None,
        direction=_direction(division.difference),
        difference=estimated(abs(division.difference), division.metric),
        percent=_percent(division),
        cause=cause,
        cause_amount=estimated(abs(cause_ug), division.metric) if cause else None,
        facts=[
            PeriodFacts(
                part.label,
                quantity(query.replace(from_hour=part.from_hour, to_hour=part.to_hour), figure),
                _coverage_text(times),
            )
            for part, figure, times in zip(
                compared.periods, division.figures, compared.times, strict=True
            )
        ],
        notes=notes_of(compared),
        unit=unit.name,
        chart=_chart(rows, division, unit),
        rows=rows,
        total=signed(division.difference, division.metric, unit),
        charges=[] if project else _charges(division, names, period, comparison, unit),
        totals=_cells(_grouped(whole, division.difference), division.metric, unit),
    )


def change_parts_rows(
    *, lab: Lab, project: Project | None, period: Period, comparison: str, metric: str, now: int
) -> tuple[tuple[Period, Period], Division, dict[str, str]]:
    """Return the periods (earlier, later), the division and the names of projects for a file.
    Raises InvalidInput if the periods cannot be compared.
    """
    period = period.measured_part(now)
    earlier = compared_period(period, comparison)
    reason = "no earlier period is chosen" if comparison == NO_COMPARISON else ""
    if earlier is not None:
        compared = compared_periods(lab, project, earlier, period, now)
        reason = compared.reason
    if earlier is None or reason:
        raise InvalidInput(
            f"The periods cannot be compared: {reason}.",
            field="compare",
            hint="Choose another period or comparison.",
        )
    division = divided_change(lab, compared, metric)
    if division.metric != metric:
        raise InvalidInput(
            "Some energy has no emission factor, so the emissions cannot be divided.",
            field="metric",
            hint=f"Use metric={ENERGY}, or choose the grid zone of each site.",
        )
    return compared.periods, division, dict(lab.projects.values_list("slug", "name"))


def _percent(division: Division) -> str:
    """Return the size of the difference in percent of the earlier amount, '' without one."""
    before = division.figures[0].value(division.metric)
    return percent(abs(division.difference), before) if before > 0 else ""


def _coverage_text(times: Sequence[DeviceTime]) -> str:
    sums = time_shares(times)
    return percent(sums.expected_us - sums.unknown_us, sums.expected_us)


def _grouped(parts: Mapping[str, int], difference: int) -> dict[str, int]:
    hours = parts.get(WORK, 0) + parts.get(MIX, 0)
    energy = parts.get(EFFICIENCY, 0)
    return {
        "hours": hours,
        "efficiency": energy,
        "other": difference - hours - energy,
        "difference": difference,
    }


def _cells(
    values: Mapping[str, int], metric: str, unit: Unit, *, is_project: bool = True
) -> list[tuple[int, Projected | None]]:
    return [
        (value, signed(value, metric, unit) if is_project or name in _OF_ALL else None)
        for name, value in values.items()
    ]


def _charges(
    division: Division, names: Mapping[str, str], period: Period, comparison: str, unit: Unit
) -> list[ChargeRow]:
    """Return the rows by the size of their difference."""
    rows = []
    for key, parts in division.parts.items():
        difference = sum(parts.values())
        params: list[tuple[str, str]] = [("compare", comparison), ("metric", division.metric)]
        page = "change"
        if key.startswith("~"):
            page = "nodes" if key in ("~idle", "~overhead") else "unattributed"
            params = []
        else:
            params.append(("project", key))
        query = "&".join(filter(None, (period.query, urlencode(params))))
        values = _grouped(parts, difference)
        rows.append(
            ChargeRow(
                key,
                charge_name(key, names),
                f"{reverse(page)}?{query}",
                values,
                _cells(values, division.metric, unit, is_project=not key.startswith("~")),
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.values["difference"]), row.name))


def charge_name(key: str, names: Mapping[str, str]) -> str:
    """Return the name of a project or of a receiver without project."""
    return SPECIAL[key][0] if key in SPECIAL else names.get(key, key)


def _cause(division: Division, names: Mapping[str, str]) -> tuple[str, int]:
    """Return the largest part in the direction of the difference as text, such as 'less from use
    without a project', and its amount; '' without one. Work of a project contains its larger or
    smaller share.
    """
    sign = -1 if division.difference < 0 else 1
    causes: dict[tuple[str, str], int] = {}
    for charge, parts in division.parts.items():
        for part, amount in parts.items():
            if part in (WORK, MIX):
                key = WORK, charge
            elif part == EFFICIENCY:
                key = part, charge
            else:
                key = part, ""
            causes[key] = causes.get(key, 0) + amount
    largest = max(causes, key=lambda key: (causes[key] * sign, key), default=None)
    if largest is None or causes[largest] * sign <= 0:
        return "", 0
    text = PART_TEXTS[largest[0]]
    words = f"more {text.more}" if causes[largest] > 0 else f"less {text.less}"
    return words.replace("{}", charge_name(largest[1], names)), causes[largest]


def _rows(whole: Mapping[str, int], metric: str, unit: Unit) -> list[PartRow]:
    largest = max(map(abs, whole.values()), default=0)
    return [
        PartRow(
            key,
            PART_TEXTS[key].label,
            PART_TEXTS[key].meaning,
            whole[key],
            signed(whole[key], metric, unit),
            _direction(whole[key]),
            f"{100 * abs(whole[key]) / largest:.2f}",
        )
        for key in PARTS
        if key in whole
    ]


def _chart(rows: Sequence[PartRow], division: Division, unit: Unit) -> Chart | None:
    if not rows:
        return None
    amount = signed(division.difference, division.metric)
    summary = f"Parts of the difference of {amount.number} {amount.unit}: " + ", ".join(
        f"{row.label} {row.amount.number}" for row in rows
    )
    return waterfall(
        name="change-parts",
        summary=f"{summary} {unit.name}.",
        parts=[(row.label, row.value) for row in rows],
        unit=unit,
    )


def _direction(change: int) -> str:
    return "up" if change > 0 else "down" if change < 0 else "same"
