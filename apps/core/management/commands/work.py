"""The worker process: leases jobs and runs them until it is told to stop."""

import os
import signal
import socket
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.jobs import take_back_from_the_dead, work_until_empty


class Command(BaseCommand):
    help = "Work on jobs (settling the ledger, deriving factors) until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="work until nothing is due, then end")
        parser.add_argument("--pause", type=float, default=0.5, help="seconds to wait when nothing is due (0.5)")

    def handle(self, *args: Any, **options: Any) -> None:
        host = socket.gethostname()[:48]
        worker = f"{host}:{os.getpid()}"
        take_back_from_the_dead(host=host, alive=_alive)
        if options["once"]:
            self.stdout.write(f"{work_until_empty(worker=worker)} jobs done")
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            if work_until_empty(worker=worker, limit=20) == 0:
                stop.wait(options["pause"])


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, but there
        return True
    return True
