"""Certificate ids: lists and ranges, and those with a common certificate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.carbon.market.certificate_ids import (
    IdRange,
    count_certificates,
    first_overlap,
    parse_ids,
)
from apps.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", []),
        (" \n ", []),
        ("GO-0012", [("GO-", 12, 12)]),
        ("GO-1\nGO-2, go-3;GO-5", [("GO-", 1, 1), ("GO-", 2, 2), ("GO-", 3, 3), ("GO-", 5, 5)]),
        ("GO-1 to GO-20", [("GO-", 1, 20)]),
        ("GO-1 – GO-20", [("GO-", 1, 20)]),
        ("GO-1–GO-20", [("GO-", 1, 20)]),
        ("GO-1 - GO-20", [("GO-", 1, 20)]),
        ("17..19", [("", 17, 19)]),
        ("ABC", [("ABC", -1, -1)]),
        ("6430024068010000000000001234567890", [("6430024068010000", 1234567890, 1234567890)]),
    ],
)
def test_ids(text: str, ranges: list[tuple[str, int, int]]) -> None:
    assert [(ids.prefix, ids.first, ids.last) for ids in parse_ids(text)] == ranges


@pytest.mark.parametrize(
    "text",
    [
        "GO-1 to", "GO-1 to GO-2 to GO-3", "GO-1 to REC-2", "GO-9 to GO-1", "ABC to ABC",
        "GO-1\nGO-001", "GO-1 to GO-5, GO-5", "x" * 101, "1 to 9999999",
        "\n".join(f"GO-{i}" for i in range(2001)),
    ],
)  # fmt: skip
def test_refused_ids(text: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_ids(text)
    assert error.value.field == "certificates"
    assert error.value.hint


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 30), st.integers(0, 5)), max_size=6)
)
def test_overlaps_are_those_of_the_sets_of_ids(entries: list[tuple[str, int, int]]) -> None:
    ranges = [IdRange(prefix, first, first + more, "") for prefix, first, more in entries]
    listed = [(ids.prefix, n) for ids in ranges for n in range(ids.first, ids.last + 1)]
    assert (first_overlap(ranges) is not None) == (len(set(listed)) < len(listed))
    assert count_certificates(ranges) == len(listed)
