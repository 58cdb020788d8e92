"""Duplicate warnings before the start: an unmodified script, two people, two machines, and the real
server.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from apps.accounts.models import Membership, User
from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.runs.models import Fingerprint, Metric, Run
from tests.builders import SmallLab, small_lab
from tests.collector.collector_process import Collector, wait_for
from tests.collector.preflight_responses import UNTIL_RECEIVED
from tests.serialized_server import serialize_requests

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = """\
import argparse

def main():
    options = argparse.ArgumentParser()
    options.add_argument("--data")
    options.add_argument("--lr", type=float)
    options.add_argument("--seed", type=int)
    options.add_argument("--out")
    given = options.parse_args()
    print("trained", given.lr)


main()
"""


class Person:
    """A user with a machine, a clone of the code and a copy of the data."""

    def __init__(self, root: Path, small: SmallLab, url: str, name: str, role: str) -> None:
        user = User.objects.create_user(username=name, password="correct horse battery")
        Membership.objects.create(lab=small.lab, user=user, role=role)
        root.mkdir()
        token = issue_user_token(lab=small.lab, user=user, now=now_us())
        self.machine = Collector(root, {"LABCARBON_URL": url, "LABCARBON_TOKEN": token})
        self.work, self.data = root / "work", root / f"cats-of-{name}"

    def run(
        self, *words: str, command: str = "run", options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        return self.machine.call(
            command,
            *options,
            "--",
            "python3",
            "train.py",
            "--data",
            str(self.data),
            *words,
            cwd=self.work,
        )

    def warnings_before_start(self, *words: str, **said: Any) -> str:
        """Return what is printed before the script starts. The script runs."""
        done = self.run(*words, **said)
        assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr
        return "\n".join(
            line for line in done.stderr.splitlines() if "was not measured" not in line
        )


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> threading.Lock:
    return serialize_requests(monkeypatch)


@pytest.fixture
def people(answering: threading.Lock, live_server: Any, tmp_path: Path) -> tuple[Person, Person]:
    small = small_lab()
    ana = Person(tmp_path / "ana", small, live_server.url, "ana", "member")
    ben = Person(tmp_path / "ben", small, live_server.url, "ben", "admin")  # who may see names
    with suppress(HTTPError):
        urlopen(
            f"{live_server.url}/api/v1/preflight/", timeout=60
        )  # the first request of a process loads its code
    ana.work.mkdir()
    (ana.work / "train.py").write_text(SCRIPT)
    ana.data.mkdir()
    for number in range(3):
        (ana.data / f"{number}.png").write_bytes(b"cat %d" % number)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=ana.work, check=True, env=ana.machine.environ)
    subprocess.run(
        ["git", "clone", "-q", str(ana.work), str(ben.work)], check=True, env=ben.machine.environ
    )
    shutil.copytree(ana.data, ben.data, copy_function=shutil.copyfile)  # other mtimes
    return ana, ben


WORDS = ("--lr", "0.1", "--seed", "1", "--out", "runs/1")


def test_the_second_run_names_the_first_and_is_blocked_with_enforce(
    people: tuple[Person, Person],
) -> None:
    ana, ben = people
    assert ana.warnings_before_start(*WORDS) == ""
    assert Fingerprint.objects.get().data
    said = ben.warnings_before_start("--seed=1", "--lr=1e-1", "--out", "elsewhere")
    assert "ana" in said
    assert "not certain" not in said
    assert "/runs/" in said
    stopped = ben.run(*WORDS, options=("--enforce",))
    assert (stopped.returncode, stopped.stdout) == (3, "")
    assert Run.objects.count() == 2


def test_large_data_is_a_possible_duplicate_until_it_is_hashed(
    people: tuple[Person, Person], answering: threading.Lock
) -> None:
    ana, ben = people

    def is_hashed() -> bool:
        with answering:
            return any(each.data for each in Fingerprint.objects.all())

    with (ana.data / "large").open("wb") as file:
        file.truncate(70_000_000)
    for path in ana.data.iterdir():
        shutil.copy2(path, ben.data / path.name)  # like rsync -t
    (ana.work / "train.py").write_text(UNTIL_RECEIVED + SCRIPT)
    shutil.copy(ana.work / "train.py", ben.work / "train.py")
    with ThreadPoolExecutor() as beside:
        running = beside.submit(ana.warnings_before_start, *WORDS)
        wait_for(is_hashed, seconds=60)
        (ana.work / "told").touch()
        running.result()
    said = ben.run(*WORDS, command="check").stdout
    assert "ana" in said
    assert "not certain: data compared by name, size and time only" in said
    sure = ben.run(*WORDS, command="check", options=("--hash-data", "--enforce"))
    assert sure.returncode == 3
    assert "not certain" not in sure.stdout


@pytest.mark.parametrize("changed", ["byte", "seed", "line", "parameter"])
def test_one_byte_seed_line_or_parameter_is_other_work(
    people: tuple[Person, Person], changed: str
) -> None:
    ana, ben = people
    ana.warnings_before_start(*WORDS)
    words = list(WORDS)
    if changed == "byte":
        (ben.data / "1.png").write_bytes(b"cat X")
    elif changed == "seed":
        words[3] = "2"
    elif changed == "line":
        path = ben.work / "train.py"
        path.write_text(path.read_text().replace("given.lr)", "given.lr * 2)"))
    else:
        words[1] = "0.2"
    assert ben.warnings_before_start(*words) == ""


def test_three_seeds_and_a_sweep_are_silent(people: tuple[Person, Person]) -> None:
    ana, _ = people
    for seed in "123":
        assert ana.warnings_before_start("--lr", "0.1", "--seed", seed) == ""
    for lr in ("0.2", "0.3", "0.4", "0.5"):
        assert (
            ana.warnings_before_start("--lr", lr, "--seed", "1", options=("--sweep", "grid")) == ""
        )


def test_a_tracked_script_and_its_metrics_reach_the_server(people: tuple[Person, Person]) -> None:
    ana, _ = people
    (ana.work / "tracked.py").write_text(
        "import labcarbon_collect\n"
        "with labcarbon_collect.track(name='mine', params={'lr': 0.1}) as run:\n"
        "    for step in range(3):\n        run.log(step, loss=1.0 / (step + 1), "
        "odd=float('nan'))\n"
        "    raise MemoryError\n"
    )
    subprocess.run(
        [sys.executable, "tracked.py"],
        cwd=ana.work,
        env=ana.machine.environ,
        check=False,
        capture_output=True,
    )
    run = Run.objects.get()
    assert (run.name, run.state, run.failure, len(run.failure_point)) == (
        "mine",
        "failed",
        "host_memory",
        64,
    )
    assert {metric.name: (metric.count, metric.last_value) for metric in Metric.objects.all()} == {
        "loss": (3, pytest.approx(1 / 3)),
        "odd": (3, None),
    }
