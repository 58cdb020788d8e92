"""A cache of the Hugging Face hub: each revision is one artifact."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from tests.collector.scan.support import Disk, gguf
from tests.fakes.labcarbon_server import FakeServer

OLD, NEW = "1111111111", "2222222222"


def revision(disk: Disk, repository: str, name: str, files: dict[str, bytes]) -> Path:
    """Write a revision as huggingface_hub does: files in blobs, relative links in snapshots."""
    top = disk.root / "hub" / repository
    for file, content in files.items():
        blob = top / "blobs" / hashlib.sha256(content).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        if not blob.exists():
            blob.write_bytes(content)
        link = top / "snapshots" / name / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(*[".."] * (2 + file.count("/"))) / "blobs" / blob.name)
    (top / "refs").mkdir(exist_ok=True)
    (top / "refs" / "main").write_bytes(name.encode())
    return top / "snapshots" / name


def test_a_revision_without_a_config_is_one_artifact_of_its_kind(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    revision(disk, "models--org--m", OLD, {"m.Q4.gguf": gguf(1), "m.Q8.gguf": gguf(2)})
    revision(disk, "datasets--org--d", NEW, {"data/train.csv": b"a,b", "README.md": b"#"})
    shutil.rmtree(disk.root / "hub/datasets--org--d/refs")  # downloaded by its commit
    assert here()[0] == 0
    assert len(server.artifacts) == 2, "no blob is an artifact"
    described = {
        row["name"]: (row["kind"], row["format"], row["facts"].get("repository"))
        for row in server.artifacts.values()
    }
    assert described == {
        OLD: ("model", "huggingface", "org/m"),
        NEW: ("dataset", "huggingface", "org/d"),
    }
