"""Explain: every figure's way back to its readings and factors, and the ledger behind it as CSV."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from apps.carbon.calc import FILTERS, FigureQuery, iso_hour
from apps.carbon.parsing import parse_query
from apps.carbon.selectors import entries, normal
from apps.carbon.sight import sight_of
from apps.core.errors import InvalidInput
from apps.dashboard.access import Visitor, page
from apps.dashboard.contexts.explain import explain_page
from apps.dashboard.csvs import csv_response
from apps.dashboard.periods import Period
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from labcarbon import __version__

_QUERY = ("metric", "subject", "from", "to", "accounting", "basis", "profile", *FILTERS)
_DRILL = ("hour", "device", "page")


def _asked(request: HttpRequest, visitor: Visitor, also: tuple[str, ...] = ()) -> FigureQuery:
    unknown = sorted(set(request.GET) - {*_QUERY, *also})
    if unknown:
        known = ", ".join((*_QUERY, *also))
        raise InvalidInput(f"{unknown[0][:40]!r} is not known here.", field="query", hint=f"Known: {known}.")
    query = parse_query(request.GET.dict(), basis=visitor.lab.basis)
    if query.personal:
        sight_of(visitor.lab, visitor.user).check(query)
    return query


@page()
def explain(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show where a figure comes from."""
    query = _asked(request, visitor, _DRILL)
    shown = explain_page(
        lab=visitor.lab,
        query=query,
        sight=sight_of(visitor.lab, visitor.user),
        period=Period(query.from_hour, query.to_hour, visitor.zone),
        params=request.GET.dict(),
        now=visitor.now,
        version=__version__,
    )
    return render(request, "pages/explain.html", {"page": shown})


@page()
def ledger_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download all ledger entries behind a figure."""
    query = _asked(request, visitor)

    sight = sight_of(visitor.lab, visitor.user)

    def lines() -> Iterator[tuple[Any, ...]]:
        for row in entries(visitor.lab, query):
            yield (
                iso_hour(row["hour"]), row["device"], row["device_name"], row["hostname"], sight.consumer(row["consumer"]),
                normal(row["run"], "run"), row["run_name"], row["project"],
                EnergyQuality(row["energy_quality"]).name, ShareQuality(row["share_quality"]).name,
                PlacementQuality(row["placement_quality"]).name, row["energy_mj"], row["pue_ppm"],
                row["facility_energy_mj"], row["factor_ug_per_kwh"], row["emission_ug"],
            )  # fmt: skip

    head = (
        "hour_utc", "device", "device_name", "node", "consumer", "run", "run_name", "project", "energy_quality",
        "share_quality", "placement_quality", "energy_mj", "pue_ppm", "facility_energy_mj", "factor_ug_co2e_per_kwh",
        "emission_ug_co2e",
    )  # fmt: skip
    return csv_response(f"{visitor.lab.slug}-{query.subject}-ledger", head, lines())
