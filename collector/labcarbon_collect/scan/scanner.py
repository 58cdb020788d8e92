"""One scan: walks folders, reads files, records results and uploads them."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

from labcarbon_collect.progress import Progress
from labcarbon_collect.scan.database import ROOT
from labcarbon_collect.scan.estimate import SizeEstimator
from labcarbon_collect.scan.file_reader import Batch, FileReader
from labcarbon_collect.scan.hashed_files import Entry, ScanState
from labcarbon_collect.scan.local_files import Tree
from labcarbon_collect.scan.queries import ScanQueries, ScanTotals
from labcarbon_collect.scan.rate_limit import RateLimiter
from labcarbon_collect.scan.reader_pool import ReaderPool
from labcarbon_collect.scan.recorder import Recorder
from labcarbon_collect.scan.summary import Tally
from labcarbon_collect.scan.uploader import Uploader
from labcarbon_collect.scan.walker import Walker, WalkFolder

_WAIT_S = 0.2
# A hashing thread needs the interpreter lock for moments only, ten times per file. The default
# switch interval of 5 ms would leave cores idle.
_SWITCH_INTERVAL_S = 0.00002
# Hundreds of thousands of names are kept for a short time, without reference cycles.
_GC_THRESHOLD = 50_000
_EMPTY = (
    "it is empty, but has registered artifacts: is it mounted? (if all of them were removed, "
    "scan its parent folder)"
)


@dataclass(frozen=True)
class ScanOptions:
    """Options of a scan. ``medium``: given by the user. ``limit``: bytes per second.
    ``report_line``: prints the lines of a dry run; None for a real scan.
    """

    threads: int
    limit: Optional[float] = None
    medium: Optional[str] = None
    verify: bool = False
    include_unknown: bool = False
    report_line: Optional[Callable[[str], None]] = None


class Scan:
    """One scan."""

    def __init__(
        self,
        state: ScanState,
        options: ScanOptions,
        uploader: Optional[Uploader],
        progress: Progress,
    ) -> None:
        self._state, self._options, self._uploader, self._progress = (
            state,
            options,
            uploader,
            progress,
        )
        self.tally = Tally()
        self.queries = ScanQueries(state)
        self._recorder = Recorder(
            state, self.tally, on_artifact=self._on_artifact, report_line=options.report_line
        )
        self._pool: Optional[ReaderPool] = None
        self._walk: Optional[Walker] = None
        self._estimator: Optional[SizeEstimator] = None
        self._passed_bytes = 0  # of finished folders

    def run(self, roots: Sequence[Tuple[Tree, bytes]]) -> None:
        """Scan folders, each with its tree. Raises UploadError if the server rejects the upload."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        gc.set_threshold(_GC_THRESHOLD)
        self._estimator = SizeEstimator(roots)
        try:
            for tree, path in roots:
                self._scan_root(tree, path)
        finally:
            self._estimator.stop()
        if self._options.report_line is None:
            self._state.commit(0, now=True)

    def finish(self) -> ScanTotals:
        """Upload the rest and return the totals. Raises UploadError."""
        try:
            if self._uploader is not None:
                self._uploader.finish()
        finally:
            self._show_progress(last=True)
        return self.queries.totals()

    def _scan_root(self, tree: Tree, path: bytes) -> None:
        parts = tree.parts(path)
        parent = self._state.folder(parts[:-1]) if len(parts) > 1 else ROOT
        number, root_path = self._state.child(parent, parts[-1]), b"/".join(parts)
        try:
            listing = tree.list_folder(root_path)
        except OSError as error:
            self.tally.unreadable_folder(root_path, error.strerror or str(error))
            return
        if not listing.files and not listing.folders and self._state.has_entries(number):
            self.tally.unreadable_folder(root_path, _EMPTY)
            return
        options = self._options
        reader = FileReader(
            tree,
            RateLimiter(options.limit),
            include_unknown=options.include_unknown,
            dry_run=options.report_line is not None,
        )
        threads = self._pool = ReaderPool(reader, options.threads)
        self._walk = Walker(
            tree,
            self._state,
            self._recorder,
            self.tally,
            self._submit,
            verify=options.verify,
            include_unknown=options.include_unknown,
            medium=options.medium,
        )
        try:
            self._walk.walk(WalkFolder(root_path, number, parent, parts[-1]))
            while threads.in_progress:
                self._collect(_WAIT_S)
        finally:
            threads.close()
            self._passed_bytes, self._walk = self._passed_bytes + self._walk.walked_bytes, None
        self._state.select_subtree(number, root_path, parent)

    def _submit(self, batch: Optional[Batch]) -> None:
        """Submit a batch once there is room, and collect results meanwhile."""
        threads = self._pool
        if threads is None:
            return
        while self._collect(_WAIT_S if batch is not None and threads.is_full else 0.0) or (
            batch is not None and threads.is_full
        ):
            continue
        if batch is not None:
            threads.submit(batch)

    def _collect(self, wait_s: float) -> bool:
        result = self._pool.next_result(wait_s=wait_s) if self._pool is not None else None
        if result is not None:
            self._recorder.record(*result)
        if self._uploader is not None:
            self._uploader.poll()
        self._show_progress()
        return result is not None

    def _on_artifact(self, parent_path: bytes, entry: Entry) -> None:
        if self._uploader is not None:
            self._uploader.add(parent_path, entry)

    def _show_progress(self, *, last: bool = False) -> None:
        read, unread = self._pool.read_progress if self._pool is not None and not last else (0, 0)
        passed = (
            self._passed_bytes + (self._walk.walked_bytes if self._walk is not None else 0) - unread
        )
        result = (
            1.0
            if last
            else self._estimator.fraction(passed)
            if self._estimator is not None
            else 0.0
        )
        self._progress.update(
            self.tally.files, result, is_final=last, read_bytes=self.tally.read_bytes + read
        )


def outermost_folders(paths: Sequence[bytes]) -> List[bytes]:
    """Return the folders that are not inside another one."""
    outermost: List[bytes] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(other.rstrip(b"/") + b"/") for other in outermost):
            outermost.append(path)
    return outermost
