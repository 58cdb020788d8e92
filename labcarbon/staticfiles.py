"""Serves plotly.js from the installed `plotly` package, so that no browser library is pasted into the project."""

from collections.abc import Iterator
from pathlib import Path

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

_BUNDLE = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds one file, ``plotly.min.js``."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.storage = FileSystemStorage(location=Path(plotly.__file__).parent / "package_data")
        self.storage.prefix = "plotly"  # type: ignore[attr-defined]

    def find(  # type: ignore[override]
        self, path: str, find_all: bool = False, **kwargs: object
    ) -> str | list[str]:
        found = self.storage.path(_BUNDLE) if path == f"plotly/{_BUNDLE}" else ""
        return ([found] if found else []) if find_all else found

    def list(self, ignore_patterns: object) -> Iterator[tuple[str, Storage]]:
        yield _BUNDLE, self.storage
