"""Writes of carbon: load editions of factors, and derive the applied factors."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.edition_changes import find_repricing, month_figures, months_of, record_repricing
from apps.carbon.factor_files import (
    MAX_G_PER_KWH,
    BadRow,
    BadRows,
    Difference,
    FactorTable,
    FileFactor,
    parse_files,
)
from apps.carbon.factors import difference_to_loaded, first_hour_of, zone_factors
from apps.carbon.figures.factor_spans import Span, spans_by_node
from apps.carbon.hour_prices import derive_hour_prices
from apps.carbon.models import AppliedFactor, EmissionFactor
from apps.carbon.rollups.writer import mark_stale
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.intervals import HistoryEntry, changed_span, hull
from apps.core.jobs import enqueue
from apps.core.units import END_HOUR, UG_PER_G
from apps.fleet.selectors import price_histories, site_facts_of, unlisted_zones

DATA = Path(__file__).parent / "data"


def _bounded(ug_per_kwh: int, where: str) -> int:
    """Refuse a factor outside the range of grids (a factor of 0 is no factor)."""
    if not 0 < ug_per_kwh <= MAX_G_PER_KWH * UG_PER_G:
        raise InvalidInput(
            f"{Decimal(ug_per_kwh) / UG_PER_G} g/kWh is not a possible grid factor ({where}).",
            field="g_per_kwh",
            hint=f"Enter a grid factor above 0 and up to {MAX_G_PER_KWH} g CO2e per kWh.",
        )
    return ug_per_kwh


def shipped_files() -> list[Path]:
    """Return the files of annual factors that are shipped."""
    return sorted(DATA.glob("annual_*.csv"))


def read_factors(paths: Sequence[Path]) -> FactorTable:
    """Read files of annual factors. Raises BadRows with all rows that cannot be loaded."""
    files: list[tuple[str, list[str]]] = []
    unreadable: list[BadRow] = []
    for path in paths:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                files.append((path.name, list(file)))
        except OSError as error:
            unreadable.append(BadRow(path.name, 0, f"cannot be read ({error.strerror})"))
        except UnicodeDecodeError:
            unreadable.append(BadRow(path.name, 0, "is not text in UTF-8"))
    table = parse_files(files)
    if unreadable or table.bad_rows:
        raise BadRows([*unreadable, *table.bad_rows])
    return table


@transaction.atomic
def load_factors(*, now: int, path: Path | None = None) -> int:
    """Load a file of annual factors, None: all shipped ones. Return the number of new editions.

    Idempotent. A changed factor becomes a new edition and supersedes the old one.
    """
    table = read_factors(shipped_files() if path is None else [path])
    return write_difference(difference_to_loaded(table), now=now)


@transaction.atomic
def write_difference(difference: Difference, *, now: int) -> int:
    """Write the new editions of a difference. Return their number."""
    written = [new_edition(factor, 1, now) for factor in difference.new]
    written += [new_edition(factor, old.edition + 1, now) for old, factor in difference.changed]
    superseded = [old.factor_id for old, _ in difference.changed]
    EmissionFactor.objects.filter(pk__in=superseded).update(superseded_us=now)
    EmissionFactor.objects.bulk_create(written, batch_size=500)
    labs = Lab.objects.all()
    if not written:  # zones that an earlier version read otherwise
        labs = labs.filter(pk__in={found.site.lab_id for found in unlisted_zones()})
    for lab in labs:
        enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    return len(written)


def new_edition(factor: FileFactor, edition: int, now: int) -> EmissionFactor:
    """Return an edition that is not saved."""
    return EmissionFactor(**asdict(factor), edition=edition, loaded_us=now)


def check_factor(ug_per_kwh: int) -> None:
    """Raise InvalidInput for a factor outside the range of grids."""
    _bounded(ug_per_kwh, "stated by the lab")


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
    at_us = now_us() if now is None else now
    places = site_facts_of(lab)
    after = spans_by_node(
        places,
        zone_factors(lab, places),
        places.placements,
        END_HOUR,
        price_histories(lab),
        derive_hour_prices(lab, at_us),
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
            hourly_site_id=span.hourly_site_id,
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
                    row.hourly_site_id,
                )
            )
    return spans


def _after_pricing(
    lab: Lab, before: Sequence[AppliedFactor], after: Sequence[AppliedFactor]
) -> None:
    """Mark rollups stale for hours with changed prices, of nodes that used energy. Those with
    changed hour prices are already.
    """
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
