"""The worker process: leases and runs jobs until it is stopped."""

import logging
import os
import signal
import socket
import threading
import time
from typing import Any

from django.core.management.base import CommandParser
from django.db import Error, close_old_connections

from apps.core.database.health import unavailability_of
from apps.core.jobs import enqueue_periodic_jobs, release_dead_leases, run_until_idle
from apps.core.management.base import MinimalCommand

log = logging.getLogger(__name__)

_DATABASE_PAUSE_S = 1.0
_REPEAT_S = 600.0


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
        reported, reported_s = "", 0.0
        while not stop.is_set():
            try:
                close_old_connections()  # also if the file was replaced
                if needs_release:
                    # At the start, and after a loss of the database, this process runs no job.
                    # Leases of its own pid are
                    # leftovers of itself or of a dead process with the same pid.
                    release_dead_leases(
                        host=host, is_alive=lambda pid: pid != os.getpid() and _is_alive(pid)
                    )
                    enqueue_periodic_jobs()
                    needs_release = False
                done = run_until_idle(worker=worker, limit=20)
                if reported:
                    log.warning("the database can be used again")
                    reported = ""
            except Error as error:
                reason = unavailability_of(error)
                if reason is None:
                    raise
                if reason.problem != reported or time.monotonic() - reported_s > _REPEAT_S:
                    log.error("%s", reason.explain())
                    reported, reported_s = reason.problem, time.monotonic()
                close_old_connections()
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
