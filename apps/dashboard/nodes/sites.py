"""Sites: the list, and one site with the histories of its zone, PUE and price, and its nodes now and before."""

from dataclasses import dataclass
from decimal import Decimal

from apps.accounts.models import Lab, User
from apps.carbon.factors import factors_of_zone
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.formatting import grams_per_kwh, pue
from apps.dashboard.nodes.effects import Effect
from apps.dashboard.setup.services import zone_label
from apps.fleet.calc import dated_intervals, value_at
from apps.fleet.models import ACTIVE, DatedFact, Node, Site, SitePrice
from apps.fleet.selectors import placements_at, site_facts_of, sites_of, stays_at


@dataclass(frozen=True)
class FactRow:
    """One dated fact in words. ``from_us`` None: from the beginning; ``to_us`` None: until another is recorded."""

    fact: DatedFact
    value: str
    from_us: int | None
    to_us: int | None
    note: str
    latest: bool

    @property
    def by(self) -> User | None:
        return self.fact.recorded_by


@dataclass(frozen=True)
class NodeStay:
    """A node that stands, stood or will stand at the site."""

    node: Node
    from_us: int | None
    to_us: int | None


@dataclass(frozen=True)
class SiteRow:
    """A site in the list. ``zone`` '' where nobody chose one; ``price`` '' where nobody said."""

    site: Site
    zone: str
    pue: str
    price: str
    nodes: int


@dataclass(frozen=True)
class SitePage:
    """One site. ``zone`` and ``factor`` are today's."""

    site: Site
    zone: str
    factor: str
    zones: list[FactRow]
    pues: list[FactRow]
    prices: list[FactRow]
    current_nodes: list[NodeStay]
    before: list[NodeStay]
    coming: list[NodeStay]
    offered: list[str]
    used: bool
    effect: Effect | None


def price_text(price: SitePrice) -> str:
    """Return a price as recorded: '0.31 EUR per kWh'."""
    return f"{(Decimal(price.ucurrency_per_kwh) / 1_000_000).normalize():f} {price.currency} per kWh"


def sites_page(*, lab: Lab, now: int) -> list[SiteRow]:
    """Return the lab's sites as they are now. The number of queries does not depend on the number of rows."""
    hour = hour_of(now)
    places = site_facts_of(lab)
    placements = placements_at(lab, hour)
    nodes: dict[int, int] = {}
    for placement in placements.values():
        nodes[placement.site_id] = nodes.get(placement.site_id, 0) + 1
    prices: dict[int, list[tuple[int, SitePrice]]] = {}
    for price in SitePrice.objects.filter(ACTIVE, site__lab=lab):
        prices.setdefault(price.site_id, []).append((price.from_hour, price))
    rows = []
    for site in sites_of(lab):
        pue_ppm = value_at(places.pues[site.pk], hour)
        current_price = _price_at(prices.get(site.pk, []), hour)
        rows.append(
            SiteRow(
                site,
                value_at(places.zones.get(site.pk, ()), hour) or "",
                pue(pue_ppm) if pue_ppm is not None else "",
                price_text(current_price) if current_price else "",
                nodes.get(site.pk, 0),
            )
        )
    return rows


def _price_at(history: list[tuple[int, SitePrice]], hour: int) -> SitePrice | None:
    """Return the price that holds: unlike a zone's or a PUE's, the first is not known to have held before its date."""
    started = [price for from_hour, price in sorted(history, key=lambda fact: fact[0]) if from_hour <= hour]
    return started[-1] if started else None


def _history(facts: list[DatedFact], values: dict[int, str], *, from_the_beginning: bool) -> list[FactRow]:
    """Return a history, newest first."""
    rows = []
    intervals = dated_intervals([(fact.from_hour, fact) for fact in facts])
    for i, (_, to_hour, fact) in enumerate(intervals):
        first = i == 0 and from_the_beginning
        rows.append(
            FactRow(
                fact,
                values[fact.pk],
                None if first or fact.from_hour == 0 else fact.from_hour * US_PER_HOUR,
                None if to_hour is None else to_hour * US_PER_HOUR,
                getattr(fact, "note", ""),
                i == len(intervals) - 1 and not first,
            )
        )
    return rows[::-1]


def site_page(*, lab: Lab, site: Site, zones: list[tuple[str, str]], effect: Effect | None, now: int) -> SitePage:
    """Return one site. The number of queries does not depend on the number of rows."""
    hour = hour_of(now)
    names = dict(zones)
    on_zones = list(site.zones.filter(ACTIVE).select_related("recorded_by"))
    pues = list(site.pues.filter(ACTIVE).select_related("recorded_by"))
    prices = list(site.prices.filter(ACTIVE).select_related("recorded_by"))
    zone = value_at([(fact.from_hour, fact.zone) for fact in on_zones], hour) or ""
    factors = factors_of_zone(lab, zone) if zone else []
    latest = max(factors, key=lambda factor: factor.year, default=None)
    stays = [
        (stay, NodeStay(stay.placement.node, stay.from_hour * US_PER_HOUR or None, _us(stay.to_hour)))
        for stay in stays_at(site)
    ]
    return SitePage(
        site=site,
        zone=zone_label(zone, names.get(zone, zone)) if zone else "",
        factor=f"{latest.zone_name} {latest.year}: {grams_per_kwh(latest.ug_per_kwh)} g/kWh, {latest.source}"
        if latest
        else "",
        zones=_history(
            [*on_zones],
            {fact.pk: zone_label(fact.zone, names.get(fact.zone, fact.zone)) for fact in on_zones},
            from_the_beginning=True,
        ),
        pues=_history([*pues], {fact.pk: pue(fact.pue_ppm) for fact in pues}, from_the_beginning=True),
        prices=_history([*prices], {fact.pk: price_text(fact) for fact in prices}, from_the_beginning=False),
        current_nodes=[
            row for stay, row in stays if stay.from_hour <= hour and (stay.to_hour is None or stay.to_hour > hour)
        ],
        before=[row for stay, row in stays if stay.to_hour is not None and stay.to_hour <= hour],
        coming=[row for stay, row in stays if stay.from_hour > hour],
        offered=[zone_label(code, name) for code, name in zones],
        used=bool(stays),
        effect=effect,
    )


def _us(hour: int | None) -> int | None:
    return None if hour is None else hour * US_PER_HOUR
