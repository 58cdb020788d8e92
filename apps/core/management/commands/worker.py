"""The worker process: leases and runs jobs until it is stopped."""

import logging
import os
import signal
import socket
import threading
from typing import Any

from django.core.management.base import CommandParser
from django.db import InterfaceError, OperationalError, connection

from apps.core.clock import now_us
from apps.core.jobs import enqueue_daily_jobs, release_dead_leases, run_until_idle
from apps.core.management.base import MinimalCommand

log = logging.getLogger(__name__)

_DATABASE_PAUSE_S = 1.0
_CHECK_INTERVAL_US = 600_000_000  # of daily jobs


class Command(MinimalCommand):
    help = "Run jobs (settle the ledger, derive factors) until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="run all due jobs, then exit")
        parser.add_argument(
            "--pause", type=float, default=0.5, help="seconds to wait while no job is due (0.5)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host = socket.gethostname()[:48]
        worker = f"{host}:{os.getpid()}"
        if options["once"]:
            release_dead_leases(host=host, is_alive=_is_alive)
            self.stdout.write(f"{run_until_idle(worker=worker)} jobs done")
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        needs_release = True
        next_check_us = 0
        while not stop.is_set():
            try:
                if needs_release:
                    # At the start, and after a loss of the database, this process runs no job.
                    # Leases of its own pid are
                    # leftovers of itself or of a dead process with the same pid.
                    release_dead_leases(
                        host=host, is_alive=lambda pid: pid != os.getpid() and _is_alive(pid)
                    )
                    needs_release = False
                if now_us() >= next_check_us:
                    enqueue_daily_jobs(now=now_us())
                    next_check_us = now_us() + _CHECK_INTERVAL_US
                done = run_until_idle(worker=worker, limit=20)
            except (OperationalError, InterfaceError) as error:
                log.warning(
                    "the database does not respond, retrying: %s", str(error).splitlines()[0]
                )
                connection.close_if_unusable_or_obsolete()
                done, needs_release = 0, True
                stop.wait(_DATABASE_PAUSE_S)
            if done == 0:
                stop.wait(options["pause"])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # exists, but belongs to another user
        return True
    return True
