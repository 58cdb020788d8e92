"""Own places before a job is placed there: nodes by GPU model, and cluster partitions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.core.units import US_PER_HOUR
from apps.fleet.dated_facts import SiteFacts, value_at
from apps.planner.formulas.node_energy import measured_rest_power, rest_power
from apps.planner.formulas.ranges import Range
from apps.planner.places.cards import Card
from apps.planner.places.conditions import MarketRates, Price, ZoneRate
from apps.planner.places.own_nodes import EmbodiedRate, OwnNode, Rest
from apps.planner.places.place import Load, Place, PlaceKind
from apps.runs.models import Run

PARTITION_HOURS = 30 * 24  # since its last run, a partition is listed
NO_SITE = "The node has no site."
NO_ZONE = "The site has no grid zone."
NO_FACTOR = "The grid zone has no emission factor on the lab's basis."
NO_PRICE = "The site has no electricity price."
NO_ASSET = "No asset with embodied carbon and a service life has a meter there."


@dataclass(frozen=True)
class Candidate:
    """A place, and what its figures need. None is unknown, with a sentence in ``reasons``.

    ``place``: without figures. ``most_gpus``: of one machine. ``price``: of electricity;
    ``hour_price``: of an hour of the instance.
    """

    place: Place
    most_gpus: int
    rest_mw: Range | None = None
    rate: ZoneRate | None = None
    market_ug_per_kwh: int | None = None
    embodied: tuple[EmbodiedRate, ...] = ()
    price: Price | None = None
    hour_price: Price | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabConditions:
    """What is read once for all places of a lab."""

    facts: SiteFacts
    site_names: Mapping[int, str]
    rates: Mapping[str, ZoneRate]
    market: MarketRates
    prices: Mapping[int, Price]
    hour: int

    def site_of(self, node_id: int) -> int | None:
        """Return the id of the site of a node."""
        return value_at(self.facts.placements.get(node_id, ()), self.hour)

    def zone_of(self, site_id: int | None) -> str:
        """Return the grid zone of a site, '' for none."""
        return value_at(self.facts.zones.get(site_id or 0, ()), self.hour) or ""

    def pue_of(self, site_id: int | None) -> int | None:
        """Return the PUE of a site."""
        return value_at(self.facts.pues.get(site_id or 0, ()), self.hour)


@dataclass(frozen=True)
class _Group:
    """Nodes of one place with one GPU model: GPU ids by node."""

    gpus: list[tuple[OwnNode, list[int]]]

    @property
    def number(self) -> int:
        return sum(len(ids) for _, ids in self.gpus)

    @property
    def most(self) -> int:
        return max(len(ids) for _, ids in self.gpus)

    @property
    def load(self) -> Load:
        return sum((node.loads[pk] for node, ids in self.gpus for pk in ids), Load())


def node_candidates(
    nodes: Iterable[OwnNode], cards: Mapping[str, Card], conditions: LabConditions, used: int
) -> list[Candidate]:
    """Return the lab's nodes, one place for each GPU model of a node."""
    return [
        _candidate(
            _Group([(node, ids)]),
            card,
            conditions,
            used,
            Place(
                key=f"node:{node.uuid}/{card.key}",
                kind=PlaceKind.NODE,
                name=node.name,
                where="",
                card=card,
                gpus=0,
                gpus_used=used,
                node_uuid=node.uuid,
            ),
        )
        for node in nodes
        for card, ids in _by_card(node, cards)
    ]


def _by_card(node: OwnNode, cards: Mapping[str, Card]) -> list[tuple[Card, list[int]]]:
    groups: dict[str, tuple[Card, list[int]]] = {}
    for pk, name in node.gpus.items():
        card = cards[name]
        groups.setdefault(card.key, (card, []))[1].append(pk)
    return list(groups.values())


def recent_partitions(lab: Lab, now: int) -> set[tuple[str, str, int]]:
    """Return (cluster, partition, node id) of the last 30 days' runs of schedulers. One query."""
    runs: QuerySet[Run] = Run.objects.filter(
        lab=lab,
        started_us__gte=now - PARTITION_HOURS * US_PER_HOUR,
        node__isnull=False,
    ).exclude(scheduler="")
    rows = runs.exclude(partition="").values_list("cluster", "partition", "node_id")
    return {(cluster, name, node_id or 0) for cluster, name, node_id in rows.order_by().distinct()}


def partition_candidates(
    partitions: Iterable[tuple[str, str, int]],
    nodes: Iterable[OwnNode],
    cards: Mapping[str, Card],
    conditions: LabConditions,
    used: int,
) -> list[Candidate]:
    """Return the partitions, one place for each GPU model and site of their nodes."""
    by_id = {node.pk: node for node in nodes}
    groups: dict[tuple[str, str, str, int], tuple[Card, _Group]] = {}
    for cluster, partition, node_id in sorted(partitions):
        if node_id not in by_id:
            continue
        for card, ids in _by_card(by_id[node_id], cards):
            key = (cluster, partition, card.key, conditions.site_of(node_id) or 0)
            group = groups.setdefault(key, (card, _Group([])))[1]
            group.gpus.append((by_id[node_id], ids))
    return [
        _candidate(
            group,
            card,
            conditions,
            used,
            Place(
                key=f"partition:{cluster}/{partition}/{card_key}/{site_id}",
                kind=PlaceKind.PARTITION,
                name=f"{cluster}/{partition}" if cluster else partition,
                where="",
                card=card,
                gpus=0,
                gpus_used=used,
            ),
        )
        for (cluster, partition, card_key, site_id), (card, group) in groups.items()
    ]


def _candidate(
    group: _Group, card: Card, conditions: LabConditions, used: int, place: Place
) -> Candidate:
    site_id = conditions.site_of(group.gpus[0][0].pk)
    zone = conditions.zone_of(site_id)
    rate = conditions.rates.get(zone)
    price = conditions.prices.get(site_id or 0)
    rest = _rest(group, used)
    embodied = _embodied(group, used)
    market_reason = conditions.market.reason(zone) if zone else ""
    missing_zone = NO_SITE if site_id is None else NO_ZONE if not zone else ""
    reasons = {
        "location_ug": missing_zone or ("" if rate else NO_FACTOR),
        "market_ug": missing_zone or market_reason,
        "embodied_ug": "" if embodied else NO_ASSET,
        "cost_ucurrency": NO_SITE if site_id is None else "" if price else NO_PRICE,
    }
    return Candidate(
        place=replace(
            place,
            where=conditions.site_names.get(site_id or 0, ""),
            gpus=group.number,
            load=group.load,
            zone=zone,
            pue_ppm=conditions.pue_of(site_id),
            is_rest_measured=rest is not None,
        ),
        most_gpus=group.most,
        rest_mw=rest or (rest_power(card.rated_mw, used) if card.rated_mw else None),
        rate=rate,
        market_ug_per_kwh=conditions.market.by_zone.get(zone),
        embodied=embodied,
        price=price,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )


def _rest(group: _Group, used: int) -> Range | None:
    """Return the power outside of the GPUs of a job on ``used`` of them: that of a mean node, by
    its share in the GPUs of the node.
    """
    measured = [(node.rest, len(node.gpus)) for node, _ in group.gpus if node.rest is not None]
    if not measured:
        return None
    total = Rest(
        sum(rest.energy_mj for rest, _ in measured), sum(rest.covered_us for rest, _ in measured)
    )
    gpus = sum(number for _, number in measured)
    share = min(Fraction(1), Fraction(used * len(measured), gpus))
    return measured_rest_power(total.energy_mj, total.covered_us, share)


def _embodied(group: _Group, used: int) -> tuple[EmbodiedRate, ...]:
    """Return the embodied carbon of ``used`` mean cards, and of their share in a mean machine."""
    assets = [
        node.gpu_assets[pk] for node, ids in group.gpus for pk in ids if pk in node.gpu_assets
    ]
    machines: Sequence[tuple[EmbodiedRate, int]] = [
        (node.machine, len(node.gpus)) for node, _ in group.gpus if node.machine is not None
    ]
    of_cards = [replace(rate, share=Fraction(used, len(assets))) for rate in assets]
    of_machines = [
        replace(rate, share=min(Fraction(1), Fraction(used, gpus)) / len(machines))
        for rate, gpus in machines
    ]
    return (*of_cards, *of_machines)


def names_of(nodes: Iterable[OwnNode]) -> set[str]:
    """Return the reported names of all GPUs."""
    return {name for node in nodes for name in node.gpus.values()}


def zones_of_nodes(nodes: Iterable[OwnNode], conditions: LabConditions) -> dict[str, None]:
    """Return the grid zones of nodes, in their order, each once."""
    zones = defaultdict[str, None](lambda: None)
    for node in nodes:
        if zone := conditions.zone_of(conditions.site_of(node.pk)):
            zones[zone] = None
    return dict(zones)
