"""Response times of other clients while 500 slow connections are open, with the same server without
them: ``python -m benchmarks.slow_clients``.

A third of the connections send half of the headers, a third half of a body, a third nothing.
Connections that the server closes are opened again. ``--command`` measures another server: {port}
is replaced.
"""

import argparse
import http.client
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from statistics import quantiles
from typing import Self

from tests.faults.installation import ROOT, Installation
from tests.services.process import answers, end_process, wait_until

_STARTS = (
    b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /api/v1/enrol/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
    b"",
)
_CLIENTS = 3
_PAUSE_S = 0.02


class SlowClients:
    """Keeps ``count`` slow connections open."""

    def __init__(self, port: int, count: int) -> None:
        self._port, self._count = port, count
        self.open: dict[int, socket.socket] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: len(self.open) == self._count, what="the slow connections")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        for connection in self.open.values():
            connection.close()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            for number in range(self._count):
                if self._is_closed(number):
                    self._connect(number)

    def _is_closed(self, number: int) -> bool:
        if number not in self.open:
            return True
        try:
            return not self.open[number].recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _connect(self, number: int) -> None:
        if number in self.open:
            self.open[number].close()
        try:
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            connection.sendall(_STARTS[number % len(_STARTS)])
        except OSError:
            return
        connection.setblocking(False)
        self.open[number] = connection


def measure(port: int, seconds: float) -> list[float]:
    """Return the response times (ms) of clients that load a page with new connections. A request
    without a response counts with its ten seconds.
    """
    times: list[float] = []
    until = time.monotonic() + seconds

    def load() -> None:
        while time.monotonic() < until:
            started = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("GET", "/accounts/login/")
                connection.getresponse().read()
            except OSError:
                pass
            connection.close()
            times.append((time.monotonic() - started) * 1000)
            time.sleep(_PAUSE_S)

    threads = [threading.Thread(target=load) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def main() -> None:
    """Print the figures of both phases and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--command", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labcarbon-slow-") as folder:
        place = Installation(Path(folder))
        place.manage("migrate", "--no-input", "--verbosity", "0")
        place.shell("from labcarbon.static_collection import collect_static; collect_static()")
        command = shlex.split(options.command.format(port=place.port)) or place.command(
            "web server"
        )
        with (Path(folder) / "web.log").open("wb") as log:
            web = subprocess.Popen(command, cwd=ROOT, env=place.environ, stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(f"{place.url}/livez"), what="the first response")
            measure(place.port, 3)
            # alone before and after, because other load of the machine changes meanwhile
            alone_s = min(options.seconds, 60) / 2
            alone = measure(place.port, alone_s)
            with SlowClients(place.port, options.connections):
                beside = measure(place.port, options.seconds)
            alone += measure(place.port, alone_s)
        finally:
            end_process(web)
    before, after = quantiles(alone, n=100), quantiles(beside, n=100)
    print(f"alone: median {before[49]:.1f} ms, p95 {before[94]:.1f} ms")
    print(
        f"beside {options.connections} slow connections for {options.seconds:.0f} s: "
        f"median {after[49]:.1f} ms, p95 {after[94]:.1f} ms"
    )
    print(f"ratio of p95: {after[94] / before[94]:.2f}")


if __name__ == "__main__":
    main()
