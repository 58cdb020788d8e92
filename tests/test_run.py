"""When the suite is green."""

import pytest

from tests.run import verdict

NONE = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("codes", "asked", "code"),
    [
    ([0, 0], False, 0), ([0, 1], False, 1), ([0, NONE], False, NONE), ([NONE, NONE], False, NONE),
    ([0, NONE], True, 0), ([NONE, 1], True, 1), ([NONE, NONE], True, NONE), ([NONE], True, NONE),
],
)  # fmt: skip
def test_a_pass_without_tests_succeeds_only_beside_another(
    codes: list[int], asked: bool, code: int
) -> None:
    assert verdict(codes, is_selection=asked) == code
