"""Content of the site pages: the list, and one site with its nodes and the histories of zone,
PUE and price.
"""

from dataclasses import dataclass

from apps.accounts.models import Lab, User
from apps.carbon.factors import latest_annual
from apps.carbon.models import HourPrice
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.formatting import factor_value, pue
from apps.dashboard.nodes.change_preview import Effect
from apps.dashboard.setup.services import zone_label
from apps.fleet.choices import PriceKind
from apps.fleet.dated_facts import dated_intervals, value_at
from apps.fleet.models import ACTIVE, DatedFact, Node, Site, SitePrice
from apps.fleet.selectors import active_prices, placements_at, site_facts_of, sites_of, stays_at
from apps.fleet.tariffs import range_text
from apps.fleet.zones import zones as all_zones

_CHANGES = {PriceKind.FLAT: "", PriceKind.TARIFF: " by time of use", PriceKind.HOURLY: " by hour"}


@dataclass(frozen=True)
class FactRow:
    """A dated fact as shown. ``from_us`` None: from the start. ``to_us`` None: open."""

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
    """A current, former or planned node of the site."""

    node: Node
    from_us: int | None
    to_us: int | None


@dataclass(frozen=True)
class SiteRow:
    """A site in the list. ``zone`` and ``price`` are '' if not recorded."""

    site: Site
    zone: str
    pue: str
    price: str
    nodes: int


@dataclass(frozen=True)
class SitePage:
    """One site. ``zone`` and ``factor`` are the current ones."""

    site: Site
    zone: str
    factor: str
    zones: list[FactRow]
    pues: list[FactRow]
    prices: list[FactRow]
    current_nodes: list[NodeStay]
    former_nodes: list[NodeStay]
    planned_nodes: list[NodeStay]
    offered_zones: list[str]
    used: bool
    effect: Effect | None


def price_text(price: SitePrice) -> str:
    """Return a price as recorded: '0.31 EUR per kWh', '0.22 to 0.34 EUR per kWh by time of use'."""
    return f"{price.amount_text} {price.currency} per kWh{_CHANGES[PriceKind(price.kind)]}"


def sites_page(*, lab: Lab, now: int) -> list[SiteRow]:
    """Return the lab's sites with their current facts. The number of queries does not depend on
    the number of rows.
    """
    hour = hour_of(now)
    places = site_facts_of(lab)
    placements = placements_at(lab, hour)
    nodes: dict[int, int] = {}
    for placement in placements.values():
        nodes[placement.site_id] = nodes.get(placement.site_id, 0) + 1
    prices: dict[int, list[tuple[int, SitePrice]]] = {}
    for price in active_prices(lab).exclude(kind=PriceKind.HOURLY):
        prices.setdefault(price.site_id, []).append((price.from_hour, price))
    by_hour = {
        row.site_id: f"{range_text(*[row.ucurrency_per_kwh] * 2)} {row.price.currency} per kWh"
        for row in HourPrice.objects.filter(site__lab=lab, hour=hour).select_related("price")
    }
    rows = []
    for site in sites_of(lab):
        pue_ppm = value_at(places.pues[site.pk], hour)
        current_price = _price_at(prices.get(site.pk, []), hour)
        rows.append(
            SiteRow(
                site,
                value_at(places.zones.get(site.pk, ()), hour) or "",
                pue(pue_ppm) if pue_ppm is not None else "",
                by_hour.get(site.pk) or (price_text(current_price) if current_price else ""),
                nodes.get(site.pk, 0),
            )
        )
    return rows


def _price_at(history: list[tuple[int, SitePrice]], hour: int) -> SitePrice | None:
    """Return the current price. Unlike a zone or a PUE, the first price does not apply before
    its date.
    """
    started = [
        price for from_hour, price in sorted(history, key=lambda fact: fact[0]) if from_hour <= hour
    ]
    return started[-1] if started else None


def _history(
    facts: list[DatedFact], values: dict[int, str], *, applies_from_start: bool
) -> list[FactRow]:
    """Return a history, newest first."""
    rows = []
    intervals = dated_intervals([(fact.from_hour, fact) for fact in facts])
    for i, (_, to_hour, fact) in enumerate(intervals):
        first = i == 0 and applies_from_start
        rows.append(
            FactRow(
                fact,
                values[fact.pk],
                None if first or fact.from_hour == 0 else fact.from_hour * US_PER_HOUR,
                None if to_hour is None else to_hour * US_PER_HOUR,
                _note(fact),
                i == len(intervals) - 1 and not first,
            )
        )
    return rows[::-1]


def _note(fact: DatedFact) -> str:
    if isinstance(fact, SitePrice) and fact.kind == PriceKind.TARIFF:
        return f"{fact.content['text'].replace(chr(10), '; ')} ({fact.content['time_zone']})"
    return str(getattr(fact, "note", ""))


def site_page(
    *, lab: Lab, site: Site, zones: list[tuple[str, str]], effect: Effect | None, now: int
) -> SitePage:
    """Return one site. The number of queries does not depend on the number of rows."""
    hour = hour_of(now)
    names = {code: zone.name for code, zone in all_zones().items()}
    zone_facts = list(site.zones.filter(ACTIVE).select_related("recorded_by"))
    pues = list(site.pues.filter(ACTIVE).select_related("recorded_by"))
    zone = value_at([(fact.from_hour, fact.zone) for fact in zone_facts], hour) or ""
    latest = latest_annual(lab, zone) if zone else None
    stays = [
        (
            stay,
            NodeStay(stay.placement.node, stay.from_hour * US_PER_HOUR or None, _us(stay.to_hour)),
        )
        for stay in stays_at(site)
    ]
    return SitePage(
        site=site,
        zone=zone_label(zone, names.get(zone, zone)) if zone else "",
        factor=f"{latest.name}: {factor_value(latest.ug_per_kwh)}, {latest.source}"
        if latest
        else "",
        zones=_history(
            [*zone_facts],
            {
                fact.pk: zone_label(fact.zone, names.get(fact.zone, fact.zone))
                for fact in zone_facts
            },
            applies_from_start=True,
        ),
        pues=_history(
            [*pues], {fact.pk: pue(fact.pue_ppm) for fact in pues}, applies_from_start=True
        ),
        prices=price_rows(site),
        current_nodes=[
            row
            for stay, row in stays
            if stay.from_hour <= hour and (stay.to_hour is None or stay.to_hour > hour)
        ],
        former_nodes=[
            row for stay, row in stays if stay.to_hour is not None and stay.to_hour <= hour
        ],
        planned_nodes=[row for stay, row in stays if stay.from_hour > hour],
        offered_zones=[zone_label(code, name) for code, name in zones],
        used=bool(stays),
        effect=effect,
    )


def price_rows(site: Site) -> list[FactRow]:
    """Return the history of flat prices and tariffs, newest first. One query."""
    rows = site.prices.filter(ACTIVE).exclude(kind=PriceKind.HOURLY)
    prices = list(rows.select_related("recorded_by"))
    return _history(
        [*prices], {fact.pk: price_text(fact) for fact in prices}, applies_from_start=False
    )


def _us(hour: int | None) -> int | None:
    return None if hour is None else hour * US_PER_HOUR
