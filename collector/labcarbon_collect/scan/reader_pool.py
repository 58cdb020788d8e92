"""Threads that read files, while one thread walks folders and puts down what came of it."""

from __future__ import annotations

import queue
import threading
from typing import Dict, List, Optional, Tuple, Union

from labcarbon_collect.scan.reader import Batch, FileReader, ReadResult

BatchResult = Tuple[Batch, List[ReadResult]]


class ReaderPool:
    """Threads that read batches; what they did is taken by the one who gave them."""

    def __init__(self, reader: FileReader, count: int) -> None:
        self._reader, self._count = reader, count
        self._batches: queue.SimpleQueue[Optional[Batch]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Union[BatchResult, BaseException]] = queue.SimpleQueue()
        self.in_progress: Dict[int, Batch] = {}
        for number in range(count):
            threading.Thread(target=self._work, name=f"scan-{number}", daemon=True).start()

    @property
    def is_disk_full(self) -> bool:
        """Whether enough is given that no thread will stand idle."""
        return len(self.in_progress) >= 4 * self._count

    @property
    def read_progress(self) -> Tuple[int, int]:
        """Bytes of what is under way: read, and not read yet."""
        read = sum(batch.read for batch in self.in_progress.values())
        return read, sum(batch.size for batch in self.in_progress.values()) - read

    def submit(self, batch: Batch) -> None:
        """Have a batch read."""
        self.in_progress[id(batch)] = batch
        self._batches.put(batch)

    def next_result(self, *, wait_s: float = 0.0) -> Optional[BatchResult]:
        """A batch that was read; None if none is within ``wait_s``."""
        try:
            result = self._done.get(timeout=wait_s) if wait_s else self._done.get_nowait()
        except queue.Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        del self.in_progress[id(result[0])]
        return result

    def close(self) -> None:
        """Have the threads end after what they read now."""
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
            except BaseException as error:  # noqa: BLE001 - raised again where it is taken
                self._done.put(error)
