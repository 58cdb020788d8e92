"""The registry of trackers: one folder and one registration per tracker, and no other place
names a tracker.
"""

import re
from pathlib import Path

from django.core.management import get_commands
from django.urls import reverse

from apps.core.jobs import _HANDLERS
from apps.trackers.registry import NAMES, import_parts, trackers

ROOT = Path(__file__).parents[2]
SEARCHED = ("apps", "labcarbon", "templates", "static")
# Files that may name a tracker although they are not its own, and why.
EXCEPTIONS = {
    "apps/trackers/registry.py": "the registration",
    "apps/runs/choices.py": "values of Run.reported_by, which the database stores",
    "apps/accounts/services/lab_texts.py": "columns of the database with names of persons or paths",
    "labcarbon/settings.py": "settings",
    "apps/catalog/data/cpu.csv": "source and licence of the data",
    "apps/catalog/data/README.md": "source and licence of the data",
}
SUFFIXES = {".py", ".html", ".js", ".css", ".svg", ".md", ".csv", ".txt", ".json", ".toml"}


def _is_own(path: str, name: str) -> bool:
    """Return whether a file is in the tracker's folder, is named after it in an area of
    trackers, or is a migration.
    """
    own = re.compile(
        rf"apps/trackers/{name}/|apps/trackers/management/commands/\w+_{name}\.py"
        rf"|apps/dashboard/trackers/{name}\w*(\.py|/)|templates/dashboard/trackers/"
        rf"{name}\w*(\.html|/)|apps/\w+/migrations/"
    )
    return own.match(path) is not None


def test_a_tracker_is_named_in_its_own_files_only() -> None:
    elsewhere = []
    for folder in SEARCHED:
        for file in (ROOT / folder).rglob("*"):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix not in SUFFIXES or path in EXCEPTIONS or not file.is_file():
                continue
            text = file.read_text(encoding="utf-8").lower()
            elsewhere += [
                f"{path}: {name}" for name in NAMES if name in text and not _is_own(path, name)
            ]
    assert not elsewhere


def test_each_exception_is_needed() -> None:
    for path in EXCEPTIONS:
        text = (ROOT / path).read_text(encoding="utf-8").lower()
        assert any(name in text for name in NAMES), path


def test_each_registered_tracker_has_its_parts() -> None:
    assert [tracker.name for tracker in trackers()] == list(NAMES)
    for tracker in trackers():
        assert tracker.label
        if tracker.setup_page:
            assert reverse(tracker.setup_page)
            assert tracker.setup_text.endswith(".")
            assert tracker.setup_link


def test_folders_of_trackers_are_registered() -> None:
    folders = {file.parent.name for file in (ROOT / "apps/trackers").glob("*/tracker.py")}
    assert folders == set(NAMES)


def test_parts_are_imported_by_convention() -> None:
    assert {"codecarbon", "mlflow"} <= {
        module.__name__.split(".")[2] for module in import_parts("models")
    }
    urls = {module.__name__ for module in import_parts("urls")}
    assert "apps.trackers.codecarbon.urls" in urls
    assert "apps.trackers.mlflow.urls" not in urls  # it has none
    assert {"trackers.codecarbon", "trackers.mlflow", "trackers.mlflow_tell"} <= set(_HANDLERS)
    assert {"import_codecarbon", "poll_mlflow"} <= set(get_commands())
