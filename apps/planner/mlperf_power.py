"""Energy of MLPerf runs from ``apps/catalog/data/mlperf_power.csv``: samples per joule of a card,
and strong scaling.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from apps.catalog.data_files import rows_of
from apps.catalog.matching import match_key
from apps.catalog.packs import DATA
from apps.core.units import US_PER_S, kwh_to_mj
from apps.planner.formulas.places import ScalingStep, compare_scaling, usamples_per_joule
from apps.planner.formulas.ranges import rounded

POWER = DATA / "mlperf_power.csv"
# Names of accelerators in MLPerf, and in the catalogue.
_CARDS = {
    "NVIDIA H100-SXM5-80GB": "NVIDIA H100 80GB HBM3",
    "NVIDIA H200-SXM-141GB": "NVIDIA H200",
}


@dataclass(frozen=True)
class Efficiency:
    """Samples (or tokens) per joule of a whole node, in millionths."""

    suite: str
    system: str
    benchmark: str
    scenario: str
    unit: str  # 'samples', 'tokens'
    usamples_per_joule: int

    @property
    def label(self) -> str:
        """Return where it was measured: 'MLPerf Inference v4.1 resnet50, Offline'."""
        return f"{self.suite} {self.benchmark}, {self.scenario}"


@cache
def efficiencies() -> dict[str, tuple[Efficiency, ...]]:
    """Return the rows with a throughput by the match key of their card, in the table's order."""
    found: dict[str, list[Efficiency]] = defaultdict(list)
    for row in rows_of(POWER):
        if not row["throughput"]:
            continue
        card = _CARDS.get(row["accelerator"], row["accelerator"])
        found[match_key(card)].append(
            Efficiency(
                row["suite"],
                row["system"],
                row["benchmark"],
                row["scenario"],
                row["throughput_unit"].removesuffix("/s"),
                usamples_per_joule(Fraction(row["throughput"]), Fraction(row["mean_node_w"])),
            )
        )
    return {card: tuple(rows) for card, rows in found.items()}


def efficiency_of(card: str, benchmark: str) -> Efficiency | None:
    """Return the samples per joule of a benchmark on a card, in the scenario Offline, else None."""
    rows = efficiencies().get(match_key(card), ())
    return next(
        (
            row
            for row in rows
            if row.benchmark == benchmark
            and row.scenario.lower() == "offline"
            and row.unit == "samples"
        ),
        None,
    )


def benchmarks() -> list[str]:
    """Return the benchmarks with samples per joule, by name."""
    return sorted({row.benchmark for rows in efficiencies().values() for row in rows})


@cache
def strong_scaling() -> dict[tuple[str, str], tuple[ScalingStep, ...]]:
    """Return {(submitter, benchmark): trainings on more and more nodes} where there are several."""
    groups: dict[tuple[str, str], list[ScalingStep]] = defaultdict(list)
    for row in rows_of(POWER):
        if row["scenario"] == "time-to-train":
            groups[row["submitter"], row["benchmark"]].append(
                ScalingStep(
                    int(row["n_nodes"]),
                    int(row["n_accelerators"]),
                    rounded(Fraction(row["mean_seconds"]) * US_PER_S),
                    kwh_to_mj(Fraction(row["energy_kwh"])),
                )
            )
    return {key: tuple(compare_scaling(steps)) for key, steps in groups.items() if len(steps) > 1}
