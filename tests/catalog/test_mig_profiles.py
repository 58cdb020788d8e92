"""Each row of the table of MIG slices, and names and values of drivers."""

import csv
import re
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from apps.catalog.choices import Confidence
from apps.catalog.mig_profiles import MigCard, select_mig_card
from apps.catalog.packs import DATA
from apps.catalog.selectors import mig_cards

with (DATA / "mig_profiles.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))

# Start positions of the memory slices of each profile (NVIDIA MIG User Guide, placements).
STARTS = {
    8: {(1, 1): range(7), (1, 2): (0, 2, 4, 6), (2, 2): (0, 2, 4), (3, 4): (0, 4), (4, 4): (0,),
        (7, 8): (0,)},
    4: {(1, 1): range(4), (2, 2): (0, 2), (4, 4): (0,)},
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['card']} {row['profile']}")
def test_a_row_agrees_with_itself(row: dict[str, str]) -> None:
    compute, memory = Fraction(row["compute_fraction"]), Fraction(row["memory_fraction"])
    assert 0 < compute <= 1
    assert 0 < memory <= 1
    assert int(row["max_instances"]) == min(1 // compute, 1 // memory)
    name = re.fullmatch(r"(\d)g\.(\d+)gb", row["profile"])
    assert name is not None
    assert row["compute_fraction"].startswith(f"{name[1]}/")
    assert abs(int(name[2]) - memory * int(row["memory_gb"])) <= 1
    assert (row["sm_count"] == "") == (row["card_sm_count"] == "")
    if row["sm_count"]:
        most = int(row["card_sm_count"]) // int(row["max_instances"])
        assert 0 < int(row["sm_count"]) <= most
    assert row["confidence"] in set(Confidence.values)


def test_each_row_is_a_profile_of_its_card() -> None:
    profiles = [(card.name, profile.name) for card in mig_cards() for profile in card.profiles]
    assert profiles == [(row["card"], row["profile"]) for row in ROWS]
    assert len(set(profiles)) == len(ROWS) == 33


@pytest.mark.parametrize("card", mig_cards(), ids=lambda card: card.name)
def test_a_profile_with_more_compute_has_no_less_memory(card: MigCard) -> None:
    """The packing of jobs relies on it."""
    sizes = sorted((each.compute_slices, each.memory_slices) for each in card.profiles)
    assert [memory for _, memory in sizes] == sorted(memory for _, memory in sizes)


@pytest.mark.parametrize("card", mig_cards(), ids=lambda card: card.name)
def test_slices_whose_sums_fit_can_be_placed(card: MigCard) -> None:
    """The sums of compute and memory slices are enough: a placement of the slices exists exactly
    for those sets.
    """
    for size in range(1, card.compute_slices + 1):
        for profiles in combinations_with_replacement(card.profiles, size):
            fits = (
                sum(each.compute_slices for each in profiles) <= card.compute_slices
                and sum(each.memory_slices for each in profiles) <= card.memory_slices
            )
            sizes = sorted(
                ((each.compute_slices, each.memory_slices) for each in profiles), reverse=True
            )
            assert fits == _can_place(sizes, frozenset(), card.memory_slices), profiles


def _can_place(sizes: list[tuple[int, int]], used: frozenset[int], memory_slices: int) -> bool:
    if not sizes:
        return True
    (compute, memory), rest = sizes[0], sizes[1:]
    for start in STARTS[memory_slices][compute, memory]:
        part = frozenset(range(start, start + memory))
        if not part & used and _can_place(rest, used | part, memory_slices):
            return True
    return False


@pytest.mark.parametrize(
    ("name", "card", "profile", "sms", "card_sms"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB", "1g.5gb", 14, 108),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB", "7g.80gb", 98, 108),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB", "3g.40gb", 60, 132),
        ("NVIDIA A30", "NVIDIA A30", "4g.24gb", 56, 56),
    ],
)
def test_names_of_drivers(name: str, card: str, profile: str, sms: int, card_sms: int) -> None:
    found = select_mig_card(mig_cards(), name)
    assert found is not None
    assert found.name == card
    counts = {each.name: each.sm_count for each in found.profiles}
    assert (counts[profile], found.sm_count) == (sms, card_sms)


@pytest.mark.parametrize("name", ["NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4090", ""])
def test_other_cards_have_no_known_slices(name: str) -> None:
    assert select_mig_card(mig_cards(), name) is None


def test_values_of_the_driver_precede_the_table() -> None:
    card = select_mig_card(mig_cards(), "NVIDIA B200")
    assert card is not None
    assert card.sm_count is None
    reported = card.with_driver_values(
        sm_count=148,
        memory_bytes=191 * 10**9,
        profile_sm_counts={"1g.23gb": 18},
        profile_memory_bytes={"1g.23gb": 24 * 10**9},
    )
    first, second = reported.profiles[:2]
    assert (reported.sm_count, reported.memory_bytes) == (148, 191 * 10**9)
    assert (first.sm_count, first.memory_bytes) == (18, 24 * 10**9)
    assert second == card.profiles[1]
