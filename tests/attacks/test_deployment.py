"""How it may not be started, and what a well-started one looks like."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import installation_environment
from tests.services.data_directories import prepare_data_dir

ROOT = Path(__file__).parents[2]
SERVED = {
    "LABCARBON_SITE_URL": "https://carbon.lab.example",
    "LABCARBON_BEHIND_TLS_PROXY": "1",
    "LABCARBON_DATABASE_URL": "postgres://labcarbon@db.lab.example/labcarbon",
    "LABCARBON_REDIS_URL": "redis://redis.lab.example/0",
}


def _run(
    tmp_path: Path, *arguments: str, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LABCARBON_", "DJANGO_ALLOW"))
    }
    own = {**installation_environment(str(tmp_path)), **changes}
    environment.update({name: value for name, value in own.items() if value is not None})
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_served_installation_passes_djangos_deployment_checks(tmp_path: Path) -> None:
    told = _run(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "INFO", **SERVED)
    assert told.returncode == 0, told.stderr


START = ("-c", "import labcarbon.wsgi")


def test_it_starts_when_all_is_well(tmp_path: Path) -> None:
    assert _run(tmp_path, *START).returncode == 0
    assert _run(tmp_path, *START, **SERVED).returncode == 0


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({**SERVED, "LABCARBON_DEBUG": "1"}, "Unset LABCARBON_DEBUG"),
        ({**SERVED, "LABCARBON_SECRET_KEY": None}, "LABCARBON_SECRET_KEY"),
        ({**SERVED, "LABCARBON_SECRET_KEY": "short"}, "LABCARBON_SECRET_KEY"),
        ({"LABCARBON_SECRET_KEY": None}, "LABCARBON_SECRET_KEY"),
        ({**SERVED, "LABCARBON_TOKEN_PEPPERS": None}, "LABCARBON_TOKEN_PEPPERS"),
        ({**SERVED, "LABCARBON_TOKEN_PEPPERS": "1:00"}, "LABCARBON_TOKEN_PEPPERS"),
        ({**SERVED, "LABCARBON_TOKEN_PEPPERS": "one:xyz"}, "LABCARBON_TOKEN_PEPPERS"),
        ({**SERVED, "LABCARBON_SITE_URL": "http://carbon.lab.example"}, "LABCARBON_SITE_URL=https"),
        ({"LABCARBON_SITE_URL": "http://0.0.0.0:8000"}, "LABCARBON_SITE_URL=https"),
        ({"LABCARBON_PORT": "eight"}, "LABCARBON_PORT"),
        ({"LABCARBON_DEBUG": "maybe"}, "LABCARBON_DEBUG"),
    ],
)
def test_it_refuses_to_start_and_says_what_mends_it(
    tmp_path: Path, changes: dict[str, str | None], mend: str
) -> None:
    told = _run(tmp_path, *START, **changes)
    assert told.returncode != 0
    assert mend in told.stderr


def test_no_password_is_made_by_default(tmp_path: Path) -> None:
    prepare_data_dir(tmp_path)
    count = "from apps.accounts.models import User; print('people:', User.objects.count())"
    told = _run(tmp_path, "manage.py", "shell", "--verbosity", "0", "-c", count)
    assert "people: 0" in told.stdout, told.stderr


@pytest.mark.parametrize("name", ["requirements.txt", "requirements/dev.txt"])
def test_every_dependency_is_pinned_and_hashed(name: str) -> None:
    text = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text(encoding="utf-8"))
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert len(lines) > 10
    for line in lines:
        assert re.match(r"[\w.\-\[\],]+==\S+", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line
    assert not re.search(r"https?://|--index-url|--extra-index-url|git\+", text), (
        "dependencies come from the registry alone"
    )


def test_every_wanted_dependency_is_locked() -> None:
    for wanted, locked in (
        ("requirements.in", "requirements.txt"),
        ("requirements/dev.in", "requirements/dev.txt"),
    ):
        names = {
            re.split(r"[\[<>=~! ]", line.split("#")[0].strip())[0].lower().replace("_", "-")
            for line in (ROOT / wanted).read_text(encoding="utf-8").splitlines()
            if line.split("#")[0].strip() and not line.startswith("-")
        }
        have = {
            line.split("==")[0].split("[")[0].lower()
            for line in (ROOT / locked).read_text(encoding="utf-8").splitlines()
            if "==" in line
        }
        assert names <= have, names - have
