"""Writes of carbon: load editions of factors, and derive the applied factors."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.edition_changes import find_repricing, month_figures, months_of, record_repricing
from apps.carbon.factors import first_hour_of, zone_factors
from apps.carbon.figures.factor_spans import Span, spans_by_node
from apps.carbon.models import AppliedFactor, EmissionFactor
from apps.carbon.rollups.writer import mark_stale
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.intervals import HistoryEntry, changed_span, hull
from apps.core.jobs import enqueue
from apps.core.units import END_HOUR, UG_PER_G
from apps.fleet.selectors import price_histories, site_facts_of, unlisted_zones

DATA = Path(__file__).parent / "data"
HOUR_BOUNDS_G = (Decimal(0), Decimal(1500))


def _ug(grams: str) -> int | None:
    return int(Decimal(grams) * UG_PER_G) if grams else None


def _bounded(ug_per_kwh: int, where: str) -> int:
    """Refuse a factor outside the range of grids (a factor of 0 is no factor)."""
    if not HOUR_BOUNDS_G[0] < Decimal(ug_per_kwh) / UG_PER_G <= HOUR_BOUNDS_G[1]:
        raise InvalidInput(
            f"{Decimal(ug_per_kwh) / UG_PER_G} g/kWh is not a possible grid factor ({where}).",
            field="g_per_kwh",
            hint="Enter a grid factor above 0 and up to 1500 g CO2e per kWh.",
        )
    return ug_per_kwh


@transaction.atomic
def load_factors(*, now: int, path: Path = DATA / "annual_lifecycle.csv") -> int:
    """Load the shipped annual factors. Return the number of new editions. Idempotent.

    A changed factor becomes a new edition and supersedes the old one.
    """
    current = {
        (factor.zone, factor.basis, factor.resolution, factor.year): factor
        for factor in EmissionFactor.objects.filter(lab__isnull=True, superseded_us__isnull=True)
    }
    written: list[EmissionFactor] = []
    superseded: list[int] = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            ug = _ug(row["g_per_kwh"])
            if not ug:  # a factor of 0 loads as "no factor"
                continue
            key = (row["zone"], row["basis"], row["resolution"], int(row["year"]))
            old = current.get(key)
            fresh = EmissionFactor(
                zone=row["zone"],
                zone_name=row["zone_name"],
                basis=row["basis"],
                resolution=row["resolution"],
                year=int(row["year"]),
                edition=old.edition + 1 if old else 1,
                ug_per_kwh=_bounded(ug, f"{path.name}: {row['zone']} {row['year']}"),
                low_ug_per_kwh=_ug(row["low_g_per_kwh"]),
                high_ug_per_kwh=_ug(row["high_g_per_kwh"]),
                source=row["source"],
                licence=row["licence"],
                loaded_us=now,
            )
            if old and _same(old, fresh):
                continue
            if old:
                superseded.append(old.pk)
            written.append(fresh)
    EmissionFactor.objects.filter(pk__in=superseded).update(superseded_us=now)
    EmissionFactor.objects.bulk_create(written, batch_size=500)
    labs = Lab.objects.all()
    if not written:  # zones that an earlier version read otherwise
        labs = labs.filter(pk__in={found.site.lab_id for found in unlisted_zones()})
    for lab in labs:
        enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    return len(written)


def _same(a: EmissionFactor, b: EmissionFactor) -> bool:
    parts = ("ug_per_kwh", "low_ug_per_kwh", "high_ug_per_kwh", "source", "licence", "zone_name")
    return all(getattr(a, part) == getattr(b, part) for part in parts)


@transaction.atomic
def declare_factor(
    *, lab: Lab, zone: str, name: str, ug_per_kwh: int, source: str, now: int
) -> EmissionFactor:
    """Record a factor that a user declares for an activity.

    A changed factor becomes a new edition.
    """
    _bounded(ug_per_kwh, source)
    old = EmissionFactor.objects.filter(lab=lab, zone=zone, superseded_us__isnull=True).first()
    if old and old.ug_per_kwh == ug_per_kwh and old.source == source:
        return old
    if old:
        EmissionFactor.objects.filter(pk=old.pk).update(superseded_us=now)
    factor = EmissionFactor.objects.create(
        lab=lab,
        zone=zone,
        zone_name=name,
        basis=lab.basis,
        resolution="declared",
        year=1970,
        edition=old.edition + 1 if old else 1,
        ug_per_kwh=ug_per_kwh,
        source=source,
        licence="stated by the lab",
        loaded_us=now,
    )
    enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    return factor


@transaction.atomic
def apply_factors(*, lab: Lab, now: int | None = None) -> int:
    """Derive the lab's applied factors. Return the number of spans. ``now`` None: the current time.

    A new edition that changes emissions writes an audit entry with each month before and after.
    Sources are placements, zones, PUE, prices and current editions. All spans are rebuilt each time
    (thousands of rows at most), so that the result does not depend on the order of changes.
    """
    Lab.objects.select_for_update().get(pk=lab.pk)
    places = site_facts_of(lab)
    after = spans_by_node(
        places, zone_factors(lab, places), places.placements, END_HOUR, price_histories(lab)
    )
    derived = [
        AppliedFactor(
            node_id=node_id,
            basis=lab.basis,
            from_hour=span.from_hour,
            to_hour=span.to_hour,
            pue_ppm=span.pue_ppm,
            factor_id=span.factor_id,
            price_id=span.price_id,
            hourly_id=span.hourly_id,
        )
        for node_id, spans in after.items()
        for span in spans
    ]
    rows = list(AppliedFactor.objects.filter(node__lab=lab).order_by("node_id", "from_hour"))
    repricing = find_repricing(lab, _stored_spans(lab, rows), after)
    months = months_of(lab, repricing.from_hour, repricing.to_hour) if repricing else []
    figures = month_figures(lab, months)
    AppliedFactor.objects.filter(node__lab=lab).delete()
    AppliedFactor.objects.bulk_create(derived, batch_size=500)
    _after_pricing(lab, rows, derived)
    if repricing is not None:
        at_us = now_us() if now is None else now
        record_repricing(lab, repricing, figures, month_figures(lab, months), at_us)
    return len(derived)


def _stored_spans(lab: Lab, rows: Sequence[AppliedFactor]) -> dict[int, list[Span]]:
    """Return the spans of stored rows on the lab's basis, by node."""
    spans: dict[int, list[Span]] = defaultdict(list)
    for row in rows:
        if row.basis == lab.basis:
            spans[row.node_id].append(
                Span(
                    row.from_hour,
                    row.to_hour,
                    row.pue_ppm,
                    row.factor_id,
                    row.price_id,
                    row.hourly_id,
                )
            )
    return spans


def _after_pricing(
    lab: Lab, before: Sequence[AppliedFactor], after: Sequence[AppliedFactor]
) -> None:
    """Mark rollups stale for hours with changed prices, of nodes that used energy."""
    sides: list[dict[int, list[HistoryEntry]]] = []
    for rows in (before, after):
        histories: dict[int, list[HistoryEntry]] = defaultdict(list)
        for row in rows:
            histories[row.node_id].append(
                (
                    row.from_hour,
                    row.to_hour,
                    (row.basis, row.pue_ppm, row.factor_id, row.price_id, row.hourly_id),
                )
            )
        sides.append(histories)
    spans = {
        node_id: changed_span(*(side.get(node_id, []) for side in sides))
        for node_id in {*sides[0], *sides[1]}
    }
    span, first = (
        hull(spans.values()),
        first_hour_of(node_id for node_id, pair_span in spans.items() if pair_span is not None),
    )
    if span is not None and first is not None:
        mark_stale(lab=lab, what=RollupKind.USE, from_hour=max(first, span[0]), to_hour=span[1])
