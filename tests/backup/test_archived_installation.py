"""A short version of the benchmark: sealed, explained, backed up and restored, with the same
integers.
"""

import subprocess
import sys

from tests.services.data_directories import ROOT


def test_the_benchmark_of_sealing_compares_all_integers() -> None:
    result = subprocess.run(
        [sys.executable, "benchmarks/seal.py", "--months", "0.07"],
        cwd=ROOT, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "the same integers and explanations" in result.stdout
    assert "11520 windows sealed" in result.stdout
