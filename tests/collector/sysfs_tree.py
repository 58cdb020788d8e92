"""Folders that imitate /proc and /sys of a machine."""

from __future__ import annotations

from pathlib import Path


def disk(sys: Path, name: str, **texts: str) -> None:
    defaults = {
        "size": "3907029168",
        "removable": "0",
        "queue/rotational": "0",
        "device/model": "Samsung SSD 990 PRO 2TB",
    }
    for relative, text in {
        **defaults,
        **{name.replace("__", "/"): text for name, text in texts.items()},
    }.items():
        path = sys / "block" / name / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def board(sys: Path, **texts: str) -> None:
    folder = sys / "class" / "dmi" / "id"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")


def proc(folder: Path, flags: str = "fpu sse2") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "cpuinfo").write_text(f"model name\t: AMD EPYC 7742\nflags\t\t: {flags}\n")
    return folder
