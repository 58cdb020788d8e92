"""A cache of the Hugging Face hub: each revision is one artifact."""

from __future__ import annotations

import shutil
from typing import Any

from tests.collector.scan.hub_cache import revision
from tests.collector.scan.support import Disk, gguf
from tests.fakes.labcarbon_server import FakeServer

OLD, NEW = "1111111111", "2222222222"


def test_a_revision_without_a_config_is_one_artifact_of_its_kind(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    revision(disk.root / "hub", "models--org--m", OLD, {"m.Q4.gguf": gguf(1), "m.Q8.gguf": gguf(2)})
    revision(
        disk.root / "hub", "datasets--org--d", NEW, {"data/train.csv": b"a,b", "README.md": b"#"}
    )
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
