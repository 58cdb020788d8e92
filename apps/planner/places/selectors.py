"""All places where a job could run, each with its figures, and their order."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from apps.accounts.models import Lab
from apps.carbon.greener_hours.forecast import expected_intensity
from apps.core.units import hour_of
from apps.fleet.models import Site
from apps.fleet.selectors import site_facts_of
from apps.planner.formulas.places import Fit, Release, find_greener_older
from apps.planner.formulas.ranges import Range
from apps.planner.places.candidates import (
    LabConditions,
    names_of,
    node_candidates,
    partition_candidates,
    recent_partitions,
    zones_of_nodes,
)
from apps.planner.places.cards import cards_named
from apps.planner.places.cloud import (
    MAX_INSTANCES,
    NO_REGION,
    NO_TYPE,
    billed_prices,
    chosen_regions,
    cloud_candidates,
    instance_gpu_names,
)
from apps.planner.places.conditions import electricity_prices, market_rates, zone_rates
from apps.planner.places.figures import MAX_START_HOURS, place_with_figures
from apps.planner.places.own_nodes import own_nodes
from apps.planner.places.place import CloudChoice, JobNeeds, Place, Places

WAIT_HOURS = 24  # in which the greenest start is looked for

_FITS = {Fit.FITS: 0, Fit.BORDERLINE: 1, Fit.DOES_NOT_FIT: 2}


def _likely(figure: Range | None) -> int | None:
    return None if figure is None else figure.likely


# What a column is sorted by. None, which is unknown, comes last in both directions.
_COLUMNS: dict[str, Callable[[Place], int | None]] = {
    "carbon": lambda place: _likely(place.location_ug),
    "market": lambda place: _likely(place.market_ug),
    "embodied": lambda place: _likely(place.embodied_ug),
    "energy": lambda place: _likely(place.node_energy_mj),
    "gpu_energy": lambda place: _likely(place.gpu_energy_mj),
    "time": lambda place: _likely(place.time_us),
    "cost": lambda place: _likely(place.cost_ucurrency),
    "efficiency": lambda place: _likely(place.usamples_per_joule),
    "memory": lambda place: place.card.memory_bytes,
    "free": lambda place: None if place.load is None else place.load.free,
    "year": lambda place: place.card.release_year,
    "fit": lambda place: None if place.fit is None else _FITS[place.fit],
    "start": lambda place: None if place.greenest_start is None else place.greenest_start.hour,
}
COLUMNS = ("name", *_COLUMNS)
DEFAULT_COLUMN = "carbon"


def places_for(lab: Lab, needs: JobNeeds, now: int, choice: CloudChoice | None = None) -> Places:
    """Return the places of a lab for a job, the least carbon first. The number of queries does not
    depend on the number of nodes; it grows by three with each grid zone of the nodes.
    """
    choice = choice or CloudChoice()
    hour = hour_of(now)
    nodes, nodes_without_gpu = own_nodes(lab, hour, now)
    facts = site_facts_of(lab)
    prices = billed_prices(lab, now)
    conditions = LabConditions(
        facts=facts,
        site_names=dict(Site.objects.filter(lab=lab).values_list("pk", "name")),
        rates={},
        market=market_rates(lab, now),
        prices=electricity_prices(lab, hour),
        hour=hour,
    )
    own_zones = zones_of_nodes(nodes, conditions)
    regions = chosen_regions(choice, prices, own_zones)
    conditions = replace(
        conditions,
        rates=zone_rates(lab, [*own_zones, *(region.zone for region in regions)], hour),
    )
    names = {*names_of(nodes), *instance_gpu_names(), *_reference_names(needs)}
    cards = cards_named(lab, names)
    in_cloud = cloud_candidates(regions, cards, conditions.rates, prices, needs.gpus)
    candidates = [
        *node_candidates(nodes, cards, conditions, needs.gpus),
        *partition_candidates(recent_partitions(lab, now), nodes, cards, conditions, needs.gpus),
        *in_cloud[:MAX_INSTANCES],
    ]
    last_hour = hour + WAIT_HOURS
    intensity = {
        zone: {
            each.hour: each.ug_per_kwh
            for each in expected_intensity(lab, zone, hour, last_hour + MAX_START_HOURS, now)
        }
        for zone in own_zones
    }
    places = [
        place_with_figures(
            candidate,
            needs,
            cards,
            intensity.get(candidate.place.zone, {}),
            (hour, last_hour),
        )
        for candidate in candidates
    ]
    missing = "" if in_cloud else NO_TYPE if regions else NO_REGION
    return Places(
        sort_places(_with_greener_older(places)),
        missing,
        max(0, len(in_cloud) - MAX_INSTANCES),
        nodes_without_gpu,
    )


def _reference_names(needs: JobNeeds) -> list[str]:
    return [needs.reference_card] if needs.reference_card else []


def _with_greener_older(places: Iterable[Place]) -> list[Place]:
    """Mark the places whose card is newer than that of a place with lower emissions. Cards without
    enough memory do not count.
    """
    listed = list(places)
    older = find_greener_older(
        [
            Release(
                place.key,
                place.card.release_year,
                place.location_ug.likely if place.location_ug else None,
            )
            for place in listed
            if place.fit != Fit.DOES_NOT_FIT
        ]
    )
    return [replace(place, greener_older=older.get(place.key, "")) for place in listed]


def sort_places(
    places: Iterable[Place], column: str = DEFAULT_COLUMN, *, descending: bool = False
) -> list[Place]:
    """Return the places by a column of COLUMNS, then by name. Unknown values come last."""
    ordered = sorted(places, key=lambda place: (place.name, place.where, place.key))
    if column == "name":
        return ordered[::-1] if descending else ordered
    value = _COLUMNS[column]
    known = [place for place in ordered if value(place) is not None]
    unknown = [place for place in ordered if value(place) is None]
    known.sort(key=lambda place: value(place) or 0, reverse=descending)
    return [*known, *unknown]
