"""Figures of keeping (accounting's worked examples), and keys that fingerprints name."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.fingerprint.manifests import File, Manifest
from labcarbon_collect.fingerprint.parts import data_part, start_part

from apps.artifacts.calc import HOURS_A_YEAR, POWER, break_even, content_hash, data_key, start_key, storage_mj
from apps.artifacts.choices import Medium
from tests.artifacts.support import digest

HDD = POWER[Medium.HDD].uwh
WH_MJ = 3_600_000


def test_a_terabyte_on_a_disk_for_a_year() -> None:
    assert storage_mj(10**12, HOURS_A_YEAR, HDD) == 5_694 * WH_MJ


def test_a_kept_model_pays_above_five_per_cent() -> None:
    year_mj = storage_mj(1_300_000_000 * 3, HOURS_A_YEAR, HDD, 1_400_000)
    assert round(year_mj / WH_MJ / 1000, 3) == 0.031
    chance = break_even(year_mj, 630 * WH_MJ)
    assert chance is not None
    assert Fraction(49, 1000) < chance < Fraction(50, 1000)
    assert break_even(year_mj, 0) is None


@given(st.lists(st.integers(0, 10**15), max_size=5), st.integers(0, 10**5))
def test_parts_are_within_half_a_millijoule_of_the_whole(sizes: list[int], hours: int) -> None:
    parts = sum(storage_mj(size, hours, HDD) for size in sizes)
    assert abs(parts - storage_mj(sum(sizes), hours, HDD)) <= len(sizes) / 2 + Fraction(1, 2)


def test_a_collectors_fingerprint_names_the_same_content() -> None:
    content = bytes.fromhex(digest("weights"))
    file = Manifest("", "/m/best.pt", [File(b"", b"/m/best.pt", 7, 1, 1, 1, 1)])
    told = start_part([file], [("", file.verified([content]))])
    assert told["verified"] == start_key("file", digest("weights"), 7)
    folder = Manifest("data", "/d", [File(b"a", b"/d/a", 7, 1, 1, 1, 1), File(b"b", b"/d/b", 0, 1, 1, 2, 1)])
    whole = folder.verified([content, bytes.fromhex(digest(""))])
    assert data_part([folder], [("data", whole)])["verified"] == data_key("folder", whole, 7)
    assert content_hash("folder", whole, 7) == whole
