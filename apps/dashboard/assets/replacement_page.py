"""Contents of the replacement analysis: result, inputs with sources, three scenarios over time,
and the write-off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.models import Asset
from apps.carbon.figures.energy import figure
from apps.catalog.models import HardwareModel
from apps.catalog.packs import Pack, notices
from apps.catalog.selectors import search, suggest
from apps.core.text import is_unstorable
from apps.dashboard.charts import Chart, lines
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import Projected, Quantity, quantity
from apps.dashboard.formatting import Unit, exact, format_value, significant, unit_for
from apps.replacement.inputs import Input
from apps.replacement.payback import NEEDED, Payback, Scenarios
from apps.replacement.performance import MEASURES
from apps.replacement.query import LABELS, OWN, PARAMETERS, Own, ReplacementQuery
from apps.replacement.services import (
    DISPOSED,
    IMPOSSIBLE,
    MEMORY_INPUT,
    ReplacementAnalysis,
    analyse_replacement,
)
from apps.replacement.summary_text import range_years, sentence, years

NAMES = ("Keep", "Replace now", "Replace later")
ORIGINS = {
    "yours": "yours", "measured": "measured", "catalogue": "catalogue", "lab": "lab settings",
    "assumed": "assumed",
}  # fmt: skip
SUGGESTED = 8


@dataclass(frozen=True)
class InputRow:
    """An input with the value that the visitor entered. ``value`` is '' if it is unknown."""

    param: str
    own: Own
    value: str
    range: str
    origin: str
    source: str
    licence: str
    typed: str
    needed: bool
    href: str = ""


@dataclass(frozen=True)
class Choice:
    """A model that can be chosen."""

    model: HardwareModel
    href: str


@dataclass(frozen=True)
class ScenarioRow:
    """A year in the data table of the chart."""

    year: int
    scenarios: tuple[Projected, Projected, Projected]


@dataclass(frozen=True)
class Old:
    """Embodied carbon of the old asset. A disposal today would write off ``balance``."""

    total: Projected
    charged: Projected
    balance: Projected


@dataclass(frozen=True)
class ReplacementPage:
    """The page. ``chart`` is None without a result."""

    asset: Asset
    analysis: ReplacementAnalysis
    sentence: str
    years: str
    range: str
    rows: list[InputRow]
    use: Quantity | None
    choices: list[Choice]
    search_text: str
    other_params: list[tuple[str, str]]
    measures: list[tuple[str, str]]
    chart: Chart | None
    unit: Unit
    heads: tuple[str, str, str]
    data_table: list[ScenarioRow]
    chart_summary: str
    old: Old | None
    sources: list[tuple[str, str, str]]
    days: int
    notices: list[Pack]
    csv: str
    is_disposed: bool


def replacement_page(
    *, visitor: Visitor, asset: Asset, query: ReplacementQuery, params: Mapping[str, str]
) -> ReplacementPage:
    """Return the page of an asset. The number of queries does not depend on the number of rows."""
    lab, now = visitor.lab, visitor.now
    analysis = analyse_replacement(lab=lab, asset=asset, query=query, now=now)
    other_params = [(name, params[name]) for name in PARAMETERS if params.get(name)]
    result = None if analysis.verdict == IMPOSSIBLE else analysis.result
    payback = result if isinstance(result, Payback) else None
    unit = unit_for(
        "emission_ug",
        [way.keep_ug for way in analysis.ways] + [way.replace_ug for way in analysis.ways],
    )
    heads = (
        NAMES[0],
        NAMES[1],
        f"Replace in {query.wait_years} year{'' if query.wait_years == 1 else 's'}",
    )
    chart_summary = _chart_summary(analysis.ways, heads, unit)
    search_text = params.get("q", "").strip()[:200]
    return ReplacementPage(
        asset=asset,
        analysis=analysis,
        sentence=sentence(analysis, now, visitor.zone),
        years=years(payback.years) if payback else "",
        range=range_years(payback) if payback else "",
        rows=[_row(param, own, analysis, params) for param, own in OWN.items()],
        use=quantity(analysis.use, figure(lab, analysis.use)) if analysis.use else None,
        choices=_choices(lab, asset, search_text, other_params),
        search_text=search_text,
        other_params=other_params,
        measures=[(name, MEASURES[name]) for name in analysis.measures],
        chart=_chart(analysis, heads, unit, chart_summary) if analysis.ways else None,
        unit=unit,
        heads=heads,
        data_table=[ScenarioRow(way.year, _three(way, unit)) for way in analysis.ways],
        chart_summary=chart_summary,
        old=_old(analysis),
        sources=_sources(analysis),
        notices=notices({each.pack for each in analysis.inputs.values()}),
        days=max(1, round(analysis.measured.hours / 24)) if analysis.measured else 0,
        csv=f"{reverse('asset-replacement-csv', args=[asset.pk])}?{urlencode(other_params)}",
        is_disposed=analysis.verdict == DISPOSED,
    )


def amount(ug: int, unit: Unit | None = None) -> Projected:
    """Return an amount of carbon that is not in the ledger."""
    unit = unit or unit_for("emission_ug", [ug])
    return Projected(format_value(ug, unit), unit.name, exact(ug, "emission_ug"), "", False)


def _number(value: int, own: Own) -> str:
    return significant(Decimal(value) / own.scale)


def _row(
    param: str, own: Own, analysis: ReplacementAnalysis, params: Mapping[str, str]
) -> InputRow:
    each: Input | None = analysis.inputs.get(own.field)
    typed, needed = params.get(param, "").strip()[:40], own.field in NEEDED
    if each is None:
        return InputRow(param, own, "", "", "", "", "", typed, needed)
    known = each.needed
    spread = (
        f"{_number(known.low, own)} – {_number(known.high, own)}" if known.low < known.high else ""
    )
    licence = f"{each.licence}, pack {each.pack}" if each.pack else each.licence
    href = (
        f"{reverse('explain')}?{analysis.use.to_query_string()}"
        if each.origin == "measured" and analysis.use and own.field != MEMORY_INPUT
        else each.href
    )
    return InputRow(
        param,
        own,
        _number(known.value, own),
        spread,
        ORIGINS[each.origin],
        each.source,
        licence,
        typed,
        needed,
        href,
    )


def _choices(
    lab: Lab, asset: Asset, search_text: str, other_params: list[tuple[str, str]]
) -> list[Choice]:
    """Return models that match the search text, else the newest of the asset's kind. At most
    three queries.
    """
    if search_text and not is_unstorable(search_text):
        models = suggest(asset.kind, search_text, SUGGESTED, lab)
    else:
        models = list(
            search(lab, asset.kind)
            .filter(release_year__isnull=False)
            .order_by("-release_year", "name")[:SUGGESTED]
        )
    rest = [
        (name, value)
        for name, value in other_params
        if name not in {"new", "te_kg", "new_w", "new_idle_w", "ratio", "by"}
    ]
    return [Choice(model, f"?{urlencode([('new', model.pk), *rest])}") for model in models]


def _three(way: Scenarios, unit: Unit) -> tuple[Projected, Projected, Projected]:
    return amount(way.keep_ug, unit), amount(way.replace_ug, unit), amount(way.wait_ug, unit)


def _chart(
    analysis: ReplacementAnalysis, heads: tuple[str, str, str], unit: Unit, chart_summary: str
) -> Chart:
    at = [way.year for way in analysis.ways]
    wait = analysis.query.wait_years
    columns = [[way.keep_ug for way in analysis.ways], [way.replace_ug for way in analysis.ways]]
    ways = [
        (head, at, [ug / unit.divisor for ug in column])
        for head, column in zip(heads, columns, strict=False)
    ]
    # The year of the purchase has two points: before and after it.
    before = [way.wait_ug for way in analysis.ways]
    keep_then = analysis.ways[wait].keep_ug
    later = (
        heads[2],
        [*at[:wait], wait, *at[wait:]],
        [ug / unit.divisor for ug in (*before[:wait], keep_then, *before[wait:])],
    )
    return lines(name="ways", summary=chart_summary, curves=[*ways, later], unit=unit.name)


def _chart_summary(ways: list[Scenarios], heads: tuple[str, str, str], unit: Unit) -> str:
    """Return a summary of the chart."""
    if not ways:
        return ""
    last = ways[-1]
    ends = sorted(zip((last.keep_ug, last.replace_ug, last.wait_ug), heads, strict=True))
    values_text = ", ".join(f"{head.lower()} {format_value(ug, unit)}" for ug, head in ends)
    return f"Emissions after {last.year} years in {unit.name}, lowest first: {values_text}."


def _old(analysis: ReplacementAnalysis) -> Old | None:
    account = analysis.account
    if account is None:
        return None
    unit = unit_for("emission_ug", [account.total_ug])
    return Old(
        amount(account.total_ug, unit),
        amount(account.charged_ug, unit),
        amount(account.balance_ug, unit),
    )


def _sources(analysis: ReplacementAnalysis) -> list[tuple[str, str, str]]:
    """Return (input, source, licence) of each published figure."""
    return [
        (
            LABELS[name].partition(":")[0],
            each.source,
            f"{each.licence}, pack {each.pack}" if each.pack else each.licence,
        )
        for name, each in analysis.inputs.items()
        if each.licence
    ]


def replacement_csv(analysis: ReplacementAnalysis) -> tuple[list[str], list[list[object]]]:
    """Return the three scenarios as a table: header and rows, µg CO2e."""
    header = [
        "year",
        "keep_ug_co2e",
        "replace_now_ug_co2e",
        f"replace_in_{analysis.query.wait_years}_years_ug_co2e",
    ]
    return header, [[way.year, way.keep_ug, way.replace_ug, way.wait_ug] for way in analysis.ways]
