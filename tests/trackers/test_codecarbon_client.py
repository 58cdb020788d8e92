"""The real client, unmodified, against a running server: nothing is lost but what it does not send itself."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.faults.installation import ROOT, Installation
from tests.services import codecarbon
from tests.services.process import answers, dies_with_us, end, free_port, wait_until

pytestmark = pytest.mark.codecarbon

_TOKENS = """
import json
from apps.accounts.models import Project, User
from apps.accounts.services import create_lab
from apps.core.clock import now_us
from apps.fleet.services import create_site
from apps.trackers.codecarbon.services.sources import create_codecarbon_token
owner = User.objects.create_user("owner")
lab = create_lab(name="Fault Lab", time_zone="UTC", owner=owner, now=now_us())
site = create_site(lab=lab, name="Here", kind="workstation", zone="DE")
print(json.dumps({pue_ppm: create_codecarbon_token(lab=lab, name="notebooks", project=Project.objects.get(slug="demo"),
    node=None, site=site, client_pue_ppm=pue_ppm, expires_us=None, by=owner, now=now_us())[1]
    for pue_ppm in (1_000_000, 1_600_000)}))
"""
_BOOKS = """
import json
from django.db.models import F, Sum
from apps.core.clock import now_us
from apps.core.models import Job
from apps.energy.models import LedgerEntry
from apps.runs.models import Run
from apps.trackers.models import CodeCarbonInterval, CodeCarbonPost
runs = list(Run.objects.values_list("name", "state", "teller"))
told = CodeCarbonInterval.objects.aggregate(**{n: Sum(n) for n in ("gpu_mj", "cpu_mj", "ram_mj", "client_ug")})
spans = list(CodeCarbonInterval.objects.order_by("start_us").values_list("start_us", "end_us"))
print(json.dumps({"runs": runs, "told": told, "posts": CodeCarbonPost.objects.count(), "spans": spans,
    "problems": list(CodeCarbonPost.objects.exclude(problem="").values_list("problem", flat=True)),
    "waiting": CodeCarbonPost.objects.filter(worked=False).count(),
    "due": Job.objects.filter(done__lt=F("requested"), due_us__lte=now_us()).count(),
    "ledger_mj": LedgerEntry.objects.aggregate(mj=Sum("energy_mj"))["mj"]}))
"""
MJ_PER_KWH = 3_600_000_000


class Server:
    """An installation with its web server and worker, which a test may stop and start."""

    def __init__(self, data_dir: Path) -> None:
        self.installation = Installation(data_dir)
        self.installation.prepare()
        self._tokens = json.loads(self.installation.shell(_TOKENS).splitlines()[-1])  # of a lab with a site, by PUE
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        environ = {**self.installation.environ, "GUNICORN_CMD_ARGS": "--access-logfile -"}
        with self.installation.log(name.split()[0]).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                dies_with_us(self.installation.command(name)),
                env=environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        if name == "web server":
            wait_until(lambda: answers(f"{self.installation.url}/livez"), what="the web server's first answer", seconds=120)
            self._warm()

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes.pop(name).wait(15)

    def taken(self) -> int:
        """Return how many emissions were answered with 201, by the server's own log."""
        lines = self.installation.log("web").read_text().splitlines()
        return sum('/emissions HTTP/1.1" 201' in line for line in lines)

    def stop(self) -> None:
        for process in self._processes.values():
            end(process)

    def _warm(self) -> None:
        """Let the server read its code: a client gives up on a new run after two seconds, and then begins another."""
        connection = http.client.HTTPConnection("127.0.0.1", self.installation.port, timeout=60)
        connection.request("POST", "/codecarbon/nobody/runs", b"{}", {"Content-Type": "application/json"})
        assert connection.getresponse().status == 401
        connection.close()

    def token(self, pue_ppm: int = 1_000_000) -> str:
        return str(self._tokens[str(pue_ppm)])

    def books(self) -> dict[str, Any]:
        """Return what is kept once all work is done."""
        read: dict[str, Any] = {}

        def done() -> bool:
            read.update(self._read())
            return not (read["waiting"] or read["due"])

        wait_until(done, what="the work on what was told", seconds=60)
        return read

    def _read(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.installation.shell(_BOOKS).splitlines()[-1])
        return read


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server")
    try:
        made.start("web server")
        made.start("worker")
        yield made
    finally:
        made.stop()


@contextmanager
def slow(port: int, seconds: float) -> Iterator[int]:
    """Stand before a server and let every emission take ``seconds`` before it is sent on; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("emissions"):
                time.sleep(seconds)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client did not wait

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def _endpoint(port: int, token: str) -> str:
    return f"http://127.0.0.1:{port}/codecarbon/{token}"


def _run(server: Server, home: Path, *, port: int = 0, token: str = "", seconds: float = 8, **more: str) -> Any:
    home.mkdir(exist_ok=True)
    endpoint = _endpoint(port or server.installation.port, token or server.token())
    settings = {"save_to_api": "true", "save_to_file": "false", "api_endpoint": endpoint, **more}
    return codecarbon.begin(home, seconds=seconds, **settings)


def _missing_j(told: dict[str, Any], books: dict[str, Any], pue: float = 1.0) -> float:
    """Return how many joules the client measured by its own books that we were not told of."""
    measured = sum(told[name] for name in ("cpu", "gpu", "ram")) / pue * MJ_PER_KWH
    return float(measured - sum(books["told"][f"{name}_mj"] for name in ("cpu", "gpu", "ram"))) / 1000


def _rounded_j(books: dict[str, Any]) -> float:
    """Return at most how many joules came or went since each of three meters is kept in whole mJ, post by post."""
    return float(books["posts"]) * 3 * 0.0005


def _not_sent_j(log: str) -> int:
    """Return at most how many joules the client kept to itself: it drops each interval below a second (110 W here), of which
    there are several where its posts were held up. It reads the clock after the meter: on a busy machine that may lag."""
    lag_s = 0.25
    return int(110 * (1 + lag_s) * log.count("duration smaller than 1"))


def test_all_that_the_client_sends_is_counted(server: Server, tmp_path: Path) -> None:
    """The client sends no interval below a second: at its 110 W (times its PUE) that is the most that may miss."""
    told, log = codecarbon.end(_run(server, tmp_path / "home", token=server.token(1_600_000), pue="1.6"))
    books = server.books()
    assert books["runs"] == [["notebooks", "running", "codecarbon"]]
    assert books["problems"] == []
    delivered = log.count("Successful upload emission")
    assert 3 <= delivered <= books["posts"] <= delivered + log.count("Read timed out")
    rounded_j = _rounded_j(books)
    assert -rounded_j <= _missing_j(told, books, pue=1.6) <= _not_sent_j(log) + rounded_j
    assert books["ledger_mj"] == sum(books["told"][f"{name}_mj"] for name in ("cpu", "gpu", "ram"))
    assert books["told"]["client_ug"] > 0
    spans = books["spans"]
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_http_output_and_a_doubled_slash(server: Server, tmp_path: Path) -> None:
    token = server.token()
    at = f"http://127.0.0.1:{server.installation.port}/codecarbon/{token}//emissions-data"
    told, _ = codecarbon.end(
        _run(server, tmp_path / "home", save_to_api="false", emissions_endpoint=at, project_name="cells")
    )
    books = server.books()
    assert books["runs"] == [["cells", "finished", "codecarbon"]]
    assert abs(_missing_j(told, books)) < 0.01  # it tells its total


def test_a_server_that_takes_longer_than_the_client_waits_loses_nothing(server: Server, tmp_path: Path) -> None:
    with slow(server.installation.port, 2.5) as port:
        told, log = codecarbon.end(_run(server, tmp_path / "home", port=port))
        time.sleep(5)  # what the client gave up on is still on its way
    books = server.books()
    assert "Read timed out" in log
    assert books["problems"] == []
    rounded_j = _rounded_j(books)
    assert -rounded_j <= _missing_j(told, books) <= _not_sent_j(log) + rounded_j, (told, books, log)


def test_a_server_that_was_killed_goes_on_with_the_same_run(server: Server, tmp_path: Path) -> None:
    """What the client was told 201 for is kept; what it could not deliver it does not send again, and says so."""
    client = _run(server, tmp_path / "home", seconds=300)
    wait_until(lambda: server.taken() >= 1, what="the first emission", seconds=90)
    server.kill("web server")
    time.sleep(2.5)
    before = server.taken()
    server.start("web server")
    wait_until(lambda: server.taken() > before + 1, what="emissions after the restart", seconds=90)
    (tmp_path / "home" / "stop").touch()
    _, log = codecarbon.end(client)
    books = server.books()
    delivered = log.count("Successful upload emission")
    assert delivered + log.count("Read timed out") >= 3  # a slow machine answers some of them late: kept all the same
    assert delivered <= books["posts"] <= delivered + 1 + log.count("Read timed out")  # kept, and not answered in time
    assert books["runs"] == [["notebooks", "running", "codecarbon"]]
    assert books["problems"] == []
    assert "Connection refused" in log


def test_a_wrong_token_tells_the_user_what_to_do(server: Server, tmp_path: Path) -> None:
    token = server.token()
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    _, log = codecarbon.end(_run(server, tmp_path / "home", token=wrong, seconds=4))
    assert "API return http code 401" in log
    assert "/tokens/codecarbon/" in log
    assert server.books()["runs"] == []
    server.stop()
    logged = server.installation.log("web").read_text()
    assert f'"POST /codecarbon/{token[:15]}…/runs' in logged  # gunicorn's own line of an access
    assert wrong[20:40] not in logged
