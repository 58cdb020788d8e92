"""Reports the artifacts of ``labcarbon-collect run --input … --output …`` after the command has
ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import Callable, Iterator, List, Sequence

from labcarbon_collect.lineage.messages import PRODUCED, USED, declaration
from labcarbon_collect.lineage.queue import LineageQueue

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_POLL_S = 0.2


def report_lineage(
    run: str,
    *,
    used: Sequence[str],
    produced: Sequence[str],
    node: str,
    started_us: int,
    say: Callable[[str], None],
) -> None:
    """Read and report inputs and outputs. A signal ends the wait; the worker process continues."""
    queue = LineageQueue(run, os.environ, say=say, node=node)
    for role, paths in ((USED, used), (PRODUCED, produced)):
        for path in paths:
            try:
                artifact = declaration(role, path)
            except ValueError as error:
                queue.refuse(path, str(error))
            else:
                queue.add({**artifact, "since_ns": started_us * 1000})
    queue.finish()
    with _catch_signals() as signals:
        while not queue.wait(_POLL_S) and not signals:
            continue
    queue.close()


@contextmanager
def _catch_signals() -> Iterator[List[int]]:
    """Yield the list of signals received meanwhile. The command has ended, so they are meant for
    this process.
    """
    caught: List[int] = []
    previous = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    for number, handler in previous.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, lambda signal_number, _: caught.append(signal_number))
    try:
        yield caught
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
