"""Tells the server what a run read and made, once it knows the run."""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkUploader, UploadError
from labcarbon_collect.api.transport import ServerUnavailable, Transport
from labcarbon_collect.config import client_sockets
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.lineage.inspect import NotTold
from labcarbon_collect.lineage.messages import MOST_ROWS, title
from labcarbon_collect.timeouts import STARTUP_TIMEOUT_S

# Of a row whose run the server has not heard of (docs/artifacts.md): the artifact is kept, the edge is not.
_NO_RUN = "There is no run "
_LATER = (429, 500, 502, 503, 504)


class Teller:
    """One run's artifacts. ``why``: why the server does not know of them."""

    is_patient = True  # the server may answer later

    def __init__(
        self, transport: Transport, run: str, node: str, *, now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._transport, self._run, self._node, self._now, self._sleep = transport, run, node, now, sleep
        self._waiting: List[Dict[str, Any]] = []
        self._named: List[Mapping[str, Any]] = []
        self._ends_s = 0.0
        self.told, self.why = 0, ""
        self.failed: List[Tuple[str, str]] = []
        self.notes: List[str] = []

    @property
    def left(self) -> int:
        """How many the server was not told of yet."""
        return len(self._waiting) + len(self._named)

    def add(self, row: Dict[str, Any]) -> None:
        """Take one to tell."""
        self._waiting.append(row)

    def add_named(self, told: Mapping[str, Any]) -> None:
        """Take one that was named by its digest alone."""
        self._named.append(told)

    def _find_named(self) -> bool:
        """Ask the server for what was named by its digest; returns whether it answered."""
        while self._named:
            told = self._named[0]
            try:
                self.add(self._known(told))
            except NotTold as why:
                self.failed.append((title(told), str(why)))
            except UploadError as ended:
                self.why = str(ended)
                return False
            del self._named[0]
        return True

    def _known(self, told: Mapping[str, Any]) -> Dict[str, Any]:
        """An artifact as the server knows it. Raises NotTold, and PushEnded where it may answer later."""
        try:
            reply = self._transport.call("GET", f"artifacts/{told['digest']}/")
        except ServerUnavailable as error:
            raise UploadError(str(error)) from error
        if reply.status == 404:
            raise NotTold("the server knows no artifact of this digest")
        if reply.status != 200 or not isinstance(reply.body, dict):
            why = f"{self._transport.url} answered {reply.status}: {reply.message}"
            if reply.status in _LATER:
                raise UploadError(why)
            raise NotTold(why)
        try:
            row = {key: reply.body[key] for key in ("digest", "name", "bytes", "form", "files")}
        except KeyError as error:
            raise NotTold(f"{self._transport.url} answers as no LabCarbon server does") from error
        return {**row, "runs": [{"run": self._run, "role": told["role"]}]}

    def tell(self, patience_s: float) -> bool:
        """Tell what waits; returns whether nothing is left. What cannot be told now waits for the next time."""
        self._ends_s = self._now() + patience_s
        if not self._find_named():
            return False
        while self._waiting:
            rows = self._waiting[:MAX_ROWS]
            try:
                is_known = self._send(rows)
            except UploadError as ended:
                if not ended.is_rejected:
                    self.why = str(ended)
                    return False
                self._give_up(rows, str(ended))
                is_known = True
            if not is_known:
                self.why = "the server does not know of this run"
                return False
            del self._waiting[: len(rows)]
        return True

    def give_up(self) -> None:
        """Nobody waits any longer."""
        self._give_up([*self._waiting, *self._named], self.why)
        self._waiting, self._named = [], []

    def _send(self, rows: List[Dict[str, Any]]) -> bool:
        """Send rows; whether the server knows the run that they name. Raises PushEnded."""
        try:
            return self._push(rows, self._node)
        except UploadError as ended:
            if not (ended.is_rejected and self._node):
                raise
            # The node that this machine is may not be one of the lab's: then nobody can say where the paths lie.
            self.notes.append(f"where they lie is not told: {ended}")
            self._node = ""
            return self._push(rows, "")

    def _push(self, rows: List[Dict[str, Any]], node: str) -> bool:
        beside = {"node": node} if node else {}
        push = BulkUploader(self._transport, "artifacts/", key="artifacts", beside=beside, say=_silent, sleep=self._wait)
        placed = rows if node else [{key: each for key, each in row.items() if key != "copies"} for row in rows]
        results = push.send([(title(row), row) for row in placed])
        if any(note.startswith(_NO_RUN) for note in push.outcome.notes):
            return False
        self.told += sum(result != "refused" for result in results)
        self.failed += push.outcome.errors
        return True

    def _give_up(self, rows: Sequence[Mapping[str, Any]], why: str) -> None:
        self.failed += [(title(row), why) for row in rows]

    def _wait(self, seconds: float) -> None:
        if self._now() + seconds > self._ends_s:
            raise UploadError(f"{self._transport.url} does not answer")
        self._sleep(seconds)


def _silent(text: str) -> None:
    """What is tried again is not said: who began this has better to do."""


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
                answer = self._ask(rows, max(STARTUP_TIMEOUT_S, patience_s))
            except DaemonUnavailable as error:
                self.why = f"you are not logged in, and {error}"
                return False
            wrong = response_error(answer)
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
        client = Client(client_sockets(self._environ), timeout_s=STARTUP_TIMEOUT_S)
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
