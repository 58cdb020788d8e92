"""Own nodes and partitions: cards, load, verdicts, time, energy, carbon, cost, embodied carbon."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.assets.services import Draft, Embodied, Entry, Facts, register
from apps.carbon.hourly_factors import record_hours
from apps.core.units import MJ_PER_KWH, UG_PER_G, UG_PER_KG, US_PER_HOUR, emission_ug, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.models import Device, Node
from apps.fleet.services import retire_node, set_price
from apps.planner.choices import Basis
from apps.planner.formulas.places import Fit, Reference
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures, PastOperations
from apps.planner.places import candidates, figures
from apps.planner.places.cards import cards_named
from apps.planner.places.place import CloudChoice, JobNeeds, Load, Place, PlaceKind, Places
from apps.planner.places.selectors import COLUMNS, places_for, sort_places
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.planner.places.support import A100, H100, NOW, T4, add_node, many_nodes, report_gpus

pytestmark = pytest.mark.django_db
GIB = 1 << 30
HOUR = US_PER_HOUR


def exact(value: int) -> Range:
    return Range(value, value, value)


def own(places: Places, kind: PlaceKind = PlaceKind.NODE) -> list[Place]:
    return [place for place in places.places if place.kind == kind]


def only(places: Places) -> Place:
    [place] = own(places)
    return place


def on_t4(**more: Any) -> JobNeeds:
    """A job that took 10 h and 0.5 kWh on one Tesla T4."""
    figures = Figures(Basis.OWN_RUNS, exact(10 * HOUR), exact(MJ_PER_KWH // 2), None)
    reference = Reference(figures, 1, 70_000)
    return JobNeeds(reference=reference, reference_card=T4, **more)


def a_run(small: SmallLab, node: Node | None, started_us: int = NOW, **more: Any) -> Run:
    return Run.objects.create(
        lab=small.lab, uuid=uuid4(), node=node, name="job", started_us=started_us, **more
    )


def test_a_node_without_gpu_is_counted_and_not_listed() -> None:
    small = small_lab()
    places = places_for(small.lab, JobNeeds(), NOW)
    assert own(places) == []
    assert places.nodes_without_gpu == 1


def test_each_gpu_model_of_a_node_is_a_place() -> None:
    small = small_lab()
    report_gpus(small.node, [A100, A100, T4])
    places = own(places_for(small.lab, JobNeeds(), NOW))
    assert sorted((place.card.name, place.gpus) for place in places) == [(A100, 2), (T4, 1)]
    a100 = next(place for place in places if place.card.name == A100)
    assert (a100.name, a100.where, a100.zone) == ("ws-1", "Room 1", "DE")
    assert a100.node_uuid == small.node.uuid
    assert a100.card.memory_bytes == 80 * GIB
    assert a100.card.rated_mw == 400_000


@pytest.mark.parametrize(
    ("util_pm", "consumer", "load"),
    [
        (0, "idle", Load(free=1)),
        (None, "idle", Load(free=1)),
        (10, "idle", Load(free=1)),
        (11, "idle", Load(busy=1)),
        (0, "proc:ada/python", Load(busy=1)),
        (None, "unknown", Load(busy=1)),
    ],
)
def test_load_by_use_in_the_last_minutes(util_pm: int | None, consumer: str, load: Load) -> None:
    small = small_lab()
    report_gpus(small.node, [T4], util_pm=util_pm, consumer=consumer)
    assert only(places_for(small.lab, JobNeeds(), NOW)).load == load


def test_a_node_without_an_upload_for_15_minutes_is_silent() -> None:
    small = small_lab()
    report_gpus(small.node, [T4])
    assert only(places_for(small.lab, JobNeeds(), NOW + 15 * MINUTE)).load == Load(free=1)
    later = NOW + 15 * MINUTE + 1
    assert only(places_for(small.lab, JobNeeds(), later)).load == Load(silent=1)


def test_retired_nodes_and_other_labs_are_left_out() -> None:
    small, other = small_lab(), small_lab(name="Other Lab")
    report_gpus(small.node, [T4])
    report_gpus(other.node, [A100])
    assert only(places_for(small.lab, JobNeeds(), NOW)).card.name == T4
    retire_node(node=small.node, by=small.owner, now=NOW)
    assert own(places_for(small.lab, JobNeeds(), NOW)) == []


def test_the_verdict_by_memory() -> None:
    small = small_lab()
    report_gpus(small.node, [T4, A100, "Some GPU"])
    needs = JobNeeds(memory_bytes=exact(15 * GIB))
    fits = {
        place.card.name: (place.fit, place.reasons.get("fit"))
        for place in own(places_for(small.lab, needs, NOW))
    }
    assert fits == {
        T4: (Fit.BORDERLINE, None),
        A100: (Fit.FITS, None),
        "Some GPU": (None, figures.NO_MEMORY),
    }
    assert only_reason(small, "fit") == figures.NO_NEED


def only_reason(small: SmallLab, name: str, needs: JobNeeds | None = None) -> str:
    places = own(places_for(small.lab, needs or JobNeeds(), NOW))
    [reason] = {place.reasons[name] for place in places}
    return reason


def test_without_work_there_is_no_number() -> None:
    small = small_lab()
    report_gpus(small.node, [T4])
    place = only(places_for(small.lab, JobNeeds(), NOW))
    assert place.basis == Basis.NONE
    for name in ("time_us", "gpu_energy_mj", "node_energy_mj", "location_ug", "usamples_per_joule"):
        assert getattr(place, name) is None
        assert place.reasons[name]


def test_a_card_without_peak_has_no_basis() -> None:
    small = small_lab()
    report_gpus(small.node, ["Some GPU"])
    for needs in (on_t4(), JobNeeds(flops=10**18)):
        place = only(places_for(small.lab, needs, NOW))
        assert (place.basis, place.time_us) == (Basis.NONE, None)
        assert place.reasons["time_us"] == figures.NO_PEAK


def test_an_unreported_model_has_no_basis() -> None:
    small = small_lab()
    report_gpus(small.node, [""])
    assert only_reason(small, "time_us", on_t4()) == figures.NO_CARD


def test_the_card_of_the_own_runs_keeps_their_figures() -> None:
    small = small_lab()
    report_gpus(small.node, [T4])
    place = only(places_for(small.lab, on_t4(samples=9_000_000), NOW))
    assert (place.basis, place.reference_card) == (Basis.OWN_RUNS, "")
    assert place.time_us == exact(10 * HOUR)
    assert place.gpu_energy_mj == exact(MJ_PER_KWH // 2)
    # rest: 25 % of 70 W for 10 h
    assert place.node_energy_mj is not None
    assert place.node_energy_mj.likely == MJ_PER_KWH // 2 + 17_500 * 36_000
    assert not place.is_rest_measured
    # 9 000 000 samples ÷ 1.8 MJ
    assert place.usamples_per_joule == exact(5_000_000)
    assert place.efficiency_source == Basis.OWN_RUNS


def test_another_card_is_an_order_of_magnitude() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    place = only(places_for(small.lab, on_t4(), NOW))
    assert (place.basis, place.reference_card) == (Basis.CATALOGUE, T4)
    assert place.time_us is not None
    assert place.gpu_energy_mj is not None
    cards = cards_named(small.lab, [T4, A100])
    ratio = cards[T4].ratio_to(cards[A100])
    assert ratio is not None
    assert ratio.likely_ppm > 2_000_000
    assert abs(place.time_us.likely - 10 * HOUR * 10**6 // ratio.likely_ppm) <= 1
    assert place.time_us.high >= 2 * place.time_us.likely
    assert place.time_us.low * 2 <= place.time_us.likely


def test_own_operations_precede_a_measurement_on_another_card() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    card = cards_named(small.lab, [A100])[A100]
    needs = replace(
        on_t4(flops=10**18),
        own_operations={card.key: [PastOperations(10**18, HOUR, MJ_PER_KWH // 4, None)]},
    )
    place = only(places_for(small.lab, needs, NOW))
    assert place.basis == Basis.OPERATIONS
    assert place.time_us is not None
    assert place.time_us.likely == HOUR


def test_operations_alone_use_the_catalogue() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    place = only(places_for(small.lab, JobNeeds(flops=10**18), NOW))
    assert (place.basis, place.reference_card) == (Basis.CATALOGUE, "")
    assert place.time_us is not None
    # a third of the FP32 peak of 19.5 TFLOP/s
    assert place.time_us.likely == pytest.approx(10**18 * 3 / 19.49e12 * 1e6, rel=1e-3)


def test_a_node_with_too_few_gpus() -> None:
    small = small_lab()
    report_gpus(small.node, [A100, T4])
    reason = only_reason(small, "time_us", JobNeeds(flops=10**18, gpus=2))
    assert reason == "A machine there has 1 GPU, the job uses 2."


def test_carbon_and_cost_of_the_site() -> None:
    small = small_lab(kind=SiteKind.MACHINE_ROOM)
    report_gpus(small.node, [T4])
    place = only(places_for(small.lab, on_t4(), NOW))
    assert place.cost_ucurrency is None
    assert place.reasons["cost_ucurrency"] == candidates.NO_PRICE
    set_price(
        site=small.site, ucurrency_per_kwh=300_000, currency="EUR", from_us=T0, by=None, now=T0
    )
    place = only(places_for(small.lab, on_t4(), NOW))
    assert place.node_energy_mj is not None
    assert place.location_ug is not None
    assert place.cost_ucurrency is not None
    assert place.pue_ppm == 1_560_000
    assert place.ug_per_kwh is not None
    energy = place.node_energy_mj.likely
    assert place.location_ug.likely == emission_ug(energy, 1_560_000, place.ug_per_kwh)
    assert place.cost_ucurrency.likely == emission_ug(energy, 1_560_000, 300_000)
    assert place.currency == "EUR"
    assert place.location_ug.low < place.location_ug.likely < place.location_ug.high
    assert place.market_ug is None
    assert place.reasons["market_ug"]


def test_a_site_without_zone_has_no_carbon() -> None:
    small = small_lab(zone="")
    report_gpus(small.node, [T4])
    place = only(places_for(small.lab, on_t4(), NOW))
    assert place.location_ug is None
    assert place.reasons["location_ug"] == candidates.NO_ZONE
    assert place.time_us is not None


def register_gpu(small: SmallLab, key: str, *, kg: int, years: int, at_us: int = T0) -> None:
    embodied = Embodied(kg * UG_PER_KG, kg * UG_PER_KG, kg * UG_PER_KG, source="a test's figure")
    entry = Entry("purchase", at_us, embodied=embodied, life_hours=years * 8760)
    draft = Draft(
        Facts(f"card {key}", "gpu"), entry, deployed_us=at_us, device=Device.objects.get(key=key)
    )
    register(lab=small.lab, draft=draft, by=small.owner, now=NOW)


def test_embodied_share_of_own_cards() -> None:
    """Two cards of 100 and 200 kg over 5 years: 10 h on one of them have 150 kg × 10 ÷ 43 800."""
    small = small_lab()
    keys = report_gpus(small.node, [T4, T4])
    assert only_reason(small, "embodied_ug") == candidates.NO_ASSET
    register_gpu(small, keys[0], kg=100, years=5)
    register_gpu(small, keys[1], kg=200, years=5)
    place = only(places_for(small.lab, on_t4(), NOW))
    assert place.embodied_ug is not None
    assert abs(place.embodied_ug.likely - 150 * UG_PER_KG * 10 // 43_800) <= 1


def test_a_card_after_its_service_life_has_no_embodied_carbon_left() -> None:
    small = small_lab()
    [key] = report_gpus(small.node, [T4])
    register_gpu(small, key, kg=100, years=1, at_us=T0 - 2 * 8760 * HOUR)
    assert only(places_for(small.lab, on_t4(), NOW)).embodied_ug == exact(0)


def test_mlperf_without_own_runs_names_its_scenario() -> None:
    small = small_lab()
    report_gpus(small.node, ["NVIDIA H200", T4])
    h200, t4 = sorted(
        own(places_for(small.lab, JobNeeds(), NOW)), key=lambda place: place.card.name
    )
    assert h200.efficiency_source == "MLPerf Inference v4.1 resnet50, Offline"
    assert h200.usamples_per_joule is not None
    assert t4.usamples_per_joule is None
    assert t4.reasons["usamples_per_joule"] == figures.NO_SAMPLES


def test_the_greenest_start_of_the_site() -> None:
    small = small_lab()
    report_gpus(small.node, [T4])
    assert only_reason(small, "greenest_start", on_t4()) == figures.NO_FORECAST
    first = hour_of(NOW)
    zone = ZoneInfo(small.lab.time_zone)  # the usual hour follows the local clock

    def clock(hour: int) -> int:
        return datetime.fromtimestamp(hour * 3600, tz=zone).hour

    low = {clock(first + i) for i in range(3, 13)}
    hours = {
        hour: (100 if clock(hour) in low else 400) * UG_PER_G
        for hour in range(first - 28 * 24, first)
    }
    record_hours(
        lab=small.lab, zone="DE", basis=small.lab.basis, is_actual=True, source="S", licence="CC0",
        hours=hours, now=NOW,
    )  # fmt: skip
    place = only(places_for(small.lab, on_t4(), NOW))
    assert place.greenest_start is not None
    assert place.greenest_start.hour == first + 3
    assert place.greenest_start.ug_per_kwh == 100 * UG_PER_G
    assert place.starts_now is not None
    assert place.starts_now.ug_per_kwh > 100 * UG_PER_G
    assert place.factor_name == "mean of 28 days by hour"


def test_newer_is_not_greener_is_marked() -> None:
    """A T4 (2018) with a measured job, and the H100 (2022) whose catalogue figure is higher."""
    small = small_lab()
    report_gpus(small.node, [T4])
    report_gpus(add_node(small, "gpu-1"), [H100])
    card = cards_named(small.lab, [H100])[H100]
    needs = replace(
        on_t4(flops=10**18),
        own_operations={card.key: [PastOperations(10**18, HOUR, MJ_PER_KWH, None)]},
    )
    nowhere = CloudChoice(regions=("none",))
    t4, h100 = own(places_for(small.lab, needs, NOW, nowhere))
    assert (t4.card.name, h100.card.name) == (T4, H100)  # the least carbon first
    assert h100.greener_older == t4.key
    assert t4.greener_older == ""
    too_large = replace(needs, memory_bytes=exact(60 * GIB))
    places = own(places_for(small.lab, too_large, NOW, nowhere))
    assert [place.greener_older for place in places] == ["", ""]


def test_partitions_of_recent_jobs_are_places() -> None:
    small = small_lab()
    report_gpus(small.node, [A100, A100])
    second = add_node(small, "gpu-2")
    report_gpus(second, [A100], util_pm=900)
    facts = {"scheduler": "slurm", "cluster": "hpc", "partition": "gpu"}
    for node in (small.node, second, second):
        a_run(small, node, **facts)
    a_run(small, small.node, started_us=NOW - 31 * 24 * HOUR, **{**facts, "partition": "old"})
    a_run(small, None, **{**facts, "partition": "nowhere"})
    [place] = own(places_for(small.lab, JobNeeds(), NOW), PlaceKind.PARTITION)
    assert (place.name, place.where, place.card.name) == ("hpc/gpu", "Room 1", A100)
    assert place.gpus == 3
    assert place.load == Load(free=2, busy=1)


def test_partitions_of_another_lab_are_left_out() -> None:
    small, other = small_lab(), small_lab(name="Other Lab")
    report_gpus(small.node, [A100])
    a_run(other, other.node, scheduler="slurm", cluster="hpc", partition="gpu")
    assert own(places_for(small.lab, JobNeeds(), NOW), PlaceKind.PARTITION) == []


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("descending", [False, True])
def test_unknown_values_come_last_in_each_column(column: str, descending: bool) -> None:
    small = small_lab()
    report_gpus(small.node, [T4, A100, "Some GPU", "NVIDIA H200"])
    places = places_for(small.lab, on_t4(memory_bytes=exact(20 * GIB)), NOW).places
    ordered = sort_places(places[::-1], column, descending=descending)
    assert {place.key for place in ordered} == {place.key for place in places}
    if column in ("carbon", "time", "energy", "memory", "year"):
        assert ordered[-1].card.name == "Some GPU"


def test_the_number_of_queries_does_not_depend_on_the_number_of_nodes() -> None:
    counts = []
    for number in (3, 60):
        small = small_lab(name=f"Lab {number}")
        many_nodes(small, number)
        for node in small.lab.nodes.all():
            a_run(small, node, scheduler="slurm", cluster="hpc", partition="gpu")
        with CaptureQueriesContext(
            connection,
        ) as captured:
            places = places_for(small.lab, on_t4(flops=10**18), NOW)
        assert len(own(places)) == 2 * number
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 32
