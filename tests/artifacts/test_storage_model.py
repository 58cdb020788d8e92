"""Figures of keeping (accounting's worked examples), and keys that fingerprints name."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.files.manifests import File, Manifest
from labcarbon_collect.fingerprint.payload import data_part, start_part

from apps.artifacts.choices import Medium
from apps.artifacts.storage_model import (
    HOURS_PER_YEAR,
    MEDIUM_POWER,
    StoredBytes,
    break_even,
    content_hash,
    data_match_key,
    start_match_key,
    storage_energy,
    storage_mj,
    total_storage_energy,
)
from tests.artifacts.support import digest

HDD = MEDIUM_POWER[Medium.HDD].uwh
WH_MJ = 3_600_000


def test_a_terabyte_on_a_disk_for_a_year() -> None:
    assert storage_mj(10**12, HOURS_PER_YEAR, HDD) == 5_694 * WH_MJ


def test_a_kept_model_pays_above_five_per_cent() -> None:
    year_mj = storage_mj(1_300_000_000 * 3, HOURS_PER_YEAR, HDD, 1_400_000)
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
    told = start_part([file], [("", file.verified_hash([content]))])
    assert told["verified"] == start_match_key("file", digest("weights"), 7)
    folder = Manifest(
        "data", "/d", [File(b"a", b"/d/a", 7, 1, 1, 1, 1), File(b"b", b"/d/b", 0, 1, 1, 2, 1)]
    )
    whole = folder.verified_hash([content, bytes.fromhex(digest(""))])
    assert data_part([folder], [("data", whole)])["verified"] == data_match_key("folder", whole, 7)
    assert content_hash("folder", whole, 7) == whole


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Medium)),
            st.integers(0, 10**16),
            st.sampled_from([None, 10**6, 1_400_000]),
        )
    )
)
def test_what_keeping_takes_is_the_sum_of_its_lots(
    lots: list[tuple[Medium, int, int | None]],
) -> None:
    whole = total_storage_energy(StoredBytes(*lot) for lot in lots)
    each = [storage_energy(StoredBytes(*lot)) for lot in lots]
    assert whole.energy_mj == sum(one.energy_mj for one in each)
    assert whole.low_mj <= whole.energy_mj <= whole.high_mj
    assert whole.unknown_bytes == sum(size for medium, size, _ in lots if medium == Medium.UNKNOWN)
    assert whole.without_pue_bytes == sum(
        size for medium, size, pue in lots if medium != Medium.UNKNOWN and pue is None
    )


def test_nothing_stands_in_for_what_is_unknown() -> None:
    it = storage_energy(StoredBytes(Medium.UNKNOWN, 10**12))
    assert (it.energy_mj, it.high_mj, it.is_known) == (0, 0, False)
    assert total_storage_energy([]).is_known
    assert storage_energy(StoredBytes(Medium.HDD, 10**12, 1_400_000)).energy_mj == round(
        5_694 * WH_MJ * 1.4
    )
