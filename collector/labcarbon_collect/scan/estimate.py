"""Counts the bytes of all folders of a scan, for progress and remaining time."""

from __future__ import annotations

import threading
from typing import List, Optional, Sequence, Tuple

from labcarbon_collect.scan.local_files import Tree

# A scan shorter than this lists no folder twice.
DELAY_S = 3.0
_JOIN_TIMEOUT_S = 1.0


class SizeEstimator:
    """Lists the folders of a scan in a thread of its own. It opens no file. Links and folders that
    cannot be listed count as zero: the result is for display only.
    """

    def __init__(self, roots: Sequence[Tuple[Tree, bytes]]) -> None:
        self.total: Optional[int] = None  # bytes, None until the count is complete
        self._roots = roots
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._count, name="scan-ahead", daemon=True)
        self._thread.start()

    def fraction(self, done_bytes: int) -> float:
        """Return the share of all bytes that is processed, 0 to 1. Returns 0 until the total is
        known.
        """
        return min(1.0, done_bytes / self.total) if self.total else 0.0

    def stop(self) -> None:
        """Stop counting. Does not wait for a slow listing."""
        self._stopped.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def _count(self) -> None:
        if self._stopped.wait(DELAY_S):
            return
        total = 0
        for tree, root in self._roots:
            folders: List[bytes] = [b"/".join(tree.parts(root))]
            while folders and not self._stopped.is_set():
                folder = folders.pop()
                try:
                    listing = tree.list_folder(folder)
                except OSError:
                    continue
                total += sum(stamp[1] for stamp in listing.files)
                folders.extend(folder + b"/" + name for name in listing.folders)
        if not self._stopped.is_set():
            self.total = total
