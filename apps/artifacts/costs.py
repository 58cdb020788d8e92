"""What keeping a copy for a year and making an artifact again take and emit, location-based."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from apps.accounts.models import Lab
from apps.artifacts.calc import HOURS_A_YEAR, POWER, storage_mj
from apps.artifacts.choices import Medium, Role
from apps.artifacts.models import Copy, LineageEdge
from apps.carbon.calc import YearFactor, factor_for_year
from apps.carbon.factors import factors_of_zone
from apps.carbon.selectors import Figure, applied_factor, figures_of_runs
from apps.core.units import PPM, emission_ug, hour_of
from apps.fleet.calc import holding
from apps.fleet.models import Node
from apps.fleet.selectors import places_of
from apps.runs.models import Run

_AT_ONCE = 500


@dataclass(frozen=True)
class Rate:
    """What holds at a node now: its PUE (ppm; 1 where it stands nowhere), and its factor (None: no zone, or no factor)."""

    pue_ppm: int
    ug_per_kwh: int | None


@dataclass(frozen=True)
class Year:
    """What a year of keeping a copy takes (None: its medium is unknown) and emits (None: that, or no factor)."""

    energy_mj: int | None
    emission_ug: int | None


@dataclass(frozen=True)
class Again:
    """What the run took that made an artifact. ``emission_ug`` None: some of its energy has no factor."""

    run: Run
    energy_mj: int
    emission_ug: int | None


def rate_at(lab: Lab, node: Node, now: int) -> Rate:
    """Return what prices energy at a node at ``now``: the factor that figures of this hour use, as of the lab's basis."""
    places, hour = places_of(lab), hour_of(now)
    site = holding(places.stood.get(node.pk, ()), hour)
    pue_ppm = PPM if site is None else holding(places.pues.get(site, ()), hour) or PPM
    applied = applied_factor(node, lab.basis, hour)
    if applied is not None:
        return Rate(pue_ppm, applied.factor.ug_per_kwh if applied.factor else None)
    zone = "" if site is None else holding(places.zones.get(site, ()), hour) or ""
    return Rate(pue_ppm, _of_zone(lab, zone, hour) if zone else None)


def _of_zone(lab: Lab, zone: str, hour: int) -> int | None:
    """Return the factor (µg per kWh) of a zone where none was applied to the node yet."""
    factors = {factor.pk: factor for factor in factors_of_zone(lab, zone)}
    year = datetime.fromtimestamp(hour * 3600, tz=UTC).year
    chosen = factor_for_year([YearFactor(factor.pk, factor.year) for factor in factors.values()], year)
    return factors[chosen.factor_id].ug_per_kwh if chosen else None


def year_of(copy: Copy, rate: Rate) -> Year:
    """Return what a year of keeping a copy takes and emits: bytes × Wh per TB-hour × 8 760 × PUE × factor."""
    power = POWER.get(Medium(copy.medium))
    if power is None:
        return Year(None, None)
    energy = storage_mj(copy.artifact.bytes, HOURS_A_YEAR, power.uwh, rate.pue_ppm)
    return Year(energy, None if rate.ug_per_kwh is None else emission_ug(energy, PPM, rate.ug_per_kwh))


def making_again(lab: Lab, artifacts: Iterable[int]) -> dict[int, Again]:
    """Return what the run that made each artifact took: of several the one that took least, as one would do."""
    makers: dict[int, list[Run]] = defaultdict(list)
    listed = list(artifacts)
    for start in range(0, len(listed), _AT_ONCE):
        edges = LineageEdge.objects.filter(artifact__in=listed[start : start + _AT_ONCE], role=Role.PRODUCED)
        for edge in edges.select_related("run").order_by("pk"):
            makers[edge.artifact_id].append(edge.run)
    figures = figures_of_runs(lab, sorted({run.uuid for runs in makers.values() for run in runs}))
    found = {}
    for pk, runs in makers.items():
        measured = [run for run in runs if run.uuid in figures]
        if measured:
            least = min(measured, key=lambda run: (figures[run.uuid].energy_mj, run.pk))
            found[pk] = _again(least, figures[least.uuid])
    return found


def _again(run: Run, took: Figure) -> Again:
    return Again(run, took.energy_mj, None if took.without_factor_mj else took.emission_ug)
