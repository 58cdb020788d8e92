"""Threads that read files, while one thread walks folders and puts down what came of it."""

from __future__ import annotations

import queue
import threading
from typing import Dict, List, Optional, Tuple, Union

from labcarbon_collect.scan.reader import Batch, FileReader, Read

Done = Tuple[Batch, List[Read]]


class Threads:
    """Threads that read batches; what they did is taken by the one who gave them."""

    def __init__(self, reader: FileReader, count: int) -> None:
        self._reader, self._count = reader, count
        self._given: queue.SimpleQueue[Optional[Batch]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Union[Done, BaseException]] = queue.SimpleQueue()
        self.under_way: Dict[int, Batch] = {}
        for number in range(count):
            threading.Thread(target=self._work, name=f"scan-{number}", daemon=True).start()

    @property
    def is_disk_full(self) -> bool:
        """Whether enough is given that no thread will stand idle."""
        return len(self.under_way) >= 4 * self._count

    @property
    def reading(self) -> Tuple[int, int]:
        """Bytes of what is under way: read, and not read yet."""
        read = sum(batch.read for batch in self.under_way.values())
        return read, sum(batch.size for batch in self.under_way.values()) - read

    def give(self, batch: Batch) -> None:
        """Have a batch read."""
        self.under_way[id(batch)] = batch
        self._given.put(batch)

    def take(self, *, wait_s: float = 0.0) -> Optional[Done]:
        """A batch that was read; None if none is within ``wait_s``."""
        try:
            done = self._done.get(timeout=wait_s) if wait_s else self._done.get_nowait()
        except queue.Empty:
            return None
        if isinstance(done, BaseException):
            raise done
        del self.under_way[id(done[0])]
        return done

    def close(self) -> None:
        """Have the threads end after what they read now."""
        while self._drop():
            continue
        for _ in range(self._count):
            self._given.put(None)

    def _drop(self) -> bool:
        try:
            self._given.get_nowait()
        except queue.Empty:
            return False
        return True

    def _work(self) -> None:
        while True:
            batch = self._given.get()
            if batch is None:
                return
            try:
                self._done.put((batch, self._reader.read(batch)))
            except BaseException as error:  # noqa: BLE001 - raised again where it is taken
                self._done.put(error)
