"""Counts the bytes that a scan will come to, so that it can say how far it is and how long it takes."""

from __future__ import annotations

import threading
from typing import List, Optional, Sequence, Tuple

from labcarbon_collect.scan.local_files import Tree

# A scan that ends before that asks for nothing twice.
DELAY_S = 3.0
_JOIN_TIMEOUT_S = 1.0


class SizeEstimator:
    """Looks at the folders of a scan, in a thread of its own that reads no file. What it cannot list counts nothing, and so
    do links: it is for who waits, not for the books."""

    def __init__(self, roots: Sequence[Tuple[Tree, bytes]]) -> None:
        self.total: Optional[int] = None  # bytes; None until all is counted
        self._roots = roots
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._count, name="scan-ahead", daemon=True)
        self._thread.start()

    def fraction(self, done_bytes: int) -> float:
        """Which part of all bytes is passed, 0 to 1; 0 as long as nobody knows."""
        return min(1.0, done_bytes / self.total) if self.total else 0.0

    def stop(self) -> None:
        """Count no further. A listing that takes long is not waited for."""
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
