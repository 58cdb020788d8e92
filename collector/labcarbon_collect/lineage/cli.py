"""What ``labcarbon-collect run --used … --produced …`` tells once the command has ended."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import Callable, Iterator, List, Sequence

from labcarbon_collect.lineage.messages import PRODUCED, USED, declared
from labcarbon_collect.lineage.queue import LineageJob

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOOK_S = 0.2


def tell_lineage(
    run: str, *, used: Sequence[str], produced: Sequence[str], node: str, started_us: int, say: Callable[[str], None]
) -> None:
    """Read and tell of both. A signal ends the waiting, not the reading."""
    job = LineageJob(run, os.environ, say=say, node=node)
    for role, paths in ((USED, used), (PRODUCED, produced)):
        for path in paths:
            try:
                told = declared(role, path)
            except ValueError as wrong:
                job.refuse(path, str(wrong))
            else:
                job.add({**told, "since_ns": started_us * 1000})
    job.over()
    with _stopped() as signals:
        while not job.wait(_LOOK_S) and not signals:
            continue
    job.close()


@contextmanager
def _stopped() -> Iterator[List[int]]:
    """The signals that came meanwhile; the command has ended, so that they are meant for us."""
    came: List[int] = []
    before = {number: signal.getsignal(number) for number in _STOPPING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, lambda taken, _: came.append(taken))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
