"""The real client, unmodified, against a running server: nothing is lost but what it does not
send itself.
"""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.faults.installation import ROOT, Installation
from tests.services import codecarbon
from tests.services.process import answers, end_process, end_with_parent, wait_until

# One server for all of them, in one process; each has a lab of its own.
pytestmark = [pytest.mark.codecarbon, pytest.mark.xdist_group("codecarbon")]

LABS = 7  # one for each test
_LABS = """
import json
from apps.accounts.models import Project, User
from apps.accounts.services.labs import create_lab
from apps.core.clock import now_us
from apps.fleet.services import create_site
from apps.trackers.codecarbon.services.tokens import create_codecarbon_token
def made(number):
    owner = User.objects.create_user(f"owner-{number}")
    lab = create_lab(name=f"Lab {number}", time_zone="UTC", owner=owner, now=now_us())
    site = create_site(lab=lab, name="Here", kind="workstation", zone="DE")
    return {"pk": lab.pk, "tokens": {pue_ppm: create_codecarbon_token(lab=lab, name="notebooks",
        project=Project.objects.get(lab=lab, slug="demo"), node=None, site=site, client_pue_ppm=pue_ppm, expires_us=None,
        by=owner, now=now_us())[1] for pue_ppm in (1_000_000, 1_600_000)}}
"""  # noqa: E501
# What of a lab is kept, by the tables themselves.
_OF_LAB = """FROM trackers_codecarbonpost p JOIN trackers_codecarbonrun t ON t.id = p.told_id
  JOIN trackers_codecarbonsource s ON s.id = t.source_id
  LEFT JOIN trackers_codecarboninterval i ON i.post_id = p.id WHERE s.lab_id = ?"""
_TRACKED = """FROM trackers_codecarbonrun t
  JOIN trackers_codecarbonsource s ON s.id = t.source_id WHERE s.lab_id = ?"""
_BOOKS = {
    "runs": "SELECT name, state, teller FROM runs_run WHERE lab_id = ?",
    "told": f"SELECT SUM(gpu_mj), SUM(cpu_mj), SUM(ram_mj), SUM(client_ug) {_OF_LAB}",
    "posts": f"SELECT COUNT(*) {_OF_LAB}",
    "problems": f"SELECT problem {_OF_LAB} AND problem != ''",
    "spans": f"SELECT start_us, end_us {_OF_LAB} AND i.id IS NOT NULL ORDER BY start_us",
    "ledger_mj": "SELECT SUM(energy_mj) FROM energy_ledgerentry WHERE lab_id = ?",
}
_TOLD = ("gpu_mj", "cpu_mj", "ram_mj", "client_ug")
_WAITING = "SELECT COUNT(*) FROM trackers_codecarbonpost WHERE NOT worked"
_DUE = "SELECT COUNT(*) FROM core_job WHERE done < requested AND due_us <= ?"
MJ_PER_KWH = 3_600_000_000


class Server:
    """An installation with its web server and worker, which a test may stop and start."""

    def __init__(self, data_dir: Path) -> None:
        self.installation = Installation(data_dir)
        self.installation.prepare()
        told = self.installation.shell(
            f"{_LABS}\nprint(json.dumps([made(number) for number in range({LABS})]))"
        )
        self._labs = json.loads(told.splitlines()[-1])
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        environ = {**self.installation.environ, "GUNICORN_CMD_ARGS": "--access-logfile -"}
        with self.installation.log(name.split()[0]).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                end_with_parent(self.installation.command(name)),
                env=environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        if name == "web server":
            wait_until(
                lambda: answers(f"{self.installation.url}/livez"),
                what="the web server's first answer",
            )
            self._warm()

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes.pop(name).wait(15)

    @property
    def log(self) -> str:
        """What the web server said."""
        return self.installation.log("web").read_text()

    def stop(self) -> None:
        for process in self._processes.values():
            end_process(process)

    def a_lab(self) -> OneLab:
        """Return a lab that no other test has."""
        told = self._labs.pop()
        return OneLab(self, told["pk"], told["tokens"])

    def _warm(self) -> None:
        """Let the server read its code: a client gives up on a new run after two seconds, and
        then begins another.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.installation.port, timeout=60)
        connection.request(
            "POST", "/codecarbon/nobody/runs", b"{}", {"Content-Type": "application/json"}
        )
        assert connection.getresponse().status == 401
        connection.close()

    def rows(self, sql: str, *values: int) -> list[list[Any]]:
        """Return what its database answers."""
        with closing(
            sqlite3.connect(self.installation.data_dir / "labcarbon.sqlite3", timeout=30)
        ) as database:
            return [list(row) for row in database.execute(sql, values)]


@dataclass
class OneLab:
    """A lab with a site of its own, and a token for each PUE that a client may have been told."""

    server: Server
    pk: int
    tokens: dict[str, str]

    def token(self, pue_ppm: int = 1_000_000) -> str:
        return self.tokens[str(pue_ppm)]

    def taken(self) -> int:
        """Return how many emissions were answered with 201, by the server's own log, which tells
        the first of a token.
        """
        token = self.token()
        lines = self.server.log.splitlines()
        return sum(token[:15] in line and '/emissions HTTP/1.1" 201' in line for line in lines)

    def books(self) -> dict[str, Any]:
        """Return what is kept once all work is done."""
        wait_until(self._is_done, what="the work on what was told")
        read: dict[str, Any] = {
            name: self.server.rows(sql, self.pk) for name, sql in _BOOKS.items()
        }
        read["told"] = dict(zip(_TOLD, read["told"][0], strict=True))
        return {**read, "posts": read["posts"][0][0], "ledger_mj": read["ledger_mj"][0][0]}

    def _is_done(self) -> bool:
        waiting, due = self.server.rows(_WAITING), self.server.rows(_DUE, time.time_ns() // 1000)
        return waiting == due == [[0]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("codecarbon") / "server")
    try:
        made.start("web server")
        made.start("worker")
        yield made
    finally:
        made.stop()


@pytest.fixture
def lab(server: Server) -> OneLab:
    return server.a_lab()


@contextmanager
def slow(
    port: int, seconds: float, *, route: str = "emissions", times: int = 1000
) -> Iterator[int]:
    """Stand before a server and let the first ``times`` requests of ``route`` take ``seconds``
    before they are sent on; yield the port.
    """
    delays = [seconds] * times  # pop is atomic

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith(f"/{route}") and delays:
                time.sleep(delays.pop())
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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = (
            False  # the end waits for what the client gave up on and is still on its way
        )
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def _endpoint(port: int, token: str) -> str:
    return f"http://127.0.0.1:{port}/codecarbon/{token}"


def _run(
    lab: OneLab, home: Path, *, port: int = 0, token: str = "", seconds: float = 8, **more: str
) -> Any:
    home.mkdir(exist_ok=True)
    endpoint = _endpoint(port or lab.server.installation.port, token or lab.token())
    settings = {"save_to_api": "true", "save_to_file": "false", "api_endpoint": endpoint, **more}
    return codecarbon.begin(home, seconds=seconds, **settings)


def _wait_for(words: str, client: codecarbon.Client, *, times: int = 1) -> None:
    """Wait until a client at work has said ``words`` so many times."""

    def said() -> bool:
        log = client.log.read_text(encoding="utf-8", errors="replace")
        assert client.process.poll() is None, log
        return log.count(words) >= times

    wait_until(said, what=f"{words!r} in the client's log")


def _missing_j(told: dict[str, Any], books: dict[str, Any], pue: float = 1.0) -> float:
    """Return how many joules the client measured by its own books that we were not told of."""
    measured = sum(told[name] for name in ("cpu", "gpu", "ram")) / pue * MJ_PER_KWH
    return (
        float(measured - sum(books["told"][f"{name}_mj"] for name in ("cpu", "gpu", "ram"))) / 1000
    )


def _rounded_j(books: dict[str, Any]) -> float:
    """Return at most how many joules came or went since each of three meters is kept in whole
    mJ, post by post.
    """
    return float(books["posts"]) * 3 * 0.0005


def _not_sent_j(log: str) -> int:
    """Return at most how many joules the client kept to itself: it drops each interval below a
    second (110 W here), of which there are several where its posts were held up. It reads the
    clock after the meter: on a busy machine that may lag.
    """
    lag_s = 0.25
    return int(110 * (1 + lag_s) * log.count("duration smaller than 1"))


def test_all_that_the_client_sends_is_counted(lab: OneLab, tmp_path: Path) -> None:
    """The client sends no interval below a second: at its 110 W (times its PUE) that is the most
    that may miss.
    """
    client = _run(lab, tmp_path / "home", token=lab.token(1_600_000), seconds=300, pue="1.6")
    _wait_for("Successful upload emission", client, times=3)
    (tmp_path / "home" / "stop").touch()
    told, log = codecarbon.end(client)
    books = lab.books()
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


def test_http_output_and_a_doubled_slash(lab: OneLab, tmp_path: Path) -> None:
    token = lab.token()
    at = f"http://127.0.0.1:{lab.server.installation.port}/codecarbon/{token}//emissions-data"
    told, _ = codecarbon.end(
        _run(
            lab, tmp_path / "home", save_to_api="false", emissions_endpoint=at, project_name="cells"
        )
    )
    books = lab.books()
    assert books["runs"] == [["cells", "finished", "codecarbon"]]
    assert abs(_missing_j(told, books)) < 0.01  # it tells its total


def test_a_server_that_takes_longer_than_the_client_waits_loses_nothing(
    lab: OneLab, tmp_path: Path
) -> None:
    with slow(lab.server.installation.port, 2.5) as port:
        client = _run(lab, tmp_path / "home", port=port, seconds=300)
        _wait_for("Read timed out", client)
        wait_until(lambda: lab.taken() >= 2, what="two emissions")
        (tmp_path / "home" / "stop").touch()
        told, log = codecarbon.end(client)
    books = lab.books()
    assert "Read timed out" in log
    assert books["problems"] == []
    rounded_j = _rounded_j(books)
    assert -rounded_j <= _missing_j(told, books) <= _not_sent_j(log) + rounded_j, (told, books, log)


@pytest.mark.parametrize("seconds", [1.5, 3])
def test_a_run_that_the_client_creates_twice_is_one_run(
    lab: OneLab, tmp_path: Path, seconds: float
) -> None:
    """The client posts each interval in a thread of its own, and each thread creates the run if no
    answer has arrived yet. 1.5 s: each of two threads uses its own id. 3 s: the client gives up
    after two, and an id is never used.
    """
    with slow(lab.server.installation.port, seconds, route="runs", times=2) as port:
        client = _run(lab, tmp_path / "home", port=port, seconds=300)
        _wait_for("Successful upload emission", client, times=4)
        (tmp_path / "home" / "stop").touch()
        told, log = codecarbon.end(client)
    books = lab.books()
    tracked = lab.server.rows(f"SELECT COUNT(DISTINCT t.id) {_TRACKED}", lab.pk)
    assert tracked[0][0] >= 2, log
    assert books["runs"] == [["notebooks", "running", "codecarbon"]]
    assert books["problems"] == []
    measured = sum(books["told"][f"{name}_mj"] for name in ("cpu", "gpu", "ram"))
    assert books["ledger_mj"] == measured
    if "Read timed out" not in log:  # else the client dropped an interval
        rounded_j = _rounded_j(books)
        assert -rounded_j <= _missing_j(told, books) <= _not_sent_j(log) + rounded_j, log


def test_a_server_that_was_killed_goes_on_with_the_same_run(lab: OneLab, tmp_path: Path) -> None:
    """What the client was told 201 for is kept; what it could not deliver it does not send
    again, and says so.
    """
    client = _run(lab, tmp_path / "home", seconds=300)
    wait_until(lambda: lab.taken() >= 1, what="the first emission")
    lab.server.kill("web server")
    _wait_for("Connection refused", client)
    before = lab.taken()
    lab.server.start("web server")
    wait_until(lambda: lab.taken() > before + 1, what="emissions after the restart")
    (tmp_path / "home" / "stop").touch()
    _, log = codecarbon.end(client)
    books = lab.books()
    delivered = log.count("Successful upload emission")
    assert (
        books["posts"] >= 3
    )  # of one before, whose answer the kill may have cut off, and two after
    assert (
        delivered <= books["posts"] <= delivered + 1 + log.count("Read timed out")
    )  # kept, and not answered in time
    assert books["runs"] == [["notebooks", "running", "codecarbon"]]
    assert books["problems"] == []
    assert "Connection refused" in log


def test_a_wrong_token_tells_the_user_what_to_do(lab: OneLab, tmp_path: Path) -> None:
    token = lab.token()
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    _, log = codecarbon.end(_run(lab, tmp_path / "home", token=wrong, seconds=4))
    assert "API return http code 401" in log
    assert "/trackers/codecarbon/" in log
    assert lab.books()["runs"] == []
    logged = f'"POST /codecarbon/{token[:15]}…/runs'  # gunicorn's own line of an access
    wait_until(lambda: logged in lab.server.log, what="the line of the access")
    assert wrong[20:40] not in lab.server.log
