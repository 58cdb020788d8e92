"""Cloud instances: the sensible default, a choice, carbon, embodied share, and billed prices."""

from fractions import Fraction
from pathlib import Path

import pytest

import apps.activity
from apps.billing.choices import Category, Charge
from apps.billing.models import BilledMonth, BillingFile, BillingItem
from apps.catalog.data_files import rows_of
from apps.core.units import UG_PER_KG, US_PER_HOUR
from apps.fleet.zones import cloud_regions
from apps.planner.formulas.ranges import Range
from apps.planner.places import cloud
from apps.planner.places.cloud import MAX_INSTANCES, smallest_types
from apps.planner.places.place import CloudChoice, JobNeeds, Place, PlaceKind, Places
from apps.planner.places.selectors import places_for
from tests.builders import SmallLab, small_lab
from tests.planner.places.support import NOW, T4, report_gpus

pytestmark = pytest.mark.django_db
TYPES = Path(apps.activity.__file__).parent / "data" / "instance_types.csv"


def in_cloud(places: Places) -> list[Place]:
    return [place for place in places.places if place.kind == PlaceKind.CLOUD]


def listed(small: SmallLab, *regions: str, provider: str = "", gpus: int = 1) -> list[Place]:
    needs = JobNeeds(flops=10**18, gpus=gpus)
    return in_cloud(places_for(small.lab, needs, NOW, CloudChoice(provider, regions)))


def bill(
    small: SmallLab,
    instance_type: str,
    region: str,
    *,
    hours: int,
    cost: int,
    currency: str = "USD",
) -> None:
    """Record an item of a current bill."""
    file = BillingFile.objects.create(
        lab=small.lab, provider="aws", name="a.csv", sha256="0" * 64, bytes=1, created_us=NOW
    )
    month = BilledMonth.objects.create(
        file=file, lab=small.lab, provider="aws", account=f"{instance_type} {region} {currency}",
        month="2026-10", is_current=True, currency=currency,
    )  # fmt: skip
    BillingItem.objects.create(
        month=month, start_us=NOW - 2 * US_PER_HOUR, end_us=NOW - US_PER_HOUR, charge=Charge.USAGE,
        category=Category.COMPUTE, instance_type=instance_type, region=region,
        amount_millionths=hours * 10**6, cost_ucurrency=cost * 10**6, lines=1,
    )  # fmt: skip


def test_without_choice_bill_and_zone_there_is_no_instance() -> None:
    small = small_lab(zone="")
    places = places_for(small.lab, JobNeeds(), NOW)
    assert in_cloud(places) == []
    assert places.cloud_missing == cloud.NO_REGION


def test_without_choice_and_bill_the_regions_of_the_site_are_listed() -> None:
    small = small_lab(zone="DE")
    report_gpus(small.node, [T4])
    places = in_cloud(places_for(small.lab, JobNeeds(), NOW))
    assert {place.zone for place in places} == {"DE"}
    assert {place.provider for place in places} == {"aws", "azure", "gcp"}
    assert len(places) <= MAX_INSTANCES


def test_billed_regions_precede_those_of_the_sites() -> None:
    small = small_lab(zone="")
    bill(small, "p3.2xlarge", "us-east-1", hours=10, cost=30)
    assert {place.where for place in in_cloud(places_for(small.lab, JobNeeds(), NOW))} == {
        "us-east-1"
    }


def test_one_type_of_each_gpu_model_of_a_provider() -> None:
    small = small_lab()
    places = listed(small, "eu-central-1")
    assert {place.provider for place in places} == {"aws"}
    cards = [place.card.name for place in places]
    assert len(cards) == len(set(cards))
    assert {place.name: place.gpus for place in places}["p5.4xlarge"] == 1
    assert listed(small, "eu-central-1", provider="gcp") == []
    assert listed(small, "no-such-region") == []


def test_smallest_types_by_the_table() -> None:
    """Compared with all rows of the shipped table."""
    rows = [row for row in rows_of(TYPES) if row["gpu"] and row["gpus"]]
    for gpus in (1, 4, 8):
        types = smallest_types(gpus)
        for row in types:
            rivals = [
                (int(each["gpus"]), Fraction(each["vcpus"] or 0))
                for each in rows
                if (each["provider"], each["gpu"]) == (row.provider, row.gpu)
                and int(each["gpus"]) >= gpus
            ]
            assert (int(row.gpus), Fraction(row.vcpus or 0)) == min(rivals)
        assert len({(row.provider, row.gpu) for row in types}) == len(types) <= 40


def test_regions_with_less_carbon_come_first() -> None:
    small = small_lab()
    places = listed(small, "eu-north-1", "eu-central-1", provider="aws")
    t4 = [place for place in places if place.card.name == T4]
    assert [place.where for place in t4] == ["eu-north-1", "eu-central-1"]
    assert t4[0].ug_per_kwh is not None
    assert t4[1].ug_per_kwh is not None
    assert t4[0].ug_per_kwh < t4[1].ug_per_kwh
    assert t4[0].pue_ppm == 1_135_000
    assert t4[0].market_ug is None
    assert t4[0].reasons["market_ug"] == cloud.NO_INSTRUMENT


def test_the_rest_of_an_instance_is_its_processors_and_memory() -> None:
    """g4dn.xlarge: 4 vCPUs of 0.74 to 3.5 W, 16 GB × 0.392 W."""
    small = small_lab()
    [place] = [each for each in listed(small, "eu-central-1") if each.card.name == T4]
    assert place.name == "g4dn.xlarge"
    assert place.time_us is not None
    assert place.gpu_energy_mj is not None
    assert place.node_energy_mj is not None
    rest_mj = place.node_energy_mj.likely - place.gpu_energy_mj.likely
    watts = 4 * (0.74 + 2.76 / 2) + 16 * 0.392
    assert rest_mj == pytest.approx(watts * place.time_us.likely / 1000, rel=1e-6)


def test_embodied_share_of_the_card() -> None:
    small = small_lab()
    [place] = [each for each in listed(small, "eu-central-1") if each.card.name == T4]
    assert place.time_us is not None
    assert place.embodied_ug is not None
    assert place.card.embodied_ug is not None
    assert place.card.embodied_ug.likely > UG_PER_KG
    hours = Fraction(place.time_us.likely, US_PER_HOUR)
    expected = place.card.embodied_ug.likely * hours / place.card.life_hours
    assert abs(place.embodied_ug.likely - expected) <= 1


def test_the_price_is_that_of_the_bills() -> None:
    """30 USD for 10 h; another region, another lab and another currency with fewer hours do not
    count.
    """
    small, other = small_lab(), small_lab(name="Other Lab")
    bill(small, "g4dn.xlarge", "eu-central-1", hours=10, cost=30)
    bill(small, "g4dn.xlarge", "eu-central-1", hours=1, cost=90, currency="EUR")
    bill(small, "g4dn.xlarge", "eu-north-1", hours=10, cost=70)
    bill(other, "g5.xlarge", "eu-central-1", hours=10, cost=10)
    places = listed(small, "eu-central-1")
    [place] = [each for each in places if each.card.name == T4]
    assert place.time_us is not None
    assert place.cost_ucurrency is not None
    assert place.currency == "USD"
    hours = Fraction(place.time_us.likely, US_PER_HOUR)
    assert abs(place.cost_ucurrency.likely - 3_000_000 * hours) <= 1
    assert {each.reasons["cost_ucurrency"] for each in places if each is not place} == {
        cloud.NO_BILL
    }


def test_many_regions_are_limited() -> None:
    small = small_lab()
    regions = tuple(name for name, region in cloud_regions().items() if region.provider == "aws")
    places = places_for(small.lab, JobNeeds(), NOW, CloudChoice("", regions))
    assert len(in_cloud(places)) == MAX_INSTANCES
    assert places.left_out > 0


def test_the_verdict_counts_in_the_cloud_too() -> None:
    small = small_lab()
    needs = JobNeeds(memory_bytes=Range(10**9, 10**9, 10**9))
    places = in_cloud(places_for(small.lab, needs, NOW, CloudChoice("", ("eu-central-1",))))
    assert all(place.fit is not None for place in places)
