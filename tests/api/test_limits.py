"""What is too much is refused without being swallowed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import installation_environment
from tests.services.data_directories import prepare_data_dir

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("unpacked", [32 << 20, 1000 << 20])
def test_a_gzip_bomb_is_413_in_little_memory(tmp_path: Path, unpacked: int) -> None:
    prepare_data_dir(tmp_path)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
    }
    told = subprocess.run(
        [sys.executable, "-m", "tests.api.bomb", str(unpacked)],
        cwd=ROOT,
        env={**environment, **installation_environment(str(tmp_path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    status, packed, grown_kib = (int(word) for word in told.stdout.split()[-3:])
    assert status == 413
    assert packed < 1 << 20  # within the limit on the wire: it is the unpacking that stops it
    assert grown_kib < 32 << 10
