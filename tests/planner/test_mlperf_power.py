"""The table of MLPerf: samples per joule by card and scenario, strong scaling."""

from decimal import Decimal
from itertools import chain

from apps.catalog.data_files import rows_of
from apps.core.units import MJ_PER_KWH, PPM
from apps.planner.mlperf_power import (
    POWER,
    benchmarks,
    efficiencies,
    efficiency_of,
    strong_scaling,
)


def test_samples_per_joule_are_the_inverse_of_the_joules_of_the_table() -> None:
    rows = [row for row in rows_of(POWER) if row["joules_per_unit"]]
    found = list(chain.from_iterable(efficiencies().values()))
    assert len(found) == len(rows) == 35
    for row in rows:
        expected = PPM / Decimal(row["joules_per_unit"])
        assert any(
            (each.benchmark, each.scenario, each.system, each.unit)
            == (row["benchmark"], row["scenario"], row["system"], row["throughput_unit"][:-2])
            and abs(each.usamples_per_joule - expected) <= expected / 200
            for each in found
        )


def test_a_card_of_the_catalogue_has_the_row_of_its_benchmark() -> None:
    row = efficiency_of("NVIDIA H200", "resnet50")
    assert row is not None
    assert row.label == "MLPerf Inference v4.1 resnet50, Offline"
    # 556 234 samples/s ÷ mean node power
    power = next(
        Decimal(each["mean_node_w"]) for each in rows_of(POWER) if each["throughput"] == "556234"
    )
    assert abs(row.usamples_per_joule - 556_234 * PPM / power) <= Decimal("0.5")
    assert efficiency_of("Tesla T4", "resnet50") is None
    assert efficiency_of("NVIDIA H200", "no such") is None
    assert "resnet50" in benchmarks()


def test_strong_scaling_of_llama_2_70b_lora() -> None:
    """1, 8 and 64 nodes of 8 × H100: 3.36, 4.11, 10.6 kWh."""
    steps = strong_scaling()["Sustainable Metal Cloud (AC side)", "llama2_70b_lora"]
    assert [step.nodes for step in steps] == [1, 8, 64]
    assert [f"{Decimal(step.energy_mj) / MJ_PER_KWH:.3g}" for step in steps] == [
        "3.36", "4.11", "10.6",
    ]  # fmt: skip
    assert 5_300_000 <= steps[1].speedup_ppm <= 5_700_000
    assert 1_220_000 <= steps[1].energy_ppm <= 1_250_000


def test_resnet_and_ssd_from_8_to_64_gpus() -> None:
    for benchmark in ("resnet", "ssd"):
        first, second = strong_scaling()["Sustainable Metal Cloud (AC side)", benchmark]
        assert (first.gpus, second.gpus) == (8, 64)
        assert 1_200_000 <= second.energy_ppm <= 1_300_000
