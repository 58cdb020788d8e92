"""A pool of threads that read files for the thread that walks folders and records results."""

from __future__ import annotations

import queue
import threading
from typing import Dict, List, Optional, Tuple, Union

from labcarbon_collect.scan.file_reader import Batch, FileReader, ReadResult

BatchResult = Tuple[Batch, List[ReadResult]]


class ReaderPool:
    """Threads that read batches. The submitting thread collects the results."""

    def __init__(self, reader: FileReader, count: int) -> None:
        self._reader, self._count = reader, count
        self._batches: queue.SimpleQueue[Optional[Batch]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Union[BatchResult, BaseException]] = queue.SimpleQueue()
        self.in_progress: Dict[int, Batch] = {}
        for number in range(count):
            threading.Thread(target=self._work, name=f"scan-{number}", daemon=True).start()

    @property
    def is_full(self) -> bool:
        """Whether enough is given that no thread will stand idle."""
        return len(self.in_progress) >= 4 * self._count

    @property
    def read_progress(self) -> Tuple[int, int]:
        """Bytes of submitted batches: read, and not read yet."""
        read = sum(batch.read for batch in self.in_progress.values())
        return read, sum(batch.size for batch in self.in_progress.values()) - read

    def submit(self, batch: Batch) -> None:
        """Submit a batch."""
        self.in_progress[id(batch)] = batch
        self._batches.put(batch)

    def next_result(self, *, wait_s: float = 0.0) -> Optional[BatchResult]:
        """Return a finished batch, or None after ``wait_s``."""
        try:
            result = self._done.get(timeout=wait_s) if wait_s else self._done.get_nowait()
        except queue.Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        del self.in_progress[id(result[0])]
        return result

    def close(self) -> None:
        """Stop the threads after their current batch."""
        while self._drop_batch():
            continue
        for _ in range(self._count):
            self._batches.put(None)

    def _drop_batch(self) -> bool:
        try:
            self._batches.get_nowait()
        except queue.Empty:
            return False
        return True

    def _work(self) -> None:
        while True:
            batch = self._batches.get()
            if batch is None:
                return
            try:
                self._done.put((batch, self._reader.read(batch)))
            except BaseException as error:  # noqa: BLE001 - re-raised by next_result
                self._done.put(error)
