"""The 95th percentile of uploads while 50 live pages are open, compared with the same server
without them: ``python -m benchmarks.live_pages``.

Each node uploads its eight GPUs once a minute. Each page requests its part every ten seconds with
the version that it has, as a browser does. Phases with and without pages alternate, because other
load of the machine changes meanwhile.
"""

import argparse
import gzip
import http.client
import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any, Self

from tests.faults.installation import ROOT, Installation
from tests.services.postgres import Postgres
from tests.services.process import answers, end_process, end_with_parent, wait_until

MARK = 1.2
GPUS, POLL_S, UPLOAD_S = 8, 10.0, 60.0

_NODES = """
from uuid import uuid4
from django.conf import settings
from django.test import Client
from apps.accounts.models import Lab
from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.fleet.models import Site
from apps.fleet.services import register_node
lab, now = Lab.objects.get(), now_us()
for i in range({count}):
    node = register_node(lab=lab, uuid=uuid4(), hostname=f"gpu-{{i}}", facts={{}},
        site=Site.objects.get(), now=now)
    print("node", node.uuid, issue_node_token(lab=lab, node_uuid=node.uuid, now=now))
client = Client()
client.force_login(lab.memberships.get().user)
name = settings.SESSION_COOKIE_NAME
print("session", f"{{name}}={{client.cookies[name].value}}")
"""


class UploadingNode:
    """A node that uploads what its GPUs used since its last upload."""

    def __init__(self, node: str, token: str, number: int) -> None:
        self.node, self._token, self._number = node, token, number
        self._boot, self._sequence = str(uuid.uuid4()), 0
        self._end_us = int((time.time() - UPLOAD_S) * 1e6)

    def body(self) -> bytes:
        """Return the next batch."""
        start_us, end_us = self._end_us, int(time.time() * 1e6)
        self._end_us, self._sequence = end_us, self._sequence + 1
        used = 60_000 * GPUS
        columns: dict[str, Any] = {
            "device": list(range(GPUS)),
            "epoch": [f"{self._boot}/{i}" for i in range(GPUS)],
            "seq": [self._sequence] * GPUS,
            "start": [start_us] * GPUS,
            "end": [end_us] * GPUS,
            "mono_start": [start_us - 1_700_000_000_000_000] * GPUS,
            "mono_end": [end_us - 1_700_000_000_000_000] * GPUS,
            "counter_start": [self._sequence * used] * GPUS,
            "counter_end": [self._sequence * used + 60_000] * GPUS,
            "energy_mj": [60_000] * GPUS,
            "measurement": ["nvml_counter"] * GPUS,
            "flags": [0] * GPUS,
            "util_mean_pm": [640] * GPUS,
            "util_max_pm": [990] * GPUS,
            "mem_mean_mib": [30_000] * GPUS,
            "mem_max_mib": [31_000] * GPUS,
            "processes": [2] * GPUS,
        }
        shares = [(i, part, 30_000) for i in range(GPUS) for part in (0, 1)]
        names = ("window", "consumer", "energy_mj")
        return json.dumps(
            {
                "schema": "1.0",
                "batch": str(uuid.uuid4()),
                "sent_at": end_us,
                "node": self.node,
                "boot": self._boot,
                "monotonic": end_us - 1_700_000_000_000_000,
                "devices": [f"gpu:GPU-{self._number:04d}-{i:04d}" for i in range(GPUS)],
                "consumers": ["proc:ada/python", "idle"],
                "windows": columns,
                "shares": {name: [row[i] for row in shares] for i, name in enumerate(names)},
                "gaps": [],
                "health": {},
            }
        ).encode()

    def upload(self, connection: http.client.HTTPConnection) -> None:
        """Upload the next batch. Raises AssertionError unless all windows are accepted."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        connection.request("POST", "/api/v1/ingest/", gzip.compress(self.body(), 6), headers)
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        assert json.loads(content)["results"] == [["accepted"]] * GPUS, content


class OpenPages:
    """``count`` open live pages. ``statuses``: responses by status."""

    def __init__(self, port: int, session: str, nodes: list[UploadingNode], count: int) -> None:
        self._port, self._session = port, session
        self._nodes = [nodes[i % len(nodes)].node for i in range(count)]
        self._tags = [""] * count  # a page stays open in the phases without requests
        self._stop = threading.Event()
        self.statuses: dict[int, int] = {}
        self.times_ms: list[float] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._poll, args=(i, node), daemon=True)
            for i, node in enumerate(self._nodes)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _poll(self, number: int, node: str) -> None:
        if self._stop.wait(POLL_S * number / len(self._nodes)):
            return
        while True:
            headers = {
                "Cookie": self._session,
                "HX-Request": "true",
                "If-None-Match": self._tags[number],
            }
            started = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            connection.request("GET", f"/nodes/{node}/live/", headers=headers)
            response = connection.getresponse()
            response.read()
            connection.close()
            self.times_ms.append((time.perf_counter() - started) * 1000)
            assert response.status in {200, 304}, response.status
            self._tags[number] = response.headers["ETag"]
            self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
            if self._stop.wait(POLL_S):
                return


def uploads(port: int, nodes: list[UploadingNode], first: int, seconds: float) -> list[float]:
    """Let the nodes upload in turn, each once a minute. Return the response times (ms), from the
    time at which each upload was due.
    """
    times = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    due = time.perf_counter()
    for i in range(int(seconds * len(nodes) / UPLOAD_S)):
        time.sleep(max(0.0, due - time.perf_counter()))
        started = max(due, time.perf_counter() - 30)
        nodes[(first + i) % len(nodes)].upload(connection)
        times.append((time.perf_counter() - started) * 1000)
        due += UPLOAD_S / len(nodes)
    connection.close()
    return times


def main() -> None:
    """Print the figures of both kinds of phases and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=240)
    parser.add_argument("--phases", type=int, default=4, help="of each kind")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each phase")
    options = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-")))
        os.environ["LABCARBON_TEST_SHARED"] = str(scratch)
        url = stack.enter_context(Postgres()).url if options.postgres else ""
        here = Installation(scratch / "data", database_url=url)
        here.prepare()
        here.codes()
        lines = [
            line.split() for line in here.shell(_NODES.format(count=options.nodes)).splitlines()
        ]
        nodes = [
            UploadingNode(line[1], line[2], i)
            for i, line in enumerate(line for line in lines if line[:1] == ["node"])
        ]
        session = next(line[1] for line in lines if line[:1] == ["session"])
        with here.log("web").open("ab") as log:
            web = subprocess.Popen(
                end_with_parent(here.command("web server")),
                env=here.environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        stack.callback(end_process, web)
        wait_until(
            lambda: answers(f"http://127.0.0.1:{here.port}/livez"), what="the first response"
        )
        pages = OpenPages(here.port, session, nodes, options.pages)
        with pages:  # loads the server and the pages
            uploads(here.port, nodes, 0, UPLOAD_S / 4)
        pages.statuses.clear()
        pages.times_ms.clear()
        alone: list[float] = []
        beside: list[float] = []
        first = len(nodes) // 4
        for _ in range(options.phases):
            alone += uploads(here.port, nodes, first, options.seconds)
            first += int(options.seconds * len(nodes) / UPLOAD_S)
            with pages:
                beside += uploads(here.port, nodes, first, options.seconds)
            first += int(options.seconds * len(nodes) / UPLOAD_S)
    before, after = quantiles(alone, n=100), quantiles(beside, n=100)
    print(
        f"{'postgresql' if options.postgres else 'sqlite'}, {options.nodes} nodes of {GPUS} GPUs, "
        f"{options.phases} phases of {options.seconds:.0f} s each, {os.cpu_count()} cores for all"
    )
    print(f"uploads alone: {len(alone)}, median {before[49]:.1f} ms, p95 {before[94]:.1f} ms")
    print(
        f"beside {options.pages} pages: {len(beside)}, median {after[49]:.1f} ms, "
        f"p95 {after[94]:.1f} ms"
    )
    page_times = quantiles(pages.times_ms, n=100)
    print(
        f"pages: {sum(pages.statuses.values())} requests, {pages.statuses.get(304, 0)} times 304, "
        f"median {page_times[49]:.1f} ms, p95 {page_times[94]:.1f} ms"
    )
    ratio = after[94] / before[94]
    print(f"ratio of p95: {ratio:.2f} (mark {MARK})")


if __name__ == "__main__":
    main()
