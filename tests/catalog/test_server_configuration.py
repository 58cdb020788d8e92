"""A server from its configuration: the published results of BoaviztAPI, and properties."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.catalog.server_configuration import (
    FIELDS,
    Amount,
    Configuration,
    contents_of_source,
    embodied,
    source_text,
)
from apps.core.errors import InvalidInput

KG = 10**9
R740 = Configuration(
    cpus=2,
    cores=24,
    memory_modules=12,
    module_gb=32,
    ssds=1,
    ssd_gb=400,
    power_supplies=2,
    ssd_gb_per_cm2=Fraction("50.6"),
)
GPU = Amount(164 * KG, 147 * KG, 273 * KG)


def test_the_published_r740_of_boaviztapi() -> None:
    """docs/docs/getting_started/single_server.md: 970 kg, of which CPU 43.4, SSD 24.0, power
    supplies 145.32, case 150, mainboard 66.1, assembly 6.68, and memory
    12 × (32 ÷ 1.79 × 2.2 + 5.22) = 534.6.
    """
    assert round(embodied(R740).total_ug / KG) == 970


def test_the_published_custom_server_of_boaviztapi() -> None:
    """The same page: 2 CPUs of 12 cores, 12 × 64 GB, 4 SSDs of 400 GB: 1501.4 kg."""
    custom = replace(R740, cores=12, module_gb=64, ssds=4)
    assert round(embodied(custom).total_ug / KG, 1) == 1501.4


def test_one_r740_is_not_every_r740() -> None:
    """By hand: 4 SSDs of 3.84 TB are 4 × (3 840 ÷ 50.6 × 2.2 + 6.34) = 693.2 kg in place of one of
    400 GB (23.7 kg); 24 modules of 64 GB are 24 × 83.88 = 2 013 kg in place of 12 × 44.55 = 534.6.
    """
    large = replace(R740, ssds=4, ssd_gb=3840, memory_modules=24, module_gb=64)
    assert abs(embodied(large).total_ug / KG - (969.8 - 23.7 + 693.2 - 534.6 + 2013.1)) < 1


def test_eight_gpus_add_their_figures() -> None:
    with_gpus = replace(R740, gpus=8, gpu=GPU, gpu_name="NVIDIA H100 80GB HBM3")
    plain, found = embodied(R740), embodied(with_gpus)
    assert found.total_ug - plain.total_ug == 8 * GPU.total_ug
    assert (found.low_ug - plain.low_ug, found.high_ug - plain.high_ug) == (
        8 * GPU.low_ug,
        8 * GPU.high_ug,
    )
    text = source_text(with_gpus)
    assert "BoaviztAPI" in text
    assert "12 × 32 GB memory" in text
    assert contents_of_source(text) == {"cpu", "memory", "storage", "gpu"}
    assert contents_of_source(source_text(replace(R740, ssds=0))) == {"cpu", "memory"}
    assert contents_of_source("data sheet, 2 × GPU") == frozenset()


servers = st.builds(
    Configuration,
    cpus=st.integers(1, 8),
    cores=st.integers(1, 192),
    memory_modules=st.integers(1, 64),
    module_gb=st.integers(1, 512),
    ssds=st.integers(0, 60),
    ssd_gb=st.integers(1, 61_440),
    hdds=st.integers(0, 60),
    power_supplies=st.integers(1, 8),
    gpus=st.integers(0, 16),
    gpu=st.just(GPU),
)


@given(servers)
def test_the_range_contains_the_total(server: Configuration) -> None:
    found = embodied(server)
    assert 0 < found.low_ug <= found.total_ug <= found.high_ug


@given(servers, st.sampled_from([name for name in FIELDS if name != "ssd_gb"]))
def test_more_of_a_part_never_emits_less(server: Configuration, name: str) -> None:
    more = replace(server, **{name: getattr(server, name) + 1})
    before, after = embodied(server), embodied(more)
    assert after.total_ug > before.total_ug
    assert after.low_ug >= before.low_ug
    assert after.high_ug >= before.high_ug


@given(servers, st.integers(1, 4))
def test_parts_add_up(server: Configuration, extra: int) -> None:
    """An SSD adds the same to every server, within the rounding of 1 µg."""
    bare = replace(server, ssds=0)
    one = embodied(replace(bare, ssds=1)).total_ug - embodied(bare).total_ug
    many = embodied(replace(bare, ssds=extra)).total_ug - embodied(bare).total_ug
    assert abs(many - extra * one) <= extra + 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cpus": 0}, "cpus"),
        ({"cores": 1000}, "cores"),
        ({"memory_modules": 0}, "memory_modules"),
        ({"ssd_gb": 0}, "ssd_gb"),
        ({"hdds": -1}, "hdds"),
        ({"gpus": 2}, "gpu_model"),
    ],
)
def test_an_impossible_configuration_names_its_field(change: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        replace(R740, **change)  # type: ignore[arg-type]
    assert error.value.field == field
    assert error.value.hint
