"""The upload thread. It waits for windows, for a token and for the server, and never delays a
poll.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.api.uploader import Uploader, UploadState, fetch_config, forward_runs
from labcarbon_collect.clock import Clock
from labcarbon_collect.config import Login, read_enrolment
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.spool.capacity import release_ballast
from labcarbon_collect.spool.schema import SpoolFull, is_corrupt
from labcarbon_collect.spool.store import Spool

_TOKEN_WAIT_S = 5.0
_SPOOL_WAIT_S = 30.0  # e.g. for a process that locks the spool
_CONFIG_INTERVAL_US = 600_000_000
_NO_FACTOR_INTERVAL_US = 30_000_000  # a grid zone may be set soon
NOT_ENROLLED = "not enrolled: windows are stored; upload starts after: labcarbon-collect enrol URL"


class UploadThread:
    """Runs :class:`Uploader` beside the measuring loop, with its own connection to the spool."""

    def __init__(
        self,
        *,
        home: Path,
        environ: Mapping[str, str],
        node: str,
        boot: str,
        interval_us: int,
        now: Callable[[], Clock],
        health: Callable[[], Mapping[str, Any]],
        device_facts: Callable[[], Mapping[str, Mapping[str, str]]],
    ) -> None:
        self._home, self._environ, self._node, self._boot = home, environ, node, boot
        self._interval_us, self._now, self._health = interval_us, now, health
        self._device_facts = device_facts
        self.state = UploadState(ok=False, at_us=0, error=NOT_ENROLLED)
        self.login: Optional[Login] = None
        self.config: Optional[Dict[str, Any]] = None
        self.skew_us: Optional[int] = None
        self.last_success_us: Optional[int] = None
        self.problem = ""  # error of config/ or runs/
        self.damaged = False
        self.rounds = 0  # completed rounds of sync and upload
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._config_due_us = 0
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread for new data."""
        self._wake.set()

    def drain(self, wait_s: float) -> None:
        """Let a working upload send new data. Does not wait for a failing one."""
        deadline_s = time.monotonic() + wait_s
        before = self.rounds
        self.wake()
        while self.state.ok and self.rounds < before + 1 and time.monotonic() < deadline_s:
            time.sleep(0.01)

    def stop(self, *, wait_s: float = 5.0) -> None:
        """Stop the thread. A running request gets ``wait_s`` seconds."""
        self._stop.set()
        self._wake.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self.damaged:
                self._use_spool()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.state = UploadState(
                ok=False,
                at_us=self._now().wall_us,
                error=f"uploads stopped by an unexpected error ({reason}); all windows are kept: "
                "restart the daemon",
            )
            raise

    def _use_spool(self) -> None:
        """Upload until the thread stops, or until the spool cannot be used for a time."""
        try:
            with closing(Spool(self._home)) as spool:
                saved = spool.get_value("config")
                self.config = json.loads(saved) if saved else None
                while not self._stop.is_set():
                    self._wait(self._session(spool))
        except (sqlite3.DatabaseError, SpoolFull, ConfigurationError) as error:
            self.damaged = isinstance(error, sqlite3.Error) and is_corrupt(error)
            self.state = UploadState(
                ok=False, at_us=self._now().wall_us, error=f"the spool cannot be used: {error}"
            )
            self._stop.wait(_SPOOL_WAIT_S)

    def _session(self, spool: Spool) -> float:
        """Upload with the current token until an error occurs. Returns the seconds to wait."""
        try:
            login = read_enrolment(self._home, self._environ, self._node)
            transport = Transport(login.url, login.token) if login else None
        except (ConfigurationError, InvalidUrlError) as error:
            return self._pause(str(error))
        if transport is None:
            return self._pause(NOT_ENROLLED)
        self.login = login
        uploader = Uploader(
            spool,
            transport,
            node=self._node,
            boot=self._boot,
            interval_us=self._interval_us,
            now=self._now,
            health=self._health,
            device_facts=self._device_facts,
        )
        try:
            while not self._stop.is_set():
                wait_s = self._round(spool, transport, uploader)
                if self.state.ok and not self._has_login_changed(login):
                    self._wait(wait_s)
                    continue
                return wait_s
        finally:
            transport.close()
        return 0.0

    def _round(self, spool: Spool, transport: Transport, uploader: Uploader) -> float:
        try:
            spool.note_server(transport.url)
            self.problem = self._sync(spool, transport) or ""
            self.state = uploader.upload_batch()
        except SpoolFull as error:
            self.state = UploadState(
                ok=False,
                at_us=self._now().wall_us,
                error=str(error),
                wait_s=self._free_space(spool),
            )
        self.rounds += 1
        if self.state.skew_us is not None:
            self.skew_us = self.state.skew_us
        if self.state.ok:
            self.last_success_us = self.state.at_us
        if self.state.more:
            return 0.0
        return self.state.wait_s or self._interval_us / 1_000_000

    def _free_space(self, spool: Spool) -> float:
        """Release the ballast, because a full disk must not block the upload. Returns the seconds
        to wait.
        """
        try:
            release_ballast(spool)
        except SpoolFull:
            return 30.0
        return 1.0

    def _sync(self, spool: Spool, transport: Transport) -> Optional[str]:
        """Fetch the configuration and forward messages of runs. Errors do not block windows."""
        now_us = self._now().monotonic_us
        problem = None
        if now_us >= self._config_due_us:
            problem = fetch_config(spool, transport)
            if problem is None:
                self.config = json.loads(spool.get_value("config") or "null")
                interval_us = (
                    _CONFIG_INTERVAL_US
                    if (self.config or {}).get("factor")
                    else _NO_FACTOR_INTERVAL_US
                )
                self._config_due_us = now_us + interval_us
        return forward_runs(spool, transport, now_us=self._now().wall_us) or problem

    def _has_login_changed(self, login: Optional[Login]) -> bool:
        try:
            return read_enrolment(self._home, self._environ, self._node) != login
        except ConfigurationError:
            return True

    def _pause(self, reason: str) -> float:
        self.login = None
        self.state = UploadState(ok=False, at_us=self._now().wall_us, error=reason)
        return _TOKEN_WAIT_S

    def _wait(self, wait_s: float) -> None:
        """Wait for ``wait_s``. After a success new windows end the wait, after a failure only
        stopping does.
        """
        if wait_s <= 0:
            return
        if self.state.ok:
            self._wake.wait(wait_s)
            self._wake.clear()
        else:
            self._stop.wait(wait_s)
