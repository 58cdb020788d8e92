"""The oracle of the fault tests is judged by hand-made histories: what it must accept, and what
it must not.
"""

import pytest

from tests.faults.counters import Record
from tests.faults.ledger import CountedWindow
from tests.faults.oracle import _gap_mj

DEVICE = "gpu:0"


def window(
    epoch: str, seq: int, seconds: tuple[float, float], counter_mj: tuple[int, int]
) -> CountedWindow:
    start_us, end_us = (round(each * 1_000_000) for each in seconds)
    return CountedWindow(
        DEVICE, epoch, seq, start_us, end_us, *counter_mj, energy_mj=counter_mj[1] - counter_mj[0]
    )


def fallen() -> Record:
    """A counter that rose to 4 423 276 mJ, fell at 44.015 s and was at 59 760 mJ at once."""
    record = Record(4_000_000)
    record.rise(136_157)
    record.rise(287_119)
    record.fall(44_014_948)
    record.rise(59_760)
    return record


BEFORE = [window("a", 0, (40, 42), (4_000_000, 4_136_157))]


def test_a_restart_that_was_placed_before_the_fall_itself_is_still_after_it() -> None:
    after = [window("b", 1, (43.701737, 44), (0, 59_760))]
    assert _gap_mj(DEVICE, [BEFORE, after], fallen(), {(DEVICE, "a", 42_000_000)}) == 287_119


def test_an_undeclared_gap_is_detected() -> None:
    after = [window("b", 1, (44.1, 46), (0, 59_760))]
    with pytest.raises(AssertionError, match="no gap declared"):
        _gap_mj(DEVICE, [BEFORE, after], fallen(), set())


def test_double_counted_energy_is_detected() -> None:
    again = [window("b", 1, (42, 44), (4_000_000, 4_423_276))]
    with pytest.raises(AssertionError, match="counts again"):
        _gap_mj(DEVICE, [BEFORE, again], fallen(), {(DEVICE, "a", 42_000_000)})


def test_an_impossible_reading_is_detected() -> None:
    after = [window("b", 1, (44.1, 46), (0, 59_761))]
    with pytest.raises(AssertionError, match="never showed"):
        _gap_mj(DEVICE, [BEFORE, after], fallen(), {(DEVICE, "a", 42_000_000)})


def test_a_lost_window_behind_a_declared_gap_is_detected() -> None:
    """The first of an epoch, or the only one: what it counted would pass for energy of the
    stretch before it.
    """
    after = [window("b", 2, (44.1, 46), (0, 59_760))]
    with pytest.raises(AssertionError, match="are missing"):
        _gap_mj(DEVICE, [BEFORE, after], fallen(), {(DEVICE, "a", 42_000_000)})
    with pytest.raises(AssertionError, match="are missing"):
        _gap_mj(DEVICE, [after], fallen(), set())
