"""Acts in a process of its own, which may end in the middle of it."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable


def was_killed(act: Callable[[], object]) -> bool:
    """Whether a process that acts ends by SIGKILL. What it sets in modules goes with it; what it
    raises fails the test.
    """
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is: nothing of the test may go on twice
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it raised: see above"
    return os.WIFSIGNALED(status)


def kill() -> None:
    """End this process as SIGKILL does."""
    os.kill(os.getpid(), signal.SIGKILL)
