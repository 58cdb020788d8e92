"""Reads and tells what a run declares, in a process of its own at the lowest priority, so that the work is not disturbed.

``python -m labcarbon_collect.lineage.worker``: the first line on standard input says of which run, each further one declares
an artifact, ``{"hurry": true}`` says that the run is over. Once standard input, or the work's process, ends, what is left is
read as fast as it goes and told, and one line on standard output says what came of it.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.config import client_sockets, is_uuid, read_login
from labcarbon_collect.fingerprint.hash_worker import lowest_priority
from labcarbon_collect.identity import ConfigurationError
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.lineage.inspect import Looker, NotTold, Pacing
from labcarbon_collect.lineage.messages import title
from labcarbon_collect.lineage.queue import HURRY
from labcarbon_collect.lineage.reporters import ByDaemon, Teller

LAST_S = 600.0  # for what is left once the run is over
_TELL_EVERY_S, _LOOK_EVERY_S = 30.0, 5.0
_AGAIN_S = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)  # until the server knows the run
_PATIENCE_S, _DEADLINE_S = 30.0, 10.0  # with a server that is away; with one answer of it
_KEPT_FAILURES, _DAEMON_S = 20, 2.0


class Child:
    """One run's. ``asked``: what the first line says."""

    def __init__(self, asked: Mapping[str, Any], teller: Union[Teller, ByDaemon]) -> None:
        home = Path(asked["home"]) if asked["home"] else None
        self._pace = Pacing(asked["bytes_per_s"])
        self._looker = Looker(asked["run"], self._pace, home, asked["most_bytes"])
        self._teller = teller
        self._pid = int(asked["pid"])
        self._lines: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        self._last_s = time.monotonic()
        self._is_over = False

    def work(self) -> Dict[str, Any]:
        """Until the run is over and all is told, or cannot be; returns what came of it."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        for told in self._declared():
            try:
                if "digest" in told:
                    self._teller.add_named(told)
                else:
                    self._teller.add(self._looker.look(told))
            except NotTold as why:
                self._teller.failed.append((title(told), str(why)))
            self._tell()
        teller = self._teller
        ends_s = time.monotonic() + _PATIENCE_S
        for wait_s in _AGAIN_S:
            is_told = teller.tell(max(0.0, ends_s - time.monotonic()))
            if is_told or not teller.is_patient or time.monotonic() + wait_s > ends_s:
                break
            time.sleep(wait_s)
        teller.give_up()
        return {
            "told": teller.told, "failed": teller.failed[:_KEPT_FAILURES], "lost": len(teller.failed),
            "notes": teller.notes[:3],
        }  # fmt: skip

    def _listen(self) -> None:
        """Take lines as they come: whoever writes them never waits."""
        for line in sys.stdin:
            if line == HURRY:
                self._hurry()
            else:
                self._lines.put(line)
        self._hurry()
        self._lines.put(None)

    def _hurry(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._pace.hurry()
        alarm = threading.Timer(LAST_S, os._exit, (1,))
        alarm.daemon = True
        alarm.start()

    def _declared(self) -> Iterator[Dict[str, Any]]:
        while True:
            try:
                line = self._lines.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                if not _goes_on(self._pid):  # its forks may hold our standard input open
                    self._hurry()
                    return
                self._tell()
                continue
            if line is None:
                return
            with suppress(ValueError):
                yield json.loads(line)

    def _tell(self) -> None:
        if time.monotonic() - self._last_s > _TELL_EVERY_S and self._teller.left:
            self._teller.tell(_LOOK_EVERY_S)
            self._last_s = time.monotonic()


def _teller(asked: Mapping[str, Any]) -> Union[Teller, ByDaemon]:
    """With a person's token, else through the daemon. Raises Refused and BadAddress."""
    login = read_login(os.environ)
    if login is None:
        return ByDaemon(asked["run"], os.environ)
    transport = Transport(login.url, login.token, deadline_s=_DEADLINE_S)
    return Teller(transport, asked["run"], asked["node"] or _node_here(os.environ))


def _node_here(environ: Mapping[str, str]) -> str:
    """The node that paths lie on, as this machine's daemon says; "" where there is none."""
    named = environ.get("LABCARBON_NODE_ID", "")
    if is_uuid(named):
        return named
    try:
        client = Client(client_sockets(environ), timeout_s=_DAEMON_S)
        node = client.call({"op": "status"}, timeout_s=_DAEMON_S).get("node")
        client.close()
    except DaemonUnavailable:
        return ""
    return str(node) if is_uuid(node) else ""


def _goes_on(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def main() -> None:
    """Read what is asked, do it, say what came of it."""
    lowest_priority()
    asked: Dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        done = Child(asked, _teller(asked)).work()
    except (ConfigurationError, InvalidUrlError) as error:
        done = {"told": 0, "failed": [], "lost": 0, "notes": [], "why": str(error)}
    with suppress(OSError):
        print(json.dumps(done), flush=True)
    os._exit(0)  # a thread may be waiting for a line that never comes


if __name__ == "__main__":
    main()
