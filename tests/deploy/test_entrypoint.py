"""The image's start script and its question for health, run as they are with programs that only
say how they were called.
"""

import http.server
import importlib.util
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

DOCKER = Path(__file__).resolve().parent.parent.parent / "docker"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a python, gunicorn and celery that print their arguments; FAIL makes python
    fail as a check does.
    """
    for name in ("python", "gunicorn", "celery"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\n[ "{name}" != python ] || [ -z "${{FAIL:-}}" ] || exit 1\necho {name} '
            '"$@"\n'
        )
        program.chmod(0o755)
    return tmp_path


def start(
    programs: Path, role: list[str], environ: Mapping[str, str] = {}
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(DOCKER / "entrypoint.sh"), *role],
        env={"PATH": f"{programs}:/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_web_is_one_process_on_sqlite(programs: Path) -> None:
    said = start(programs, ["web"], {"LABCARBON_WEB_PROCESSES": "8"}).stdout
    assert "gunicorn labcarbon.wsgi --bind 0.0.0.0:8000 --workers 1 " in said


def test_web_is_several_on_postgresql(programs: Path) -> None:
    environ = {
        "LABCARBON_DATABASE_URL": "postgres://db/x",
        "LABCARBON_WEB_PROCESSES": "8",
        "LABCARBON_PORT": "9000",
    }
    said = start(programs, ["web"], {**environ, "LABCARBON_BIND": "127.0.0.1"}).stdout
    assert "--bind 127.0.0.1:9000 --workers 8 " in said


@pytest.mark.parametrize("role", ["web", "worker", "celery", "beat", "migrate"])
def test_no_role_starts_when_the_settings_are_refused(programs: Path, role: str) -> None:
    ended = start(programs, [role], {"FAIL": "1", "LABCARBON_REDIS_URL": "redis://r"})
    assert ended.returncode != 0
    assert ended.stdout == ""


@pytest.mark.parametrize("role", ["celery", "beat"])
def test_celery_without_redis_names_the_variable(programs: Path, role: str) -> None:
    ended = start(programs, [role])
    assert ended.returncode == 64
    assert "LABCARBON_REDIS_URL" in ended.stderr
    assert "'worker'" in ended.stderr


def test_celery_and_beat_are_ours(programs: Path) -> None:
    redis = {"LABCARBON_REDIS_URL": "redis://r"}
    assert (
        start(programs, ["celery", "-c", "3"], redis).stdout.strip()
        == "celery -A labcarbon worker --loglevel INFO -c 3"
    )
    assert start(programs, ["beat"], redis).stdout.startswith("celery -A labcarbon beat ")


def test_migrate_loads_the_shipped_tables_too(programs: Path) -> None:
    assert start(programs, ["migrate"]).stdout.splitlines() == [
        "python manage.py migrate --noinput",
        "python manage.py load_data",
    ]


def test_manage_passes_arguments_through_whole(programs: Path) -> None:
    assert (
        start(programs, ["manage", "setup_lab", "--lab", "Cell  Lab"]).stdout
        == "python manage.py setup_lab --lab Cell  Lab\n"
    )


@pytest.mark.parametrize("role", [[], ["wbe"]])
def test_an_unknown_role_gets_the_list(programs: Path, role: list[str]) -> None:
    ended = start(programs, role)
    assert ended.returncode == 64
    assert "migrate  brings the database" in ended.stderr


def healthcheck() -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthcheck", DOCKER / "healthcheck.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def server(status: int, asked: list[tuple[str, str | None, str | None]]) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Host"], self.headers["X-Forwarded-Proto"]))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()


def test_the_health_check_uses_the_host_name_of_the_site() -> None:
    asked: list[tuple[str, str | None, str | None]] = []
    with server(200, asked) as port:
        assert healthcheck().ask(port, "https://carbon.example.org") == ""
    assert asked == [("/livez", "carbon.example.org", "https")]


@pytest.mark.parametrize("status", [301, 400, 503])
def test_any_other_answer_is_ill(status: int) -> None:
    with server(status, []) as port:
        assert healthcheck().ask(port, "http://127.0.0.1") == f"/livez answered {status}"


def test_no_response_fails_the_health_check() -> None:
    ended = subprocess.run(
        ["python3", str(DOCKER / "healthcheck.py")],
        env={**os.environ, "LABCARBON_PORT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "no answer on port 1" in ended.stderr
