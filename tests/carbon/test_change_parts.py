"""Parts of a change: their sum is the difference, whatever the histories."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.change.parts import (
    COVERAGE,
    EDITION,
    EFFICIENCY,
    GRID,
    IDLE,
    MIX,
    OVERHEAD,
    PARTS,
    PLACE,
    PUE,
    UNATTRIBUTED,
    UNSEPARATED,
    USED,
    WORK,
    Coverage,
    Place,
    Use,
    divide_change,
    sum_parts,
)

KWH = 3_600_000_000  # mJ
CHARGES = (
    ("vision", USED), ("speech", USED), ("vision", IDLE), ("~idle", IDLE),
    ("~overhead", OVERHEAD), ("~unattributed", UNATTRIBUTED),
)  # fmt: skip
PLACES = st.builds(
    lambda charge, node: Place(*charge, node), st.sampled_from(CHARGES), st.sampled_from("abc")
)


def priced(
    hours: int, energy_mj: int, *, pue_percent: int = 100, g: int = 400, series: str = "de"
) -> Use:
    """Return a use of one PUE and one factor in g per kWh."""
    facility_mj = energy_mj * pue_percent // 100
    amount = facility_mj * g * 1_000_000 // KWH
    return Use(hours, energy_mj, facility_mj, amount, {series: (facility_mj, amount)})


def hourly_use(hours: int, energy_mj: int, facility_mj: int, g: int) -> Use:
    amount = facility_mj * g * 1_000_000 // KWH
    return Use(hours, energy_mj, facility_mj, amount, {"hourly DE": (facility_mj, amount)})


USES = st.builds(
    lambda hours, energy, pue, g, series: priced(
        hours, energy, pue_percent=pue, g=g, series=series
    ),
    st.integers(1, 10_000),
    st.integers(-1_000, 10 * KWH) | st.just(0),
    st.integers(100, 250),
    st.integers(1, 1500),
    st.sampled_from(["de", "fr", "7"]),
)
HISTORIES = st.dictionaries(PLACES, st.lists(USES, min_size=1, max_size=3).map(
    lambda uses: sum(uses[1:], uses[0])
), max_size=12)  # fmt: skip


@st.composite
def coverages(draw: st.DrawFn) -> dict[str, Coverage]:
    def of_node() -> Coverage:
        expected = draw(st.integers(0, 10**12)), draw(st.integers(0, 10**12))
        known = [draw(st.integers(0, most)) for most in expected]
        return Coverage(known[0], expected[0], known[1], expected[1])

    return {node: of_node() for node in draw(st.sets(st.sampled_from("abc")))}


def amounts(history: dict[Place, Use]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for place, use in history.items():
        sums[place.charge] = sums.get(place.charge, 0) + use.amount
    return sums


@settings(max_examples=300)
@given(HISTORIES, HISTORIES, coverages())
def test_the_parts_of_each_party_are_its_difference(
    before: dict[Place, Use], after: dict[Place, Use], coverage: dict[str, Coverage]
) -> None:
    divided = divide_change(before, after, coverage)
    old, new = amounts(before), amounts(after)
    for charge in {**old, **new}:
        expected = new.get(charge, 0) - old.get(charge, 0)
        assert sum(divided[charge].values()) == expected
    assert sum(sum_parts(divided).values()) == sum(new.values()) - sum(old.values())
    assert all(set(parts) <= set(PARTS) for parts in divided.values())
    back = divide_change(after, before, {
        node: Coverage(
            own.known_after_us, own.expected_after_us, own.known_before_us, own.expected_before_us
        )
        for node, own in coverage.items()
    })  # fmt: skip
    assert sum(sum_parts(back).values()) == -sum(sum_parts(divided).values())


@settings(max_examples=200)
@given(HISTORIES, st.dictionaries(st.sampled_from("abc"), st.tuples(
    st.integers(0, 10**12), st.integers(0, 10**12)
)))  # fmt: skip
def test_equal_periods_have_no_part(
    history: dict[Place, Use], times: dict[str, tuple[int, int]]
) -> None:
    coverage = {node: Coverage(min(t), max(t), min(t), max(t)) for node, t in times.items()}
    assert sum_parts(divide_change(history, history, coverage)) == {}


@given(HISTORIES)
def test_a_period_without_energy_has_the_whole_difference(history: dict[Place, Use]) -> None:
    whole = sum(use.amount for use in history.values())
    assert sum(sum_parts(divide_change({}, history, {})).values()) == whole
    assert sum(sum_parts(divide_change(history, {}, {})).values()) == -whole


@settings(max_examples=200)
@given(
    st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000),
    st.integers(KWH // 100, KWH), st.integers(KWH // 100, KWH),
)  # fmt: skip
def test_work_mix_and_efficiency_are_those_of_the_textbook(
    x0: int, x1: int, y0: int, y1: int, e0: int, e1: int
) -> None:
    """Oracle: fractions of the usual decomposition, over all projects."""
    x, y = Place("vision", USED, "a"), Place("speech", USED, "a")
    before = {x: priced(x0, x0 * e0), y: priced(y0, y0 * e1)}
    after = {x: priced(x1, x1 * e1), y: priced(y1, y1 * e0)}
    parts = sum_parts(divide_change(before, after, {}))
    rate = Fraction(400_000_000, KWH)
    scale = Fraction(x1 + y1, x0 + y0)
    work = rate * (x0 * e0 + y0 * e1) * (scale - 1)
    mix = rate * (e0 * (x1 - x0 * scale) + e1 * (y1 - y0 * scale))
    efficiency = rate * (x1 * (e1 - e0) + y1 * (e0 - e1))
    for part, exact in ((WORK, work), (MIX, mix), (EFFICIENCY, efficiency)):
        assert abs(parts.get(part, 0) - exact) <= 200_000, part  # µg: whole entries are rounded
    assert set(parts) <= {WORK, MIX, EFFICIENCY}


def test_each_cause_has_its_own_part() -> None:
    place = Place("vision", USED, "a")
    base = hourly_use(100, 100 * KWH, 100 * KWH, 400)
    cases = {
        WORK: hourly_use(110, 110 * KWH, 110 * KWH, 400),
        EFFICIENCY: hourly_use(100, 120 * KWH, 120 * KWH, 400),
        PUE: hourly_use(100, 100 * KWH, 150 * KWH, 400),
        GRID: hourly_use(100, 100 * KWH, 100 * KWH, 300),
        EDITION: priced(100, 100 * KWH, g=300, series="31"),
    }
    for part, later in cases.items():
        assert divide_change({place: base}, {place: later}, {}) == {
            "vision": {part: later.amount - base.amount}
        }


def test_a_grid_that_changes_and_another_factor_are_separate() -> None:
    place = Place("vision", USED, "a")
    before = {place: Use(10, 2 * KWH, 2 * KWH, 800, {"h": (KWH, 500), "1": (KWH, 300)})}
    after = {place: Use(10, 2 * KWH, 2 * KWH, 1_500_000, {"h": (2 * KWH, 1_500_000)})}
    parts = divide_change(before, after, {})["vision"]
    assert parts[GRID] == 1_500_000 - 2 * 500
    assert sum(parts.values()) == 1_500_000 - 800


def test_more_device_time_with_data_is_coverage() -> None:
    place, idle = Place("vision", USED, "a"), Place("~idle", IDLE, "a")
    before = {place: priced(60, 60 * KWH), idle: priced(60, 6 * KWH)}
    after = {place: priced(100, 100 * KWH), idle: priced(100, 10 * KWH)}
    divided = divide_change(before, after, {"a": Coverage(60, 100, 100, 100)})
    assert {charge: set(parts) for charge, parts in divided.items()} == {
        "vision": {COVERAGE},
        "~idle": {COVERAGE},
    }


def test_a_node_with_too_little_data_is_not_separated() -> None:
    place = Place("vision", USED, "a")
    divided = divide_change(
        {place: priced(10, 10 * KWH)},
        {place: priced(80, 90 * KWH, g=300)},
        {"a": Coverage(10, 100, 100, 100)},
    )
    assert set(divided["vision"]) == {UNSEPARATED}


def test_work_on_cleaner_nodes_is_no_efficiency() -> None:
    a, b = Place("vision", USED, "a"), Place("vision", USED, "b")

    def on_both(first: int, second: int) -> dict[Place, Use]:
        return {
            a: priced(first, first * KWH, g=400, series="1"),
            b: priced(second, second * KWH, g=100, series="2"),
        }

    before, after = on_both(100, 100), on_both(50, 150)
    assert divide_change(before, after, {}) == {"vision": {PLACE: -50 * 300 * 10**6}}


def test_a_new_project_is_valued_at_the_earlier_rate_of_its_node() -> None:
    old, new = Place("vision", USED, "a"), Place("speech", USED, "a")
    before = {old: priced(100, 100 * KWH, pue_percent=100)}
    after = {
        old: priced(100, 100 * KWH, pue_percent=150),
        new: priced(100, 100 * KWH, pue_percent=150),
    }
    divided = divide_change(before, after, {})
    assert divided["speech"] == {MIX: 40 * 10**9, PUE: 20 * 10**9}
    # The larger share of speech is a smaller one of vision; device-hours in total doubled.
    assert divided["vision"] == {WORK: 40 * 10**9, MIX: -40 * 10**9, PUE: 20 * 10**9}


def test_negative_node_overhead_is_its_own_line() -> None:
    place = Place("~overhead", OVERHEAD, "a")
    divided = divide_change({place: priced(1, -KWH)}, {place: priced(1, 2 * KWH)}, {})
    assert divided == {"~overhead": {OVERHEAD: 3 * 400 * 10**6}}
