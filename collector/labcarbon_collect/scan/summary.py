"""Counts of one scan, and its closing summary. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

from labcarbon_collect.progress import amount
from labcarbon_collect.scan.description import shown

MAX_KEPT = 1000
_SHOWN = 10


@dataclass
class Tally:
    """What became of the files of one scan. Lists keep their first thousand; counts count all."""

    files: int = 0
    read_files: int = 0
    read_bytes: int = 0
    new: int = 0
    changed: int = 0
    went: int = 0
    links: int = 0
    special: int = 0
    refused: int = 0
    unreadable: int = 0
    refusals: List[Tuple[bytes, str]] = field(default_factory=list)
    unread: List[Tuple[bytes, str]] = field(default_factory=list)

    def refuse(self, path: bytes, why: str) -> None:
        """Note what would be an artifact and cannot be told."""
        self.refused += 1
        if len(self.refusals) < MAX_KEPT:
            self.refusals.append((path, why))

    def unreadable_folder(self, path: bytes, why: str) -> None:
        """Note a folder that could not be listed: what is in it stays as it was known."""
        self.unreadable += 1
        if len(self.unread) < MAX_KEPT:
            self.unread.append((path, why))


def summary(
    tally: Tally, *, artifacts: int, size: int, moved: int, corrupt: Sequence[bytes], unknown_medium: int
) -> List[str]:
    """The lines that end a scan. ``size``: bytes of all that was found."""
    unchanged = artifacts - tally.new - tally.changed - len(corrupt)
    counts = [
        f"{_artifacts(artifacts)}, {amount(size)}: {tally.new - moved:,} new", f"{tally.changed:,} changed",
        f"{max(0, unchanged):,} unchanged", f"{moved:,} moved", f"{tally.went - moved:,} missing",
        f"{len(corrupt):,} corrupt", f"{tally.refused:,} refused",
    ]  # fmt: skip
    lines = [", ".join(counts), f"{tally.files:,} files looked at, {tally.read_files:,} read ({amount(tally.read_bytes)})"]
    if corrupt:
        lines.append(
            "corrupt: other content under unchanged size and time of change (written on purpose? touch it, scan again)"
        )
        lines.extend(_first([(path, "") for path in corrupt], len(corrupt)))
    if tally.refused:
        lines.append("refused:")
        lines.extend(_first(tally.refusals, tally.refused))
    if tally.unreadable:
        lines.append("folders that cannot be listed; what was known of them stays:")
        lines.extend(_first(tally.unread, tally.unreadable))
    passed = [(tally.links, "links, which are not followed"), (tally.special, "pipes, devices and sockets")]
    if any(count for count, _ in passed):
        lines.append("passed over: " + ", ".join(f"{count:,} {what}" for count, what in passed if count))
    if unknown_medium:
        lines.append(f"the medium of {_artifacts(unknown_medium)} is unknown: name it with --medium hdd|ssd|object|tape")
    return lines


def copies_lines(copies: Sequence[Tuple[bytes, int, int]], copy_bytes: int, paths: Sequence[Sequence[bytes]]) -> List[str]:
    """What lies several times: (digest, bytes, how many), the largest first; ``paths`` of the first of them."""
    if not copies:
        return []
    again = sum(many - 1 for _, _, many in copies)
    lines = [
        f"{amount(copy_bytes)} in {again:,} identical {'copy' if again == 1 else 'copies'} of {_artifacts(len(copies))}"
    ]
    for (digest, size, many), places in zip(copies, paths):
        more = ", …" if many > len(places) else ""
        lines.append(f"  {digest.hex()[:12]} {amount(size)} × {many}: {', '.join(shown(path) for path in places)}{more}")
    return lines


def _first(rows: Sequence[Tuple[bytes, str]], count: int) -> List[str]:
    lines = [f"  {shown(path)}" + (f": {why}" if why else "") for path, why in rows[:_SHOWN]]
    return [*lines, f"  and {count - _SHOWN:,} more"] if count > _SHOWN else lines


def _artifacts(number: int) -> str:
    return f"{number:,} artifact{'' if number == 1 else 's'}"
