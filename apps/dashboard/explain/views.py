"""Explanation of figures, from readings to factors, and their ledger entries as CSV."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from apps.carbon.figures.embodied import charge_rows
from apps.carbon.figures.energy import entries, normal, require_subject
from apps.carbon.figures.figure_query import (
    FILTERS,
    HARDWARE_METRICS,
    HARDWARE_OF,
    USE_METRICS,
    FigureQuery,
    iso_hour,
)
from apps.carbon.figures.query_parsing import parse_query
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.explain.combined import combined_page
from apps.dashboard.explain.embodied import embodied_page
from apps.dashboard.explain.energy import explain_page
from apps.dashboard.periods import Period
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from labcarbon import __version__

_QUERY = ("metric", "subject", "from", "to", "accounting", "basis", "profile", *FILTERS)
_DRILL = ("hour", "device", "page", "asset", "row")


def _requested_query(
    request: HttpRequest, visitor: Visitor, also: tuple[str, ...] = ()
) -> FigureQuery:
    unknown = sorted(set(request.GET) - {*_QUERY, *also})
    if unknown:
        names = ", ".join((*_QUERY, *also))
        raise InvalidInput(
            f"Unknown parameter {unknown[0][:40]!r}.", field="query", hint=f"Use {names}."
        )
    query = parse_query(
        request.GET.dict(),
        basis=visitor.lab.basis,
        profile=visitor.lab.profile,
        currency=visitor.lab.currency,
    )
    if query.personal:
        visibility_for(visitor.lab, visitor.user).check(query)
    require_subject(visitor.lab, query)
    return query


@page()
def explain(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Explain a figure."""
    query = _requested_query(request, visitor, _DRILL)
    period = Period(query.from_hour, query.to_hour, visitor.zone)
    page_args: dict[str, Any] = {
        "lab": visitor.lab,
        "query": query,
        "period": period,
        "now": visitor.now,
        "version": __version__,
    }
    if query.metric in HARDWARE_OF:
        return render(
            request, "dashboard/explain/combined.html", {"page": combined_page(**page_args)}
        )
    if query.metric in HARDWARE_METRICS:
        charged = embodied_page(params=request.GET.dict(), **page_args)
        return render(request, "dashboard/explain/embodied.html", {"page": charged})
    content = explain_page(
        visibility=visibility_for(visitor.lab, visitor.user), params=request.GET.dict(), **page_args
    )
    return render(request, "dashboard/explain/energy.html", {"page": content})


@page()
def ledger_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download all ledger entries of a figure."""
    query = _of(_requested_query(request, visitor), USE_METRICS)

    visibility = visibility_for(visitor.lab, visitor.user)

    def lines() -> Iterator[tuple[Any, ...]]:
        for row in entries(visitor.lab, query):
            yield (
                iso_hour(row["hour"]),
                row["device"],
                row["device_name"],
                row["hostname"],
                visibility.consumer(row["consumer"]),
                normal(row["run"], "run"),
                row["run_name"],
                row["project"],
                EnergyQuality(row["energy_quality"]).name,
                ShareQuality(row["share_quality"]).name,
                PlacementQuality(row["placement_quality"]).name,
                row["energy_mj"],
                row["pue_ppm"],
                row["facility_energy_mj"],
                row["factor_ug_per_kwh"],
                row["emission_ug"],
                row["price_ucurrency_per_kwh"],
                row["currency"],
                row["cost_ucurrency"],
            )

    head = (
        "hour_utc",
        "device",
        "device_name",
        "node",
        "consumer",
        "run",
        "run_name",
        "project",
        "energy_quality",
        "share_quality",
        "placement_quality",
        "energy_mj",
        "pue_ppm",
        "facility_energy_mj",
        "factor_ug_co2e_per_kwh",
        "emission_ug_co2e",
        "price_ucurrency_per_kwh",
        "currency",
        "cost_ucurrency",
    )
    return csv_response(f"{visitor.lab.slug}-{query.subject}-ledger", head, lines())


def _of(query: FigureQuery, metrics: tuple[str, ...]) -> FigureQuery:
    """Return the query if its metric is one of ``metrics``."""
    if query.metric not in metrics:
        raise InvalidInput(
            f"This table is not available for {query.metric}.",
            field="metric",
            hint=f"Use {', '.join(metrics)}.",
        )
    return query


@page()
def charges_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download all charges, or entries of the inventory, of a hardware figure."""
    query = _of(_requested_query(request, visitor), HARDWARE_METRICS)
    lines = (
        (
            row["asset_id"],
            row["asset"],
            row["asset_kind"],
            row["kind"],
            row["project"],
            iso_hour(row["from_hour"]),
            iso_hour(row["to_hour"]),
            row["amount_ug"],
            row["part_ug"],
        )
        for row in charge_rows(visitor.lab, query, visitor.now)
    )
    head = (
        "asset_id",
        "asset",
        "asset_kind",
        "kind",
        "project",
        "from_utc",
        "to_utc",
        "amount_ug_co2e",
        "in_period_ug_co2e",
    )
    return csv_response(f"{visitor.lab.slug}-{query.subject}-hardware", head, lines)
