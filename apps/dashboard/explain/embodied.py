"""Explanation of a hardware figure: charges or lifecycle events, their parts, and the figures of
the catalogue.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind, EventKind
from apps.carbon.figures.combined import CombinedFigure, answer
from apps.carbon.figures.embodied import charge_rows, embodied_by, end_hour
from apps.carbon.figures.figure_query import ALLOCATION, INVENTORY, FigureQuery
from apps.catalog.packs import Pack, notices
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.explain.charge import ChargeView, SourceView, charge_view, range_of, sources_of
from apps.dashboard.explain.energy import page_number
from apps.dashboard.explain.subjects import filter_text, subject_of
from apps.dashboard.figures import (
    Quantity,
    amount_quantity,
    carbon_quantity,
    entered_quantity,
    exact_quantity,
)
from apps.dashboard.formatting import grouped
from apps.dashboard.periods import Period

PAGE_ROWS = 50
LEDGERS = {
    ALLOCATION: "amortised over use (allocation)",
    INVENTORY: "recorded at purchase (inventory)",
}
VERBS = {ALLOCATION: "hardware of", INVENTORY: "hardware purchased for"}


@dataclass(frozen=True)
class Line:
    """A charge, or an entry of the inventory, and its part in the period."""

    asset: str
    asset_href: str
    kind: str
    project: str
    from_us: int
    to_us: int
    hours: str
    amount: str
    part: str
    drill: str
    selected: bool


@dataclass(frozen=True)
class EmbodiedPage:
    """Content of the page."""

    query: FigureQuery
    period: Period
    allocation: bool
    headline: Quantity
    exact: Quantity
    subject: str
    subject_href: str
    verb: str
    ledger: str
    filters: str
    range_text: str
    known_assets: int
    assets: int
    unknown_assets: int
    other: Quantity | None
    other_ledger: str
    kinds: list[tuple[str, Quantity]]
    lines: list[Line]
    count: int
    page: int
    pages: int
    charge: ChargeView | None
    sources: list[SourceView]
    packs: list[Pack]
    citation: str


def kind_label(kind: str) -> str:
    """Return the label of a kind of charge or lifecycle event."""
    return str(ChargeKind(kind).label if kind in ChargeKind.values else EventKind(kind).label)


def _selected_row(params: Mapping[str, str], rows: list[dict[str, Any]]) -> tuple[int, str] | None:
    """Return the asset and charge to explain: those in the query, else the first row."""
    asset, row = params.get("asset", ""), params.get("row", "")
    if asset or row:
        asset_id = parse_record_number(asset)
        if asset_id is None or len(row) > 60:
            raise InvalidInput(
                "A charge needs both asset and row.", field="asset", hint="&asset=<number>&row=…"
            )
        return asset_id, row
    return (rows[0]["asset_id"], _row_key(rows[0])) if rows else None


def _row_key(row: Mapping[str, Any]) -> str:
    return f"{row['from_hour']}-{row['to_hour']}-{row['kind']}-{row['project'] or ''}"


def _line(
    row: Mapping[str, Any], query: FigureQuery, until: int, selected: tuple[int, str] | None
) -> Line:
    start, end = max(row["from_hour"], query.from_hour), min(row["to_hour"], until)
    key = (row["asset_id"], _row_key(row))
    return Line(
        asset=row["asset"],
        asset_href=reverse("asset", args=[row["asset_id"]]),
        kind=kind_label(row["kind"]),
        project=row["project"] or "",
        from_us=start * US_PER_HOUR,
        to_us=end * US_PER_HOUR,
        hours=grouped(end - start),
        amount=grouped(row["amount_ug"]),
        part=grouped(row["part_ug"]),
        drill=f"?{query.to_query_string()}&asset={key[0]}&row={key[1]}#reading",
        selected=key == selected,
    )


def embodied_page(
    *,
    lab: Lab,
    query: FigureQuery,
    period: Period,
    params: Mapping[str, str],
    now: int,
    version: str,
) -> EmbodiedPage:
    """Return the explanation of a hardware figure. The number of queries does not depend on the
    number of rows.
    """
    subject, href, _ = subject_of(lab, query)
    figure = answer(lab, query, now)
    number = page_number(params)
    rows = list(charge_rows(lab, query, now, limit=PAGE_ROWS, offset=(number - 1) * PAGE_ROWS))
    selected = _selected_row(params, rows)
    row = next((row for row in rows if (row["asset_id"], _row_key(row)) == selected), None)
    by_asset = {
        asset: part.embodied_ug
        for (asset,), part in embodied_by(lab, query, ["asset"], now).items()
    }
    by_kind = embodied_by(lab, query, ["kind"], now)
    allocation = query.metric == ALLOCATION
    other = query.replace(metric=INVENTORY if allocation else ALLOCATION, consumer="")
    until, headline = end_hour(query, now), carbon_quantity(figure)
    range_text = range_of(lab, by_asset)
    sources = sources_of(lab, {row["asset_id"] for row in rows})
    covered = figure.coverage
    assert covered is not None
    return EmbodiedPage(
        query=query,
        period=period,
        allocation=allocation,
        headline=headline,
        exact=exact_quantity(query, headline.value),
        subject=subject,
        subject_href=href,
        verb=VERBS[query.metric],
        ledger=LEDGERS[query.metric],
        filters=filter_text(query),
        range_text=range_text,
        known_assets=covered.known,
        assets=covered.assets,
        unknown_assets=covered.assets - covered.known,
        other=entered_quantity(answer(lab, other, now)),
        other_ledger=LEDGERS[other.metric],
        kinds=[
            (kind_label(kind), _of_kind(query, kind, part.embodied_ug))
            for (kind,), part in by_kind.items()
        ],
        lines=[_line(row, query, until, selected) for row in rows],
        count=figure.entries,
        page=number,
        pages=max(1, -(-figure.entries // PAGE_ROWS)),
        charge=charge_view(lab, row, query.from_hour, until)
        if row is not None and allocation
        else None,
        sources=sources,
        packs=notices({source.event.figure.pack for source in sources if source.event.figure}),
        citation=_citation(subject, query, period, figure, headline, range_text, version),
    )


def _of_kind(query: FigureQuery, kind: str, value: int) -> Quantity:
    """Return the part of one kind. Parts of the inventory have no figure query."""
    return amount_quantity(
        query.replace(consumer=kind)
        if query.metric == ALLOCATION and not query.consumer
        else query,
        value,
    )


def _citation(
    subject: str,
    query: FigureQuery,
    period: Period,
    figure: CombinedFigure,
    headline: Quantity,
    range_text: str,
    version: str,
) -> str:
    filters = f" ({filter_text(query)})" if filter_text(query) else ""
    wide = f"; range {range_text}" if range_text else ""
    covered = figure.coverage
    coverage_text = (
        f", {covered.known} of {covered.assets} assets with known embodied carbon"
        if covered
        else ""
    )
    return (
        f"{subject}{filters}, {period.label}: {headline.text} of embodied carbon, "
        f"{LEDGERS[query.metric]}{wide}{coverage_text}. "
        f"Calculated with LabCarbon {version}. Exact value: {headline.exact}."
    )
