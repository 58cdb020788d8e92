"""Builds a cache of the Hugging Face hub, and sums of the space that files use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def revision(cache: Path, repository: str, name: str, files: Mapping[str, bytes]) -> Path:
    """Write a revision as huggingface_hub does: files in blobs, relative links in snapshots."""
    top = cache / repository
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


def used_bytes(folders: Iterable[Path]) -> int:
    """Return the bytes of the visible files below folders and behind their links, by inode."""
    inodes = dict[tuple[int, int], int]()
    for folder in folders:
        for path in [folder] if folder.is_file() else folder.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if path.is_file() and not hidden:
                status = path.stat()
                inodes[status.st_dev, status.st_ino] = status.st_size
    return sum(inodes.values())


def counted_bytes(
    spaces: Mapping[str, dict[str, Any]], sizes: Mapping[str, int]
) -> tuple[int, dict[str, int]]:
    """Return the space of copies (path → size), and the part counted at each of them: its own
    bytes, and the groups that no earlier copy counts.
    """
    parts, groups = dict[str, int](), set[str]()
    for path, size in sizes.items():
        space = spaces.get(path, {"own_bytes": None, "shared": []})
        own = size if space["own_bytes"] is None else space["own_bytes"]
        new = [group for group in space["shared"] if group["key"] not in groups]
        groups |= {group["key"] for group in new}
        parts[path] = own + sum(group["bytes"] for group in new)
    return sum(parts.values()), parts
