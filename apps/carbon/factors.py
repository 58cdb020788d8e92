"""Reads of emission factors by zone, and figures of energy with other factors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from django.db.models import Q

from apps.accounts.models import Lab
from apps.carbon.factor_files import (
    COUNTRY,
    RESOLUTIONS,
    SUBREGION,
    AnnualFactor,
    Difference,
    FactorTable,
    LoadedFactor,
    find_difference,
)
from apps.carbon.figures.energy import Figure, figure_of
from apps.carbon.figures.factor_spans import Span, YearFactor, clipped
from apps.carbon.models import EmissionFactor
from apps.core.sql import emission_sql, facility_sql, fetch_rows
from apps.fleet.dated_facts import SiteFacts
from apps.fleet.zones import zone_chain


def factors_of_zones(lab: Lab, zones: Iterable[str]) -> dict[str, list[EmissionFactor]]:
    """Return {zone: its current factors on the lab's basis, else those of its parent zone}.

    One query.
    """
    chains = {zone: zone_chain(zone) for zone in zones}
    usable = EmissionFactor.objects.filter(
        Q(lab=lab) | Q(lab__isnull=True),
        basis=lab.basis,
        superseded_us__isnull=True,
        zone__in={code for chain in chains.values() for code in chain},
    )
    factors: dict[str, list[EmissionFactor]] = {}
    for factor in usable.order_by("id"):
        factors.setdefault(factor.zone, []).append(factor)
    return {
        zone: most_precise(next((factors[code] for code in chain if code in factors), []))
        for zone, chain in chains.items()
    }


def most_precise(factors: Sequence[EmissionFactor]) -> list[EmissionFactor]:
    """Return the factors of one zone without its annual ones of a country if it has annual ones of
    a subregion.
    """
    if any(factor.resolution == SUBREGION for factor in factors):
        return [factor for factor in factors if factor.resolution != COUNTRY]
    return list(factors)


def difference_to_loaded(table: FactorTable) -> Difference:
    """Compare files of annual factors with the current shipped editions."""
    rows = EmissionFactor.objects.filter(
        lab__isnull=True, superseded_us__isnull=True, resolution__in=RESOLUTIONS
    )
    names = [field.name for field in fields(AnnualFactor)]
    loaded = [
        LoadedFactor(
            AnnualFactor(**{name: getattr(row, name) for name in names}), row.pk, row.edition
        )
        for row in rows.order_by("zone", "basis", "year", "resolution")
    ]
    return find_difference(table.factors, {old.factor.key: old for old in loaded})


def factors_of_zone(lab: Lab, zone: str) -> list[EmissionFactor]:
    """Return the current factors of a zone on the lab's basis, else those of its parent zone."""
    return factors_of_zones(lab, [zone])[zone]


def year_factors(lab: Lab, *places: SiteFacts) -> dict[str, list[YearFactor]]:
    """Return {zone: its factors with their years} of every zone in ``places``."""
    zones = {zone for some in places for history in some.zones.values() for _, zone in history}
    return {
        zone: [YearFactor(factor.pk, factor.year) for factor in factors]
        for zone, factors in factors_of_zones(lab, zones).items()
    }


def priced_with(
    lab: Lab, spans_of: Mapping[int, Sequence[Span]], from_hour: int, to_hour: int
) -> dict[int, Figure]:
    """Return {node id: its figure over ``[from_hour, to_hour)``} as priced by ``spans_of``.

    Rounding is that of all figures. Nodes without an entry are left out. Nothing is written: pages
    preview the effect of a changed fact.
    """
    listed = [
        (node_id, span.from_hour, span.to_hour, span.pue_ppm, span.factor_id)
        for node_id, spans in spans_of.items()
        for span in clipped(spans, from_hour, to_hour)
    ]
    factors = EmissionFactor.objects.in_bulk({row[4] for row in listed if row[4] is not None})
    values = [
        (*row[:4], factors[row[4]].ug_per_kwh if row[4] is not None else None) for row in listed
    ]
    result: dict[int, Figure] = {}
    for start in range(0, len(values), 1000):  # far below the parameter limits of the databases
        part = values[start : start + 1000]
        marks = ", ".join([f"({', '.join(['CAST(%s AS bigint)'] * 5)})"] * len(part))
        rows = fetch_rows(
            f"WITH s(node_id, from_hour, to_hour, pue_ppm, ug_per_kwh) AS (VALUES {marks}) "
            "SELECT s.node_id, SUM(e.energy_mj) AS energy_mj, "
            f"SUM({facility_sql('e.energy_mj', 's.pue_ppm')}) AS facility_energy_mj, "
            f"SUM({emission_sql('e.energy_mj', 's.pue_ppm', 's.ug_per_kwh')}) AS emission_ug, "
            "SUM(CASE WHEN s.ug_per_kwh IS NULL THEN e.energy_mj ELSE 0 END) AS "
            "without_factor_mj, COUNT(*) AS entries "
            "FROM s JOIN energy_ledgerentry e ON e.node_id = s.node_id AND e.hour >= s.from_hour "
            "AND e.hour < s.to_hour "
            "WHERE e.lab_id = %s GROUP BY s.node_id",
            [*(value for row in part for value in row), lab.pk],
        )
        for row in rows:
            figure = figure_of(row)
            result[row["node_id"]] = (
                result[row["node_id"]] + figure if row["node_id"] in result else figure
            )
    return result


def first_hour_of(node_ids: Iterable[int]) -> int | None:
    """Return the first hour in which the ledger contains energy of the nodes, or None."""
    ids = sorted(node_ids)
    if not ids:
        return None
    marks = ", ".join(["%s"] * len(ids))
    rows = fetch_rows(
        f"SELECT MIN(hour) AS hour FROM energy_ledgerentry WHERE node_id IN ({marks})", ids
    )
    return next(rows)["hour"]  # type: ignore[no-any-return]


def energy_hours_of(node_ids: Iterable[int]) -> tuple[int, int] | None:
    """Return the hours ``[from, to)`` in which the ledger contains energy of the nodes, or None."""
    ids = sorted(node_ids)
    if not ids:
        return None
    marks = ", ".join(["%s"] * len(ids))
    [row] = fetch_rows(
        "SELECT MIN(hour) AS first, MAX(hour) AS last FROM energy_ledgerentry WHERE node_id IN "
        f"({marks})",
        ids,
    )
    return None if row["first"] is None else (row["first"], row["last"] + 1)
