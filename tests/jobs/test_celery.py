"""Celery with a real Redis: it wakes workers, and nothing hangs on it."""

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis as redis_client

from apps.core.clock import now_us
from tests.environment import installation_environment
from tests.services.data_directories import prepare_data_dir
from tests.services.process import end_process, end_with_parent, wait_until
from tests.services.redis import Redis

pytestmark = [pytest.mark.redis, pytest.mark.xdist_group("celery")]
ROOT = Path(__file__).parents[2]
PREPARE = """
import django; django.setup()
from tests.builders import MINUTE, T0, W, push, small_lab
small = small_lab()
windows = [W("gpu:GPU-1", 70, start_us=T0 + i * MINUTE, end_us=T0 + (i + 1) * MINUTE, seq=i) for i in range(3)]
push(small.node, windows, settle=False)
"""  # noqa: E501
SEND = "from labcarbon.celery import app; app.send_task('labcarbon.work_on_jobs')"


@dataclass
class Installation:
    """A database of its own with a job waiting, a private Redis, and a Celery worker process."""

    directory: Path
    broker: Redis
    worker: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
        }
        own = {
            **installation_environment(str(self.directory)),
            "LABCARBON_REDIS_URL": self.broker.url,
        }
        return {**kept, **own, "DJANGO_SETTINGS_MODULE": "labcarbon.settings"}

    def python(self, *arguments: str) -> str:
        """Run Python in the installation and return what it said."""
        command = [sys.executable, *arguments]
        told = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=90
        )
        assert told.returncode == 0, told.stderr
        return told.stdout

    def start_worker(self) -> None:
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "labcarbon",
            "worker",
            "--pool",
            "solo",
            "--loglevel",
            "INFO",
        ]
        with (self.directory / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                end_with_parent([*command, "--without-gossip", "--without-mingle"]),
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: " ready." in self.log, what="the Celery worker's start")

    @property
    def log(self) -> str:
        path = self.directory / "worker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def one(self, sql: str) -> int:
        """Return one number of the database."""
        with closing(sqlite3.connect(self.directory / "labcarbon.sqlite3", timeout=20)) as database:
            return int(database.execute(sql).fetchone()[0] or 0)

    def undone(self) -> int:
        """Return how many jobs are due."""
        return self.one(
            f"SELECT COUNT(*) FROM core_job WHERE done < requested AND due_us <= {now_us()}"
        )

    def ledger_mj(self) -> int:
        return self.one("SELECT SUM(energy_mj) FROM energy_ledgerentry")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    broker = Redis()
    made = Installation(tmp_path, broker)
    try:
        prepare_data_dir(tmp_path)
        made.python("-c", PREPARE)
        yield made
    finally:
        if made.worker is not None:
            end_process(made.worker)
        broker.close()


def test_the_task_wakes_the_worker_and_losing_redis_changes_no_figure(
    installation: Installation,
) -> None:
    installation.start_worker()
    assert installation.undone() > 0
    assert installation.ledger_mj() == 0
    installation.python("-c", SEND)
    wait_until(lambda: installation.undone() == 0, what="the job")
    assert installation.ledger_mj() == 210
    # Redis dies with what it held. What arrives is stored, and done by whoever looks; once.
    installation.broker.kill()
    installation.python(
        "-c", PREPARE.replace("70,", "30,").replace("small_lab()", "small_lab(name='Second')")
    )
    assert installation.ledger_mj() == 210
    assert "4 jobs done" in installation.python("manage.py", "worker", "--once")
    assert "0 jobs done" in installation.python("manage.py", "worker", "--once")
    assert installation.ledger_mj() == 300
    # It comes back empty; the same message twice does the work no second time.
    installation.broker.start()
    installation.python("-c", SEND + ";" + SEND)
    wait_until(
        lambda: installation.log.count("work_on_jobs") >= 4,
        what="the messages after Redis came back",
    )
    assert (installation.undone(), installation.ledger_mj()) == (0, 300)


def _envelope(task: str, body: bytes, content_type: str, encoding: str) -> str:
    import base64

    tag = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": encoding,
            "content-type": content_type,
            "headers": {
                "lang": "py",
                "task": task,
                "id": tag,
                "root_id": tag,
                "parent_id": None,
                "retries": 0,
            },
            "properties": {
                "correlation_id": tag,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": "celery"},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )


class _Touch:
    """What, once unpickled, leaves a file behind."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_pickles_and_unknown_tasks_pushed_into_redis_are_refused(
    installation: Installation,
) -> None:
    trace = installation.directory / "unpickled"
    broker = redis_client.Redis.from_url(installation.broker.url)
    pickled = pickle.dumps(((_Touch(str(trace)),), {}, {}))
    broker.lpush(
        "celery",
        _envelope("labcarbon.work_on_jobs", pickled, "application/x-python-serialize", "binary"),
    )
    unknown = json.dumps(
        [[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    ).encode()
    broker.lpush("celery", _envelope("os.system", unknown, "application/json", "utf-8"))
    broker.close()
    installation.start_worker()
    wait_until(lambda: "os.system" in installation.log, what="the refusal of an unknown task")
    wait_until(lambda: "ContentDisallowed" in installation.log, what="the refusal of a pickle")
    assert not trace.exists()
    installation.python("-c", SEND)
    wait_until(lambda: installation.undone() == 0, what="the job after them")
