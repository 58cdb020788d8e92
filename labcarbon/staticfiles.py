"""Static files: plotly.js from the installed `plotly` package, what pages use, collected again only where it changed."""

import hashlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.apps import StaticFilesConfig
from django.contrib.staticfiles.finders import BaseFinder, get_finders
from django.core.files.storage import FileSystemStorage, Storage
from django.core.management import call_command

_BUNDLE = "plotly.min.js"
# Folders of packages that no page of ours uses: a second viewer of the API's schema, its browsable pages, htmx's extensions.
UNUSED = ["redoc", "rest_framework", "ext"]


class UsedStaticFiles(StaticFilesConfig):
    """Leaves out what no page uses when static files are collected."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, *UNUSED]


class PlotlyFinder(BaseFinder):
    """Finds one file, ``plotly.min.js``."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        package = find_spec("plotly")  # found, not imported: every command loads this module
        assert package is not None
        assert package.origin is not None
        self.storage = FileSystemStorage(location=Path(package.origin).parent / "package_data")
        self.storage.prefix = "plotly"  # type: ignore[attr-defined]

    def find(  # type: ignore[override]
        self, path: str, find_all: bool = False, **kwargs: object
    ) -> str | list[str]:
        path_ = self.storage.path(_BUNDLE) if path == f"plotly/{_BUNDLE}" else ""
        return ([path_] if path_ else []) if find_all else path_

    def list(self, ignore_patterns: object) -> Iterator[tuple[str, Storage]]:
        yield _BUNDLE, self.storage


def collect() -> bool:
    """Collect and compress static files where their content is not what was collected last; return whether it was done."""
    root = Path(settings.STATIC_ROOT)
    note = root.with_name(f"{root.name}.collected")
    digest = _digest()
    if (root / "staticfiles.json").exists() and note.exists() and note.read_text(encoding="ascii") == digest:
        return False
    note.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    note.write_text(digest, encoding="ascii")
    return True


def _digest() -> str:
    """Return the SHA-256 over names and contents of all sources, in the order in which finders find them."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list(UsedStaticFiles.ignore_patterns):
            digest.update(f"{getattr(storage, 'prefix', '')}/{path}\0".encode())
            with storage.open(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
