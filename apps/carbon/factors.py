"""Reads of emission factors by zone, and figures of energy with other factors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from django.db.models import Exists, F, OuterRef, Q

from apps.accounts.models import Lab
from apps.carbon.factor_files import (
    COUNTRY,
    RESOLUTIONS,
    SUBREGION,
    Difference,
    FactorTable,
    FileFactor,
    Key,
    LoadedFactor,
    find_difference,
)
from apps.carbon.figures.energy import Figure, figure_of
from apps.carbon.figures.factor_spans import PeriodFactor, Span, ZoneFactors, clipped
from apps.carbon.models import EmissionFactor, HourFactor, HourlySeries
from apps.core.sql import emission_sql, facility_sql, fetch_rows
from apps.fleet.dated_facts import SiteFacts
from apps.fleet.zones import zone_chain


def factors_of_zones(
    lab: Lab, zones: Iterable[str], basis: str = ""
) -> dict[str, list[EmissionFactor]]:
    """Return {zone: its current annual and monthly factors on ``basis``, '': the lab's}. One query.

    Annual factors are those of the closest zone that has any: the zone, else its parents. So is the
    factor of each month. A lab's own factor precedes a shipped one of the same time.
    """
    chains = {zone: zone_chain(zone) for zone in zones}
    usable = EmissionFactor.objects.filter(
        Q(lab=lab) | Q(lab__isnull=True),
        basis=basis or lab.basis,
        superseded_us__isnull=True,
        ug_per_kwh__isnull=False,
        zone__in={code for chain in chains.values() for code in chain},
    )
    factors: dict[str, list[EmissionFactor]] = {}
    for factor in usable.order_by(F("lab").asc(nulls_last=True), "id"):
        factors.setdefault(factor.zone, []).append(factor)
    return {zone: _of_chain(chain, factors) for zone, chain in chains.items()}


def _of_chain(
    chain: Sequence[str], factors: Mapping[str, Sequence[EmissionFactor]]
) -> list[EmissionFactor]:
    annual: list[EmissionFactor] = []
    monthly: dict[tuple[int, int], EmissionFactor] = {}
    for zone in chain:
        of_zone = factors.get(zone, ())
        annual = annual or most_precise([factor for factor in of_zone if not factor.month])
        for factor in of_zone:
            if factor.month:
                monthly.setdefault((factor.year, factor.month), factor)
    return [*annual, *monthly.values()]


def most_precise(factors: Sequence[EmissionFactor]) -> list[EmissionFactor]:
    """Return the factors of one zone without its annual ones of a country if it has annual ones of
    a subregion.
    """
    if any(factor.resolution == SUBREGION for factor in factors):
        return [factor for factor in factors if factor.resolution != COUNTRY]
    return list(factors)


def difference_to_loaded(table: FactorTable) -> Difference:
    """Compare files of factors with the current shipped editions."""
    return find_difference(table.factors, loaded_factors(None))


def loaded_factors(lab: Lab | None) -> dict[Key, LoadedFactor]:
    """Return the current editions of years and months of a lab's own factors, None: the shipped
    ones.
    """
    rows = EmissionFactor.objects.filter(
        lab=lab, superseded_us__isnull=True, resolution__in=RESOLUTIONS
    )
    names = [field.name for field in fields(FileFactor)]
    loaded = [
        LoadedFactor(
            FileFactor(**{name: getattr(row, name) for name in names}), row.pk, row.edition
        )
        for row in rows.order_by("zone", "basis", "year", "month", "resolution")
    ]
    return {old.factor.key: old for old in loaded}


def factors_of_zone(lab: Lab, zone: str) -> list[EmissionFactor]:
    """Return the current annual and monthly factors of a zone, as :func:`factors_of_zones`."""
    return factors_of_zones(lab, [zone])[zone]


def latest_annual(lab: Lab, zone: str) -> EmissionFactor | None:
    """Return the latest current annual factor of a zone, None if it has none."""
    annual = [factor for factor in factors_of_zone(lab, zone) if not factor.month]
    return max(annual, key=lambda factor: factor.year, default=None)


def hourly_series_of(lab: Lab, zones: Iterable[str], basis: str = "") -> dict[str, int]:
    """Return {zone: id of the hourly series on ``basis`` ('': the lab's) of the zone, else of its
    closest parent}. Zones without one are left out, as is a series without hours. One query.
    """
    hours = HourFactor.objects.filter(series=OuterRef("pk"), superseded_us__isnull=True)
    of_basis = HourlySeries.objects.filter(Exists(hours), lab=lab, basis=basis or lab.basis)
    series = dict(of_basis.values_list("zone", "id"))
    if not series:
        return {}
    closest = {
        zone: next((series[code] for code in zone_chain(zone) if code in series), None)
        for zone in zones
    }
    return {zone: series_id for zone, series_id in closest.items() if series_id is not None}


def zone_factors(lab: Lab, *places: SiteFacts) -> dict[str, ZoneFactors]:
    """Return {zone: its factors} of every zone in ``places``. Two queries."""
    zones = {zone for some in places for history in some.zones.values() for _, zone in history}
    hourly = hourly_series_of(lab, zones)
    return {
        zone: ZoneFactors(
            [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors],
            hourly.get(zone),
        )
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
        (node_id, span)
        for node_id, spans in spans_of.items()
        for span in clipped(spans, from_hour, to_hour)
    ]
    factors = EmissionFactor.objects.in_bulk(
        {span.factor_id for _, span in listed if span.factor_id is not None}
    )
    values = [
        (
            node_id,
            span.from_hour,
            span.to_hour,
            span.pue_ppm,
            None if span.factor_id is None else factors[span.factor_id].ug_per_kwh,
            span.hourly_id,
        )
        for node_id, span in listed
    ]
    ug_per_kwh = "COALESCE(hf.ug_per_kwh, s.ug_per_kwh)"
    result: dict[int, Figure] = {}
    for start in range(0, len(values), 1000):  # far below the parameter limits of the databases
        part = values[start : start + 1000]
        marks = ", ".join([f"({', '.join(['CAST(%s AS bigint)'] * 6)})"] * len(part))
        rows = fetch_rows(
            "WITH s(node_id, from_hour, to_hour, pue_ppm, ug_per_kwh, hourly_id) AS "
            f"(VALUES {marks}) "
            "SELECT s.node_id, SUM(e.energy_mj) AS energy_mj, "
            f"SUM({facility_sql('e.energy_mj', 's.pue_ppm')}) AS facility_energy_mj, "
            f"SUM({emission_sql('e.energy_mj', 's.pue_ppm', ug_per_kwh)}) AS emission_ug, "
            f"SUM(CASE WHEN {ug_per_kwh} IS NULL THEN e.energy_mj ELSE 0 END) AS "
            "without_factor_mj, COUNT(*) AS entries "
            "FROM s JOIN energy_ledgerentry e ON e.node_id = s.node_id AND e.hour >= s.from_hour "
            "AND e.hour < s.to_hour LEFT JOIN carbon_hourfactor hf ON hf.series_id = s.hourly_id "
            "AND hf.hour = e.hour AND hf.superseded_us IS NULL "
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
