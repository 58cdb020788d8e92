"""When the suite is green, and what it repeats at the end when it is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import ROOT, verdict

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


def test_failed_tests_and_their_messages_are_kept_for_the_end(tmp_path: Path) -> None:
    module, failed = tmp_path / "test_two.py", tmp_path / "failed"
    module.write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2, 'one is\\nnot two'\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError('broken fixture')\n"
        "def test_error(broken): pass\n"
    )
    arguments = ["-c", os.devnull, "-p", "tests.failed_tests", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(module)],
        cwd=ROOT, env={**os.environ, "LABCARBON_TEST_FAILED": str(failed)}, capture_output=True,
    )  # fmt: skip
    assert ended.returncode == 1
    bad, error = failed.read_text().splitlines()
    assert "test_bad" in bad
    assert "one is not two" in bad
    assert "test_error" in error
    assert "broken fixture" in error
