"""Rows of the current figures of a period: the same figures that pages and the API return."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from apps.accounts.models import Lab
from apps.carbon.coverage import device_times, time_shares
from apps.carbon.figures.embodied import Embodied, coverage, embodied, embodied_by
from apps.carbon.figures.energy import Figure, figure, figures_by, sum_figures
from apps.carbon.figures.figure_query import ALLOCATION, HARDWARE_METRICS, FigureQuery
from apps.carbon.figures.scopes import (
    CONTROLS,
    EMBODIED,
    LEASED,
    OPERATION,
    PROFILES,
    WASTE,
    scope_of,
)
from apps.carbon.models import EmissionFactor
from apps.reports import conservation
from apps.reports.conservation import EMISSION, ENERGY, ENTRIES, FACILITY, WITHOUT_FACTOR
from apps.reports.market_rows import market_rows
from apps.reports.rows import FACTOR, LAB, NONE, Row, line, one_line

LOCATION = "location"
_PART_FIELDS = (ENERGY, FACILITY, EMISSION, ENTRIES)
_SCOPE_FIELDS = (ENERGY, FACILITY, EMISSION)
_Parts = Mapping[tuple[str, int | None, int | None], Figure]


def period_query(lab: Lab, from_hour: int, to_hour: int) -> FigureQuery:
    """Return the query of the whole lab over a period."""
    return FigureQuery(
        metric=ENERGY,
        from_hour=from_hour,
        to_hour=to_hour,
        accounting=LOCATION,
        basis=lab.basis,
        profile=lab.profile,
    )


def current_rows(lab: Lab, from_hour: int, to_hour: int, now: int) -> list[Row]:
    """Return whether a period has market-based totals, the editions of factors and the lines, as of
    now.
    """
    query = period_query(lab, from_hour, to_hour)
    parts = figures_by(lab, query, ["charge", "factor", "pue"])
    factors = EmissionFactor.objects.in_bulk(
        sorted({factor for _, factor, _ in parts if factor is not None})
    )
    editions = {pk: edition_key(factor) for pk, factor in factors.items()}
    has_market, *market = market_rows(lab, from_hour, to_hour, now)
    return [
        has_market,
        *_factor_rows(sorted(factors.values(), key=edition_key)),
        *_use_rows(lab, parts, editions),
        *_scope_rows(lab, query),
        *_hardware_rows(lab, query, now),
        *_device_time_rows(lab, query, now),
        *market,
    ]


def edition_key(factor: EmissionFactor) -> str:
    """Return the key of an edition, the same on every server with the same data."""
    owner = "shipped" if factor.lab_id is None else "lab"
    period = f"{factor.year}-{factor.month:02}" if factor.month else str(factor.year)
    return one_line(
        f"{owner}:{factor.zone}:{factor.basis}:{factor.resolution}:{period}:{factor.edition}"
    )


def _factor_rows(factors: list[EmissionFactor]) -> Iterator[Row]:
    for factor in factors:
        facts = {
            "zone": factor.zone,
            "zone_name": factor.zone_name,
            "basis": factor.basis,
            "resolution": factor.resolution,
            "year": factor.year,
            "month": factor.month or "",
            "edition": factor.edition,
            "ug_per_kwh": "" if factor.ug_per_kwh is None else factor.ug_per_kwh,
            "source": factor.source,
            "licence": factor.licence,
        }
        for metric, value in facts.items():
            if value != "":
                yield Row(FACTOR, edition_key(factor), metric, value=one_line(str(value)))


def _use_rows(lab: Lab, parts: _Parts, editions: Mapping[int, str]) -> Iterator[Row]:
    """Yield the lines of the ledger: totals of the lab and of each charged party, and the parts of
    each party by factor and PUE.
    """
    by_party: dict[str, list[tuple[str, str, Figure]]] = defaultdict(list)
    for (charge, factor, pue), part in parts.items():
        by_party[party_of(charge)].append(
            (
                NONE if factor is None else editions[factor],
                NONE if pue is None else str(pue),
                part,
            )
        )
    yield from _totals(lab, LAB, sum_figures(parts.values()) if parts else Figure())
    for party, listed in sorted(by_party.items()):
        yield from _totals(lab, party, sum_figures(part for _, _, part in listed))
        for edition, pue_ppm, part in sorted(listed, key=lambda item: item[:2]):
            for metric in _PART_FIELDS:
                yield _use_line(
                    lab, party, metric, part.value(metric), factor=edition, pue_ppm=pue_ppm
                )


def party_of(charge: str) -> str:
    """Return the subject of a charged party: a project, or ``~idle`` and such."""
    return charge if charge.startswith("~") else f"project:{charge}"


def _totals(lab: Lab, subject: str, figure: Figure) -> Iterator[Row]:
    for metric in (*_PART_FIELDS, WITHOUT_FACTOR):
        yield _use_line(lab, subject, metric, figure.value(metric))


def _use_line(lab: Lab, subject: str, metric: str, value: int, **columns: str) -> Row:
    if metric == EMISSION:
        columns |= {"accounting": LOCATION, "basis": lab.basis}
    return line(subject, metric, value, **columns)


def _scope_rows(lab: Lab, query: FigureQuery) -> Iterator[Row]:
    """Yield energy and emissions of the lab by scope, in each profile."""
    for profile in PROFILES:
        for scope in sorted({scope_of(profile, OPERATION, control) for control in CONTROLS}):
            part = figure(lab, query.replace(profile=profile, scope=scope))
            for metric in _SCOPE_FIELDS:
                yield _use_line(lab, LAB, metric, part.value(metric), profile=profile, scope=scope)


def _hardware_rows(lab: Lab, query: FigureQuery, now: int) -> Iterator[Row]:
    """Yield embodied carbon by allocation and by inventory, which are never added: of the lab, of
    each charged party, of each asset, and by scope.
    """
    known = coverage(lab, query.replace(metric=ALLOCATION), now)
    yield line(LAB, "assets", known.assets)
    yield line(LAB, "assets_known", known.known)
    for metric in HARDWARE_METRICS:
        of_metric = query.replace(metric=metric)
        parts = embodied_by(lab, of_metric, ["charge", "asset"], now)
        by_party: dict[str, int] = defaultdict(int)
        by_asset: dict[int, int] = defaultdict(int)
        for (charge, asset), part in parts.items():
            by_party[party_of(charge)] += part.embodied_ug
            by_asset[asset] += part.embodied_ug
        yield line(LAB, metric, sum(parts.values(), Embodied()).embodied_ug)
        for party, value in sorted(by_party.items()):
            yield line(party, metric, value)
        for asset, value in sorted(by_asset.items()):
            yield line(f"{conservation.ASSET}{asset}", metric, value)
        for profile in PROFILES:
            roles = (EMBODIED, WASTE, LEASED)
            for scope in sorted({scope_of(profile, role) for role in roles}):
                part = embodied(lab, of_metric.replace(profile=profile, scope=scope), now)
                yield line(LAB, metric, part.embodied_ug, profile=profile, scope=scope)


def _device_time_rows(lab: Lab, query: FigureQuery, now: int) -> Iterator[Row]:
    """Yield the device time of the lab, and the share of it with data, if any is expected."""
    shares = time_shares(device_times(lab, query.from_hour, query.to_hour, now))
    times = (shares.measured_us, shares.estimated_us, shares.unknown_us)
    names = (conservation.MEASURED, conservation.ESTIMATED, conservation.UNKNOWN)
    for name, value in zip(names, times, strict=True):
        yield line(LAB, name, value)
    ppm = conservation.coverage_ppm(*times)
    if ppm is not None:
        yield line(LAB, conservation.COVERAGE, ppm)
