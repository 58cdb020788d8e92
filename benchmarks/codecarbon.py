"""How many of CodeCarbon's emissions a second a running server takes, how long the slowest wait,
and the work afterwards.
"""

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import os
import subprocess

MARK_PER_S, MARK_P99_MS = 400, 50

_TOKENS = """
from apps.accounts.models import Lab, Project
from apps.core.clock import now_us
from apps.fleet.models import Site
from apps.trackers.codecarbon.services.tokens import create_codecarbon_token
lab = Lab.objects.get()
for i in range({count}):
    print(create_codecarbon_token(lab=lab, name=f"bench {{i}}", project=Project.objects.get(slug="demo"), node=None,
        site=Site.objects.get(), client_pue_ppm=1_000_000, expires_us=None, by=lab.memberships.get().user, now=now_us())[1])
"""  # noqa: E501
_WORK = """
import time
from apps.core.jobs import work_until_empty
from apps.trackers.codecarbon.models import CodeCarbonInterval, CodeCarbonPost
begun = time.perf_counter()
while time.perf_counter() - begun < 60 and work_until_empty(worker="bench", limit=1):
    pass
print(CodeCarbonInterval.objects.count(), CodeCarbonPost.objects.exclude(problem="").count(), time.perf_counter() - begun)
"""  # noqa: E501


class Client(threading.Thread):
    """One machine that posts its intervals, each over a connection of its own as the real client
    does.
    """

    def __init__(self, port: int, token: str, intervals: int, per_s: float) -> None:
        super().__init__()
        self._port, self._path, self._intervals, self._pause_s = (
            port,
            f"/codecarbon/{token}",
            intervals,
            1 / per_s if per_s else 0,
        )
        self.waits_s: list[float] = []
        self.failures = 0

    def post(self, door: str, body: dict[str, object]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request(
            "POST", self._path + door, json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.failures += answer.status != 201
        return content

    def run(self) -> None:
        facts = {
            "cpu_model": "EPYC",
            "cpu_count": 32,
            "gpu_model": "4 x A100",
            "gpu_count": 4,
            "ram_total_size": 512.0,
        }
        run = json.loads(self.post("/runs", facts))["id"]
        first = time.time() - 2 * self._intervals
        due = time.perf_counter()
        for i in range(self._intervals):
            due += self._pause_s
            time.sleep(max(0.0, due - time.perf_counter()))
            moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(first + 2 * i))
            energy = {
                "cpu_energy": 1e-5 + 1e-8 * i,
                "gpu_energy": 2e-5,
                "ram_energy": 1e-6,
                "energy_consumed": 3.1e-5,
            }
            started_s = time.perf_counter()
            self.post(
                "/emissions",
                {
                    "timestamp": moment,
                    "run_id": run,
                    "duration": 2,
                    "emissions_sum": 1e-5,
                    **energy,
                },
            )
            self.waits_s.append(time.perf_counter() - started_s)


def volley(port: int, tokens: list[str], each: int, per_s: float) -> tuple[float, list[float], int]:
    """Let one client per token post ``each`` emissions; return (a second, sorted waits in ms,
    answers that were not 201).
    """
    clients = [Client(port, token, each, per_s / len(tokens)) for token in tokens]
    started_s = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    took = time.perf_counter() - started_s
    waits = sorted(wait * 1000 for client in clients for wait in client.waits_s)
    return len(waits) / took, waits, sum(client.failures for client in clients)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--each", type=int, default=400, help="emissions a client")
    options = parser.parse_args()
    from tests.faults.installation import ROOT, Installation
    from tests.services.postgres import Postgres
    from tests.services.process import answers, end_process, end_with_parent, wait_until

    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-")))
        os.environ["LABCARBON_TEST_SHARED"] = str(scratch)
        url = stack.enter_context(Postgres()).url if options.postgres else ""
        here = Installation(scratch / "data", database_url=url)
        here.prepare()
        here.codes()
        tokens = here.shell(_TOKENS.format(count=options.clients)).splitlines()[-options.clients :]
        command = here.command("web server")
        if options.postgres:  # two web processes, as the entry point of the image starts them
            command[command.index("--workers") + 1] = "2"
        with here.log("web").open("ab") as log:
            web = subprocess.Popen(
                end_with_parent(command), env=here.environ, cwd=ROOT, stdout=log, stderr=log
            )
        stack.callback(end_process, web)
        wait_until(
            lambda: answers(f"http://127.0.0.1:{here.port}/livez"),
            what="the first answer",
            seconds=60,
        )
        volley(here.port, tokens, 20, 0)  # what is loaded at first is not measured
        most, _, failed = volley(here.port, tokens, options.each, 0)
        _, waits, failed_too = volley(here.port, tokens, options.each, MARK_PER_S)
        p99 = waits[int(len(waits) * 0.99)]
        print(
            f"{'postgresql' if options.postgres else 'sqlite'}, {options.clients} clients, "
            f"{os.cpu_count()} cores for all"
        )
        print(
            f"as fast as they can     {most:8.0f} emissions/s   {most / MARK_PER_S:5.2f} of the "
            f"mark ({MARK_PER_S}/s)"
        )
        print(
            f"at {MARK_PER_S}/s                median {statistics.median(waits):6.1f} ms   p99 "
            f"{p99:6.1f} ms   "
            f"{p99 / MARK_P99_MS:5.2f} of the mark ({MARK_P99_MS} ms)"
        )
        print(f"answers other than 201  {failed + failed_too:8d}")
        stored, problems, work_s = here.shell(_WORK).splitlines()[-1].split()
        print(
            f"work afterwards         {int(stored) / float(work_s):8.0f} emissions/s by one "
            f"worker; {problems} not counted"
        )


if __name__ == "__main__":
    main()
