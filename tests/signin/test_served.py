"""A served installation: several web processes on PostgreSQL count failed sign-ins together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services.data_directories import MIGRATED, copy_static_files, postgres
from tests.services.postgres import programs
from tests.services.process import answers, end_process, wait_until
from tests.signin.browser import Browser
from tests.signin.conftest import SignIn, serve

PROCESSES = 3
TOO_MANY = "Too many failed login attempts"


def _wrong(ours: SignIn) -> bool:
    """Type a wrong password; return whether it was looked at."""
    said = Browser(ours.url).password("ada", "wrong").text
    assert TOO_MANY in said or "not correct" in said
    return TOO_MANY not in said


def _heard(log: Path) -> set[str]:
    """Return which processes answered anything so far."""
    return {line for line in log.read_text().splitlines() if line.startswith("answered by")}


def _all_answer(ours: SignIn, log: Path) -> bool:
    """Ask several times at once; return whether each process has answered by now."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: answers(f"{ours.url}/readyz"), range(6)))
    return len(_heard(log)) == PROCESSES


@pytest.mark.skipif(
    programs() is None, reason="PostgreSQL is not installed (apt-get install postgresql)"
)
def test_five_wrong_passwords_are_five_whichever_process_hears_them(tmp_path: Path) -> None:
    with postgres() as server:
        ours = SignIn(tmp_path, database_url=server.url_of(MIGRATED))
        copy_static_files(tmp_path)
        ours.shell(
            "from apps.accounts.models import User; User.objects.create_user('ada', "
            "password='right')"
        )
        log = ours.log("web")
        more = (
            "--config",
            "python:labcarbon.gunicorn",
            "--workers",
            str(PROCESSES),
            "--access-logfile",
            "-",
            "--access-logformat",
            "answered by %(p)s",
        )
        web = serve("labcarbon.wsgi", ours.port, ours.environ, log, *more)
        try:
            wait_until(lambda: _all_answer(ours, log), what="an answer of each process")
            with ThreadPoolExecutor(6) as pool:
                looked_at = sum(pool.map(lambda _: _wrong(ours), range(18)))
            looked_at += sum(_wrong(ours) for _ in range(5))
            assert looked_at == 5
            assert TOO_MANY in Browser(ours.url).password("ada", "right").text
            assert len(_heard(log)) == PROCESSES
        finally:
            end_process(web)
