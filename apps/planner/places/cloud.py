"""Cloud instances with GPUs in some regions, and their prices on the lab's own bills."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import Sum

from apps.accounts.models import Lab
from apps.activity.formulas import cloud_compute
from apps.activity.instance_types import InstanceType, instance_types
from apps.billing.choices import Category, Charge
from apps.billing.models import BillingItem
from apps.core.units import PPM, US_PER_HOUR
from apps.fleet.zones import CloudRegion, cloud_regions
from apps.planner.formulas.ranges import Range, divide, rounded
from apps.planner.places.candidates import NO_FACTOR, Candidate
from apps.planner.places.cards import Card
from apps.planner.places.conditions import Price, ZoneRate
from apps.planner.places.own_nodes import EmbodiedRate
from apps.planner.places.place import CloudChoice, Place, PlaceKind

MAX_INSTANCES = 60
REGIONS_PER_PROVIDER = 2  # without a choice
BILLED_HOURS = 365 * 24  # whose bills state a price
_LIKELY_UTILIZATION = Fraction(1, 2)  # of vCPUs; the ends are idle and full

NO_REGION = (
    "Choose a region: the lab has no bill of a cloud, and its sites are in no region's zone."
)
NO_TYPE = "No instance type in these regions has so many GPUs."
NO_INSTRUMENT = "An instrument of the lab covers no energy of a cloud provider."
NO_BILL = "No bill of the lab has this instance type in this region."
NO_FIGURE = "The catalogue has no embodied carbon of this GPU."


@dataclass(frozen=True)
class BilledPrice:
    """The cost of instance-hours on the lab's bills of one currency."""

    price: Price
    hours_millionths: int


Prices = Mapping[tuple[str, str, str], BilledPrice]  # by provider, folded type, region


def billed_prices(lab: Lab, now: int) -> Prices:
    """Return the mean price of an hour by provider, type and region, from the bills of the last
    year: usage without discounts. Of several currencies, the one with most hours. One query.
    """
    rows = (
        BillingItem.objects.filter(
            month__lab=lab,
            month__is_current=True,
            charge=Charge.USAGE,
            category=Category.COMPUTE,
            end_us__gt=now - BILLED_HOURS * US_PER_HOUR,
        )
        .exclude(instance_type="")
        .values("month__provider", "instance_type", "region", "month__currency")
        .annotate(hours=Sum("amount_millionths"), cost=Sum("cost_ucurrency"))
        .order_by("month__provider", "instance_type", "region", "month__currency")
    )
    prices: dict[tuple[str, str, str], BilledPrice] = {}
    for row in rows:
        hours = int(row["hours"])
        if hours <= 0 or not row["month__currency"]:
            continue
        key = (row["month__provider"], row["instance_type"].casefold(), row["region"])
        if key not in prices or hours > prices[key].hours_millionths:
            mean = divide(int(row["cost"]) * PPM, hours)
            prices[key] = BilledPrice(Price(mean, row["month__currency"]), hours)
    return prices


def chosen_regions(
    choice: CloudChoice, billed: Iterable[tuple[str, str, str]], zones: Collection[str]
) -> list[CloudRegion]:
    """Return the regions of a choice, else those on the lab's bills, else those in ``zones``: at
    most two of each provider.
    """
    known = cloud_regions()
    if choice.regions:
        listed = [known[name] for name in dict.fromkeys(choice.regions) if name in known]
        return [each for each in listed if choice.provider in ("", each.provider)]
    names = dict.fromkeys(region for _, _, region in billed if region in known)
    preferred = [known[name] for name in names]
    preferred += [each for each in known.values() if each.zone in zones]
    regions: list[CloudRegion] = []
    for region in dict.fromkeys(preferred):
        of_provider = sum(each.provider == region.provider for each in regions)
        if choice.provider in ("", region.provider) and of_provider < REGIONS_PER_PROVIDER:
            regions.append(region)
    return regions


def smallest_types(gpus: int) -> list[InstanceType]:
    """Return for each provider and GPU model the type with the fewest GPUs that are enough, then
    the fewest vCPUs, by provider and GPU.
    """
    best: dict[tuple[str, str], InstanceType] = {}
    for row in instance_types().values():
        if row.gpu and row.gpus and int(row.gpus) >= gpus:
            key = (row.provider, row.gpu)
            if key not in best or _size(row) < _size(best[key]):
                best[key] = row
    return [best[key] for key in sorted(best)]


def _size(row: InstanceType) -> tuple[int, Fraction, str]:
    return int(row.gpus), Fraction(row.vcpus or 0), row.name


def instance_gpu_names() -> set[str]:
    """Return the names of all GPUs of instance types."""
    return {row.gpu for row in instance_types().values() if row.gpu}


def cloud_candidates(
    regions: Iterable[CloudRegion],
    cards: Mapping[str, Card],
    rates: Mapping[str, ZoneRate],
    prices: Prices,
    used: int,
) -> list[Candidate]:
    """Return the smallest types in the regions, without GPUs whose power is unknown."""
    types = smallest_types(used)
    return [
        _candidate(region, row, cards[row.gpu], rates.get(region.zone), prices, used)
        for region in regions
        for row in types
        if row.provider == region.provider and cards[row.gpu].rated_mw
    ]


def _candidate(
    region: CloudRegion,
    row: InstanceType,
    card: Card,
    rate: ZoneRate | None,
    prices: Prices,
    used: int,
) -> Candidate:
    billed = prices.get((row.provider, row.name.casefold(), region.region))
    gpus = int(row.gpus)
    embodied = (
        ()
        if card.embodied_ug is None
        else (EmbodiedRate(card.embodied_ug, card.life_hours, is_over=False, share=Fraction(gpus)),)
    )
    reasons = {
        "location_ug": "" if rate else NO_FACTOR,
        "market_ug": NO_INSTRUMENT,
        "embodied_ug": "" if embodied else NO_FIGURE,
        "cost_ucurrency": "" if billed else NO_BILL,
    }
    return Candidate(
        place=Place(
            key=f"cloud:{row.provider}/{region.region}/{row.name}",
            kind=PlaceKind.CLOUD,
            name=row.name,
            where=region.region,
            card=card,
            gpus=gpus,
            gpus_used=used,
            provider=row.provider,
            zone=region.zone,
            pue_ppm=cloud_compute.PUE_PPM[row.provider],
        ),
        most_gpus=gpus,
        rest_mw=_rest(row),
        rate=rate,
        embodied=embodied,
        hour_price=billed.price if billed else None,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )


def _rest(row: InstanceType) -> Range:
    """Return the power of vCPUs and memory: idle, half used, full."""
    idle, full = cloud_compute.vcpu_mw(row.provider)
    vcpus, memory_gb = Fraction(row.vcpus or 0), Fraction(row.memory_gb or 0)
    likely, low, high = (Fraction(mw) * memory_gb for mw in cloud_compute.MEMORY_MW)
    middle = idle + (full - idle) * _LIKELY_UTILIZATION
    return Range(
        rounded(vcpus * idle + low), rounded(vcpus * middle + likely), rounded(vcpus * full + high)
    )
