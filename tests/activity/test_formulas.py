"""Formulas of activities against arithmetic by hand, and their ranges."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.activity.choices import ActivityKind
from apps.activity.formulas.cloud_compute import embodied_share_ug
from apps.activity.formulas.estimate import Estimate
from apps.activity.kinds import KINDS, check_hours, control_of, default_pue, parse_inputs, values_of
from apps.core.errors import InvalidInput
from apps.core.text import parse_decimal
from apps.core.units import US_PER_HOUR

KWH = 3_600_000_000
AMOUNTS = st.decimals("0.001", "1000000", places=3)
SMALL = st.decimals("0.01", "1000", places=2)


def computed(kind: str, **inputs: Any) -> Estimate:
    found = KINDS[kind]
    return found.compute(values_of(found, parse_inputs(found, inputs)))


def half_up(kwh: Decimal) -> int:
    return int((kwh * KWH).quantize(Decimal(1), rounding=ROUND_HALF_UP))


STORED = {"provider": "aws", "tb_months": 1, "medium": "hdd"}
INSTANCE = {"provider": "aws", "hours": 1, "utilization": 50, "vcpus": 1}
NOT_PLAIN = (
    "1_000", "١٢", "-0", "+5", "1e3", " 5", "5 ", "1,5", "1 000", "5.", ".", "", "0x1", "1.2.3",
    "\uff11", "1\n", "Infinity", "nan",
)  # fmt: skip


def test_every_kind_is_defined() -> None:
    assert set(KINDS) == set(ActivityKind.values)


@pytest.mark.parametrize(
    ("kind", "inputs", "kwh"),
    [
        # Luccioni et al. 2022: BLOOM
        ("external_cluster", {"gpu_hours": "1082990", "watts_per_gpu": 400}, "433196"),
        # Touvron et al. 2023: LLaMA-65B without its PUE
        ("external_cluster", {"gpu_hours": 1022362, "watts_per_gpu": 400}, "408944.8"),
        # Cloud Carbon Footprint, Methodology: 1 TB on HDD for a year at 0.65 Wh per TB-hour
        ("cloud_storage", {"provider": "aws", "tb_months": 12, "medium": "hdd"}, "5.694"),
        ("cloud_backup", {"provider": "gcp", "tb_months": 2, "medium": "ssd"}, "1.752"),
        ("network_transfer", {"gigabytes": 5000}, "5"),
        ("file_server", {"disks": 8, "watts_per_disk": "6.5", "hours": 100}, "5.2"),
        ("other_device", {"device": "laptop", "watts": 30, "hours": 100, "count": 2}, "6"),
        ("other_device", {"device": "neuromorphic", "kwh": "0.25"}, "0.25"),
    ],
)  # fmt: skip
def test_worked_examples(kind: str, inputs: dict[str, Any], kwh: str) -> None:
    result = computed(kind, **inputs)
    assert result.energy_mj == half_up(Decimal(kwh))
    assert result.low_mj <= result.energy_mj <= result.high_mj
    assert result.equation
    assert result.source


def test_cloud_instances_by_hand() -> None:
    """8 vCPUs of AWS at 50 %: 8 × (0.74 + 2.76 / 2) W = 16.96 W; 32 GB × 0.392 W = 12.544 W."""
    result = computed(
        "cloud_compute", provider="aws", vcpus=8, memory_gb=32, hours=10, utilization=50
    )
    assert result.energy_mj == half_up(Decimal("0.29504"))
    assert result.low_mj == half_up(Decimal("0.6") * Decimal("0.1696") + Decimal("0.12"))
    assert result.high_mj == half_up(Decimal("1.4") * Decimal("0.1696") + Decimal("0.13056"))


@given(AMOUNTS, SMALL)
def test_hours_and_power(hours: Decimal, watts: Decimal) -> None:
    result = computed("external_cluster", gpu_hours=str(hours), watts_per_gpu=str(watts))
    kwh = hours * watts / 1000
    assert result.energy_mj == half_up(kwh)
    assert result.low_mj == half_up(kwh * Decimal("0.6"))
    assert result.high_mj == half_up(kwh * Decimal("1.4"))


@given(AMOUNTS, st.sampled_from([("hdd", "0.65"), ("ssd", "1.2"), ("object", "1.95")]))
def test_stored_terabytes(tb_months: Decimal, medium: tuple[str, str]) -> None:
    name, watts = medium
    result = computed("cloud_storage", provider="other", tb_months=str(tb_months), medium=name)
    assert result.energy_mj == half_up(tb_months * 730 * Decimal(watts) / 1000)
    assert result.low_mj <= result.energy_mj <= result.high_mj


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10))
def test_embodied_share(total_ug: int, hours: int, years: int) -> None:
    part = embodied_share_ug(total_ug, Fraction(hours), Fraction(years))
    assert abs(part * years * 8760 - total_ug * hours) * 2 <= years * 8760


def test_embodied_share_of_the_sci_specification() -> None:
    """1 000 kg over 4 years of 8 760 h, 1 hour: 28.54 g."""
    assert round(embodied_share_ug(10**12, Fraction(1), Fraction(4)) / 10**6, 2) == 28.54


@pytest.mark.parametrize(
    ("kind", "inputs", "field"),
    [
        ("external_cluster", {}, "kwh"),
        ("external_cluster", {"gpu_hours": 1}, "watts_per_gpu"),
        ("external_cluster", {"kwh": 1, "watts_per_gpu": 1}, "kwh"),
        ("cloud_storage", {"provider": "aws", "medium": "hdd"}, "tb_months"),
        ("cloud_storage", {"provider": "aws", "medium": "paper", "tb_months": 1}, "medium"),
        ("cloud_compute", {"provider": "aws", "hours": 1, "utilization": 50}, "vcpus"),
        (
            "cloud_compute",
            {"provider": "aws", "hours": 1, "utilization": 101, "vcpus": 1},
            "utilization",
        ),
        ("file_server", {"kwh": "NaN"}, "kwh"),
        ("file_server", {"kwh": "-1"}, "kwh"),
        ("file_server", {"kwh": "1e99"}, "kwh"),
        ("file_server", {"kwh": "1e-30"}, "kwh"),
        ("file_server", {"kwh": True}, "kwh"),
        ("file_server", {"kwh": [1]}, "kwh"),
        ("file_server", {"disks": 1}, "watts_per_disk"),
        ("file_server", {"watt": 1}, "inputs"),
        ("other_device", {"device": "laptop"}, "watts"),
        ("file_server", {"kwh": 0}, "kwh"),
        ("file_server", {"disks": 0, "watts_per_disk": 5, "hours": 1}, "disks"),
        ("file_server", {"disks": 1, "watts_per_disk": 5, "hours": "0.0"}, "hours"),
        ("other_device", {"device": "laptop", "watts": 5, "hours": 1, "count": 0}, "count"),
        ("cloud_storage", {**STORED, "replicas": 0}, "replicas"),
        ("cloud_storage", {**STORED, "tb_months": 0}, "tb_months"),
        ("network_transfer", {"gigabytes": 0.0}, "gigabytes"),
        ("cloud_compute", {**INSTANCE, "instances": 0}, "instances"),
        ("cloud_compute", {**INSTANCE, "hours": 0}, "hours"),
        ("cloud_compute", {**INSTANCE, "memory_gb": 0}, "memory_gb"),
        ("external_cluster", {"core_hours": 0, "watts_per_core": 5}, "core_hours"),
        ("external_cluster", {"gpu_hours": 0, "watts_per_gpu": 5}, "gpu_hours"),
    ],
)
def test_invalid_inputs_name_their_field(kind: str, inputs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        computed(kind, **inputs)
    assert caught.value.field == field
    assert caught.value.message


@pytest.mark.parametrize("text", [each for each in NOT_PLAIN if each])
def test_only_plain_numbers_are_read(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        computed("file_server", kwh=text)
    assert caught.value.field == "kwh"
    assert caught.value.message.startswith("Energy (kWh): ")


@pytest.mark.parametrize("number", ["12.5", 12.5, Decimal("12.50"), "012.500", Decimal("1.25e1")])
def test_numbers_are_stored_in_plain_digits(number: object) -> None:
    assert parse_inputs(KINDS["file_server"], {"kwh": number}) == {"kwh": "12.5"}
    assert parse_inputs(KINDS["file_server"], {"kwh": 1e-7}) == {"kwh": "0.0000001"}


@given(st.decimals("0", "999999", places=6))
def test_plain_numbers_are_read_exactly(number: Decimal) -> None:
    assert parse_decimal(f"{number:f}") == number


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_no_other_text_is_a_number(text: str) -> None:
    assert parse_decimal(text) is None


def test_zero_is_a_statement_where_something_can_be_absent() -> None:
    idle = computed("cloud_compute", **{**INSTANCE, "utilization": 0, "gpus": 0})
    assert idle.energy_mj > 0
    both = {"gpu_hours": 0, "watts_per_gpu": 300, "core_hours": 10, "watts_per_core": 5}
    assert computed("external_cluster", **both).energy_mj == half_up(Decimal("0.05"))


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("cloud_compute", {**INSTANCE, "instances": 5}),
        ("file_server", {"disks": 8, "watts_per_disk": 5}),
        ("other_device", {"device": "laptop", "watts": 5, "count": 30}),
    ],
)
def test_hours_of_one_unit_are_at_most_those_of_the_period(
    kind: str, inputs: dict[str, Any]
) -> None:
    found = KINDS[kind]

    def check(hours: str) -> None:
        values = values_of(found, parse_inputs(found, {**inputs, "hours": hours}))
        check_hours(found, values, 25 * US_PER_HOUR)

    check("25")
    with pytest.raises(InvalidInput) as caught:
        check("25.01")
    assert caught.value.field == "hours"
    assert caught.value.message.startswith("25.01 hours are more than the 25 hours")


def test_control_and_pue() -> None:
    cluster, compute = KINDS["external_cluster"], KINDS["cloud_compute"]
    assert control_of(cluster, {}) == "outside_boundary"
    assert control_of(cluster, {"boundary": "inside"}) == "inside_boundary"
    assert control_of(compute, {}) == "cloud"
    assert default_pue(compute, {"provider": "aws"})[0] == 1_135_000
    assert default_pue(compute, {"provider": "other"})[0] == 1_560_000
