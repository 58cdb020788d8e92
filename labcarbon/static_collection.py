"""Static files: finds plotly.js in the ``plotly`` package, skips unused files, and collects only
after changes.
"""

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
# Unused folders of packages: the browsable API, extensions of htmx.
UNUSED_FOLDERS = ["rest_framework", "ext"]


class FilteredStaticFiles(StaticFilesConfig):
    """Skips unused files in collectstatic."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, *UNUSED_FOLDERS]


class PlotlyFinder(BaseFinder):
    """Finds the file ``plotly.min.js``."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        package = find_spec("plotly")  # located without import: every command loads this module
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


def collect_static() -> bool:
    """Collect and compress static files if their content changed. Returns whether it was done."""
    root = Path(settings.STATIC_ROOT)
    digest_file = root.with_name(f"{root.name}.collected")
    digest = _digest()
    if (
        (root / "staticfiles.json").exists()
        and digest_file.exists()
        and digest_file.read_text(encoding="ascii") == digest
    ):
        return False
    digest_file.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    digest_file.write_text(digest, encoding="ascii")
    return True


def _digest() -> str:
    """Return the SHA-256 of names and contents of all sources, in finder order."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list(FilteredStaticFiles.ignore_patterns):
            digest.update(f"{getattr(storage, 'prefix', '')}/{path}\0".encode())
            with storage.open(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
