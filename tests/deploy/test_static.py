"""Static files: collected where something changed, and only then; without what no page uses."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles.finders import get_finder
from django.core.management import call_command

from labcarbon import static_collection

FINDER = "django.contrib.staticfiles.finders.FileSystemFinder"


@pytest.fixture
def source(tmp_path: Path, settings: Any) -> Path:
    """One folder of static files in place of all."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.css").write_text("a { color: red }")
    settings.STATICFILES_DIRS, settings.STATICFILES_FINDERS = [folder], [FINDER]
    settings.STATIC_ROOT = str(tmp_path / "root")
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }
    get_finder.cache_clear()
    return folder


@pytest.fixture(autouse=True)
def _finders_afterwards() -> object:
    yield
    get_finder.cache_clear()


def test_it_is_collected_again_where_something_changed(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert static_collection.collect_static()
    assert len(list(root.glob("a.*.css"))) == 1
    assert not static_collection.collect_static()
    (source / "a.css").write_text("a { color: tan }")  # as long as before
    assert static_collection.collect_static()
    assert len(list(root.glob("a.*.css"))) == 2
    (source / "b.css").write_text("")
    assert static_collection.collect_static()
    (source / "b.css").rename(source / "c.css")
    assert static_collection.collect_static()
    assert not static_collection.collect_static()


def test_what_was_lost_or_not_finished_is_collected_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static_collection.collect_static()
    (tmp_path / "root" / "staticfiles.json").unlink()
    assert static_collection.collect_static()
    (source / "a.css").write_text("")

    def fails(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(static_collection, "call_command", fails)
    with pytest.raises(OSError, match="disk full"):
        static_collection.collect_static()
    (source / "a.css").write_text("a { color: red }")  # as it was collected first
    monkeypatch.setattr(static_collection, "call_command", call_command)
    assert static_collection.collect_static()


def test_what_no_page_uses_is_left_out(tmp_path: Path, settings: Any) -> None:
    settings.STATIC_ROOT = str(tmp_path / "root")
    call_command("collectstatic", interactive=False, verbosity=0)
    found = {
        str(path.relative_to(tmp_path / "root"))
        for path in (tmp_path / "root").rglob("*")
        if path.is_file()
    }
    assert {
        "plotly/plotly.min.js",
        "labcarbon/app.css",
    } <= found
    assert any(path.startswith("django_htmx/") for path in found)
    assert not [path for path in found if {"rest_framework", "ext"} & set(path.split("/"))]
