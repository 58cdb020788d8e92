"""Folders with code and data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collector.fingerprint.support import MODEL, TRAIN, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A script and a module, without git."""
    repository = Folder(tmp_path / "work")
    repository.write(train_py=TRAIN, model_py=MODEL)
    return repository


@pytest.fixture
def repo(folder: Folder) -> Folder:
    """The same, committed."""
    folder.put("README.md", "a project\n")
    folder.commit("first")
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Callable[[Folder], Folder]:
    """Clone a repository into another folder."""

    def make(of: Folder, name: str = "clone") -> Folder:
        of.git("clone", "-q", str(of.root), str(tmp_path / name))
        return Folder(tmp_path / name, of.home)

    return make
