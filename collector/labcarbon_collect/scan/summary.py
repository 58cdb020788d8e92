"""Counters of one scan and its closing summary. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

from labcarbon_collect.progress import format_bytes
from labcarbon_collect.scan.description import printable

MAX_LISTED = 1000
_MAX_ROWS = 10


@dataclass
class Tally:
    """Counters of a scan. Lists keep the first thousand rows; counters count all."""

    files: int = 0
    read_files: int = 0
    read_bytes: int = 0
    new: int = 0
    changed: int = 0
    missing: int = 0
    links: int = 0
    special: int = 0
    refused: int = 0
    unreadable: int = 0
    refusals: List[Tuple[bytes, str]] = field(default_factory=list)
    unreadable_folders: List[Tuple[bytes, str]] = field(default_factory=list)

    def refuse(self, path: bytes, reason: str) -> None:
        """Count an artifact that cannot be registered."""
        self.refused += 1
        if len(self.refusals) < MAX_LISTED:
            self.refusals.append((path, reason))

    def unreadable_folder(self, path: bytes, reason: str) -> None:
        """Count a folder that cannot be listed. Its stored content is kept."""
        self.unreadable += 1
        if len(self.unreadable_folders) < MAX_LISTED:
            self.unreadable_folders.append((path, reason))


def summary_lines(
    tally: Tally,
    *,
    artifacts: int,
    size: int,
    moved: int,
    corrupt: Sequence[bytes],
    unknown_medium: int,
) -> List[str]:
    """Return the lines that end a scan. ``size``: bytes of all artifacts."""
    unchanged = artifacts - tally.new - tally.changed - len(corrupt)
    counts = [
        f"{_artifact_count(artifacts)}, {format_bytes(size)}: {tally.new - moved:,} new",
        f"{tally.changed:,} changed",
        f"{max(0, unchanged):,} unchanged",
        f"{moved:,} moved",
        f"{tally.missing - moved:,} missing",
        f"{len(corrupt):,} corrupt",
        f"{tally.refused:,} refused",
    ]
    lines = [
        ", ".join(counts),
        (
            f"{tally.files:,} files checked, {tally.read_files:,} read "
            f"({format_bytes(tally.read_bytes)})"
        ),
    ]
    if corrupt:
        lines.append(
            "corrupt: content changed without a change of size and modification time "
            "(intended? touch the file and scan again)"
        )
        lines.extend(_limited_rows([(path, "") for path in corrupt], len(corrupt)))
    if tally.refused:
        lines.append("refused:")
        lines.extend(_limited_rows(tally.refusals, tally.refused))
    if tally.unreadable:
        lines.append("unreadable folders (their stored state is kept):")
        lines.extend(_limited_rows(tally.unreadable_folders, tally.unreadable))
    skipped = [(tally.links, "links (not followed)"), (tally.special, "pipes, devices and sockets")]
    if any(count for count, _ in skipped):
        lines.append(
            "skipped: " + ", ".join(f"{count:,} {what}" for count, what in skipped if count)
        )
    if unknown_medium:
        lines.append(
            f"the medium of {_artifact_count(unknown_medium)} is unknown: set it with --medium "
            "hdd|ssd|object|tape"
        )
    return lines


def copy_lines(
    copies: Sequence[Tuple[bytes, int, int]], copy_bytes: int, paths: Sequence[Sequence[bytes]]
) -> List[str]:
    """Return lines about identical copies: (digest, bytes, number), largest first. ``paths``: paths
    of the first ones.
    """
    if not copies:
        return []
    extra_copies = sum(count - 1 for _, _, count in copies)
    noun = "copy" if extra_copies == 1 else "copies"
    lines = [
        (
            f"{format_bytes(copy_bytes)} in {extra_copies:,} identical {noun} of "
            f"{_artifact_count(len(copies))}"
        )
    ]
    for (digest, size, count), copy_paths in zip(copies, paths):
        ellipsis = ", …" if count > len(copy_paths) else ""
        names = ", ".join(printable(path) for path in copy_paths)
        lines.append(f"  {digest.hex()[:12]} {format_bytes(size)} × {count}: {names}{ellipsis}")
    return lines


def _limited_rows(rows: Sequence[Tuple[bytes, str]], count: int) -> List[str]:
    lines = [
        f"  {printable(path)}" + (f": {reason}" if reason else "")
        for path, reason in rows[:_MAX_ROWS]
    ]
    return [*lines, f"  and {count - _MAX_ROWS:,} more"] if count > _MAX_ROWS else lines


def _artifact_count(number: int) -> str:
    return f"{number:,} artifact{'' if number == 1 else 's'}"
