"""What a run read and made, told through the daemon of this machine where nobody is logged in."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from labcarbon_collect.config import client_sockets
from labcarbon_collect.ipc.client import Client, NoDaemon, error_text
from labcarbon_collect.lineage.forwarded import MOST_ROWS
from labcarbon_collect.lineage.messages import title
from labcarbon_collect.timeouts import PATIENCE_S

_MOST_BYTES = 40 * 1024  # of a request: the daemon takes a line of 64 KiB


class ByDaemon:
    """One run's artifacts; as :class:`labcarbon_collect.lineage.reporters.Teller`, which tells the server itself."""

    is_patient = False  # a daemon answers at once, or there is none

    def __init__(self, run: str, environ: Mapping[str, str]) -> None:
        self._run, self._environ = run, environ
        self._waiting: List[Dict[str, Any]] = []
        self.told, self.why = 0, ""
        self.failed: List[Tuple[str, str]] = []
        self.notes: List[str] = []

    @property
    def left(self) -> int:
        """How many the daemon was not told of yet."""
        return len(self._waiting)

    def add(self, row: Dict[str, Any]) -> None:
        """Take one to tell."""
        self._waiting.append(row)

    def add_named(self, told: Mapping[str, Any]) -> None:
        """Refuse one that was named by its digest alone: a machine asks the server for nothing."""
        self.failed.append((title(told), "a digest needs a login of your own: labcarbon-collect login URL"))

    def tell(self, patience_s: float) -> bool:
        """Tell what waits; returns whether nothing is left."""
        while self._waiting:
            rows = _some(self._waiting)
            try:
                answer = self._ask(rows, max(PATIENCE_S, patience_s))
            except NoDaemon as error:
                self.why = f"you are not logged in, and {error}"
                return False
            wrong = error_text(answer)
            if wrong is None and answer.get("artifacts") != len(rows):
                wrong = "the daemon of this machine is older than this: start it anew"
            if wrong is None:
                self.told += len(rows)
            else:
                self.failed += [(title(row), wrong) for row in rows]
            del self._waiting[: len(rows)]
        return True

    def give_up(self) -> None:
        """Nobody waits any longer."""
        self.failed += [(title(row), self.why) for row in self._waiting]
        self._waiting = []

    def _ask(self, rows: Sequence[Mapping[str, Any]], timeout_s: float) -> Dict[str, Any]:
        client = Client(client_sockets(self._environ), timeout_s=PATIENCE_S)
        try:
            told = [{key: each for key, each in row.items() if key != "copies"} for row in rows]
            return client.call({"op": "tell", "run": self._run, "artifacts": told}, timeout_s=timeout_s)
        finally:
            client.close()


def _some(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """What goes into one request: at least one."""
    taken, size = 0, 0
    for row in rows[:MOST_ROWS]:
        size += len(json.dumps(row))
        if taken and size > _MOST_BYTES:
            break
        taken += 1
    return rows[:taken]
