"""A typical disk: checkpoints of runs, models of unknown origin, data, notes, links.

Also a listing of a disk for comparisons.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from stat import S_IMODE
from typing import Any

from tests.collector.scan.support import NPY, gguf, torch

RUNS = {
    "unet": ("finished", ""), "segment": ("finished", ""), "bert": ("finished", ""),
    "broken": ("failed", ""), "lr-1": ("finished", "lr"), "lr-2": ("finished", "lr"),
    "today": ("running", ""),
}  # fmt: skip
_HOLE = 3_000_000
_NUMBERS = count(1)  # makes each content unique
_DAY_S = 86_400


@dataclass(frozen=True)
class Item:
    """An artifact with its path below the disk.

    ``run``: name and role of its run. ``facts``: facts reported by that run.
    ``retention_class``: class by which a plan lists it when it is due; '' if a plan never lists it.
    """

    path: str
    run: tuple[str, str] | None = None
    retention_class: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def engineers_disk(root: Path) -> list[Item]:
    """Write the disk; return its artifacts. The sweep's best is the second of lr-1."""
    items = [*_checkpoints(), *_others()]
    for item in items:
        _WRITERS[Path(item.path).suffix](_place(root, item.path))
    for name in ("notes.md", "runs/unet/train.py", "runs/unet/log.txt", ".profile"):
        _place(root, name).write_text(f"{name}\n")
    (root / "runs/unet/latest.ckpt").symlink_to("epoch=10.ckpt")
    (root / "runs/segment/first.safetensors").symlink_to(
        "model-100.safetensors"
    )  # a plan lists the target
    (root / "empty").mkdir()
    _age(root)
    return items


def _checkpoints() -> Iterator[Item]:
    for run, form, steps in (
        ("unet", "epoch={}.ckpt", range(1, 11)),
        ("segment", "model-{}.safetensors", range(100, 1100, 100)),
        ("bert", "checkpoint-{}", (500, 1000, 1500)),
        ("broken", "step={}.ckpt", range(1, 5)),
        ("lr-1", "step={}.ckpt", (10, 20, 30)),
        ("lr-2", "step={}.ckpt", (10, 20, 30)),
        ("today", "step={}.ckpt", range(4)),
    ):
        for place, step in enumerate(steps):
            yield Item(
                f"runs/{run}/{form.format(step)}",
                (run, "produced"),
                _kept(run, place, len(steps)),
                {"step": step},
            )
    for path, run in (
        ("runs/unet/best.ckpt", "unet"),
        ("runs/segment/kept.safetensors", "segment"),
    ):
        yield Item(path, (run, "produced"), "final", {"step": 4, "best": True})


def _kept(run: str, place: int, number: int) -> str:
    left = number - place
    if run == "lr-2":
        return "sweep"
    if RUNS[run][0] == "running":
        return "" if left <= 2 else "intermediate"
    if left == 1:
        return "final" if RUNS[run][0] == "finished" else "crashed"
    return "final" if (run, place) == ("lr-1", 1) else "intermediate"


def _others() -> Iterator[Item]:
    yield from (Item(f"zoo/llama-{i}.gguf") for i in range(5))
    yield Item("zoo/vit")
    yield Item("data/cells.npy", ("unet", "used"))
    yield Item("data/base.safetensors", ("segment", "initialised_from"))


def _place(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _sparse(path: Path) -> None:
    """Write one tensor: a number, then a hole."""
    described = {"w": {"dtype": "U8", "shape": [_HOLE], "data_offsets": [0, _HOLE]}}
    head = json.dumps(described).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes([next(_NUMBERS) % 256]))
    os.truncate(path, 8 + len(head) + _HOLE)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "bert", "number": next(_NUMBERS)}))
    _sparse(path / "model.safetensors")


_WRITERS: dict[str, Callable[[Path], object]] = {
    ".ckpt": lambda path: path.write_bytes(torch(next(_NUMBERS) % 256)),
    ".gguf": lambda path: path.write_bytes(gguf(next(_NUMBERS))),
    ".npy": lambda path: path.write_bytes(NPY + bytes(next(_NUMBERS))),
    ".safetensors": _sparse,
    "": _folder,
}


def _age(root: Path) -> None:
    """Set modification times about three months ago, all different. Make some files read-only."""
    for number, path in enumerate(
        path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()
    ):
        path.chmod((0o644, 0o640, 0o440)[number % 3])
        at_ns = path.stat().st_mtime_ns - (90 * _DAY_S * 10**9 + number * 1_000_000_007)
        os.utime(path, ns=(at_ns, at_ns))


def listing(root: Path) -> dict[str, tuple[Any, ...]]:
    """Return the entries below a folder: inode, mode, links; time, size and digest of files.

    A symbolic link has its time and target. A folder has only inode and mode, because a changed
    entry changes its time.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            about = path.lstat()
            which = (about.st_ino, S_IMODE(about.st_mode), about.st_nlink)
            if path.is_symlink():
                which = (*which, about.st_mtime_ns, str(path.readlink()))
            elif path.is_file():
                which = (
                    *which,
                    about.st_mtime_ns,
                    about.st_size,
                    hashlib.sha256(path.read_bytes()).hexdigest(),
                )
            else:
                which = which[:2]  # a new subfolder changes the link count
            found[str(path.relative_to(root))] = which
    return found
