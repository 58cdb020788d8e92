"""The supervisor of the fault tests: a process is back only after the killed one ended."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.faults.supervisor import SupervisedProcess, is_alive


def test_a_process_is_not_back_while_the_killed_one_still_answers(tmp_path: Path) -> None:
    """SIGKILL takes a while on a busy machine. Until then the killed process answers."""
    supervised = SupervisedProcess(
        "web", ["sleep", "60"], {"PATH": "/usr/bin:/bin"}, tmp_path / "log", lambda pid: True
    )
    supervised.start()
    assert supervised.process is not None
    try:
        supervised.since, supervised.victim = time.monotonic(), supervised.pid
        supervised.restart_if_ended()
        assert supervised.since is not None
        supervised.kill(supervised.pid)
        supervised.process.wait()
        supervised.restart_if_ended()  # starts it again
        supervised.restart_if_ended()
        assert supervised.since is None
        assert supervised.starts == 2
    finally:
        supervised.process.kill()
        supervised.process.wait()


def test_a_process_that_waits_for_its_parent_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as process:
        while is_alive(process.pid):
            time.sleep(0.005)
        assert Path(f"/proc/{process.pid}").exists()
    assert not is_alive(process.pid)
