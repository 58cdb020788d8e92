"""The daemon: poll every second, answer the socket in between, and let the upload thread empty the
spool.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional

from labcarbon_collect import __version__, locks
from labcarbon_collect.api.upload_thread import UploadThread
from labcarbon_collect.clock import Clock
from labcarbon_collect.config import collector_dir, daemon_socket, spool_max_bytes
from labcarbon_collect.daemon.job_registry import JobRegistry
from labcarbon_collect.daemon.run_registry import RunRegistry
from labcarbon_collect.daemon.systemd import notify
from labcarbon_collect.daemon.top_response import top_response
from labcarbon_collect.energy.attribution import ConsumerLookup
from labcarbon_collect.energy.windows import last_boundary
from labcarbon_collect.errors import RequestError
from labcarbon_collect.ipc.server import SocketServer
from labcarbon_collect.monitor.monitor import POLL_US, NodeMonitor
from labcarbon_collect.node_identity import Node, boot_id, node_identity, read_clock
from labcarbon_collect.processes.cpu_time import BusyTime
from labcarbon_collect.pseudonyms import KEEP_NAMES, UserNames, user_name_of
from labcarbon_collect.slurm.watcher import create_watcher
from labcarbon_collect.sources.base import Reading
from labcarbon_collect.sources.cpu_model import modelled_idle_mw
from labcarbon_collect.sources.poller import open_sources
from labcarbon_collect.spool.capacity import (
    SpoolCapacity,
    recover_acknowledged,
    save_acknowledged,
)
from labcarbon_collect.spool.pseudonymise import pseudonymise_spool
from labcarbon_collect.spool.schema import FILE, SpoolFull, is_corrupt, rename_damaged
from labcarbon_collect.spool.store import Spool

PROCESS_INTERVAL_US = 5_000_000
_ORPHAN_INTERVAL_US = 10_000_000
_FINAL_UPLOAD_S = 3.0  # for the windows closed by stopping


@dataclass(frozen=True)
class DaemonSettings:
    """Settings of the daemon."""

    interval_s: int = 60
    upload: bool = True
    until_idle: bool = False  # end after all registered runs have ended (``run --local``)
    on_reading: Optional[Callable[[Reading], None]] = None
    users: UserNames = KEEP_NAMES  # how user names are sent to the server


class Daemon:
    """Measures one node until it is stopped."""

    def __init__(
        self,
        environ: Mapping[str, str],
        settings: DaemonSettings,
        *,
        consumers: ConsumerLookup,
        now: Callable[[], Clock] = read_clock,
        log: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        """Lock the node and open all resources. Raises ConfigurationError, AlreadyRunning,
        ValueError (a setting), SpoolFull.
        """
        self._environ, self._settings, self._consumers, self._now, self._log = (
            environ,
            settings,
            consumers,
            now,
            log,
        )
        self._max_bytes = spool_max_bytes(environ)
        self.home = collector_dir(environ)
        self.node: Node = node_identity(self.home, environ)
        self._locks = [locks.lock_node(self.node.uuid)]
        if settings.upload and not environ.get("LABCARBON_NODE_ID"):
            self._locks.append(locks.lock_machine())
        self.boot = boot_id()
        self.notes: List[str] = []  # files renamed and devices recovered at the start
        if self.node.foreign_files:
            self._add_note(
                "this data folder belonged to another machine; its files "
                f"({', '.join(self.node.foreign_files)}) "
                "were moved to a subfolder. This is a new node: labcarbon-collect enrol URL"
            )
        self._stopping = False
        self._process_list_us = self._orphan_check_us = -PROCESS_INTERVAL_US
        self._boundary_us = 0
        self._upload_thread: Optional[UploadThread] = None
        self._had_runs = False
        self._grid_us = settings.interval_s * 1_000_000
        try:
            self._open()
            self.server = SocketServer(daemon_socket(environ), self._handle)
        except BaseException:
            for lock in self._locks:
                lock.close()
            raise

    def run(self) -> None:
        """Measure until SIGTERM or SIGINT."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        self._start_upload()
        notify("READY=1")
        try:
            while not self._stopping:
                try:
                    self.tick()
                except sqlite3.DatabaseError as error:
                    self._recover_spool(error)
                self._wait()
        finally:
            self.close()

    def tick(self) -> None:
        """Poll one time, with process lists every 5 s and at each boundary of the grid."""
        clock = self._now()
        is_due = clock.monotonic_us - self._process_list_us >= PROCESS_INTERVAL_US
        boundary_us = last_boundary(clock.wall_us, self._grid_us)
        with_processes = is_due or boundary_us != self._boundary_us
        if with_processes:
            self._process_list_us, self._boundary_us = clock.monotonic_us, boundary_us
        if self.monitor.poll(with_processes=with_processes):
            self._wake_upload()
        if with_processes and self.jobs.update():
            self._wake_upload()
        if clock.monotonic_us - self._orphan_check_us >= _ORPHAN_INTERVAL_US:
            self._orphan_check_us = clock.monotonic_us
            self.runs.end_orphans()
        if self._upload_thread is not None and self._upload_thread.damaged:
            raise sqlite3.DatabaseError(
                "database disk image is malformed (detected by the upload thread)"
            )
        self._had_runs = self._had_runs or bool(self.runs.active)
        if self._settings.until_idle and self._had_runs and not self.runs.active:
            self._stopping = True
        notify("WATCHDOG=1")

    def close(self) -> None:
        """Close the open windows and release all resources."""
        notify("STOPPING=1")
        self.server.close()
        try:
            self.monitor.poll(with_processes=True)
            self.monitor.flush()
        except sqlite3.DatabaseError as error:
            self._log(
                f"the last windows could not be stored ({error}); the counters include their energy"
            )
        if self._upload_thread is not None:
            self._upload_thread.drain(_FINAL_UPLOAD_S)
            self._upload_thread.stop()
        self.monitor.sources.close()
        self._spool.close()
        for lock in self._locks:
            lock.close()

    def status(self) -> Dict[str, Any]:
        """Return the response to ``status``. It contains nothing about individual runs."""
        depth = self._spool.depth()
        upload = self._upload_thread
        login = upload.login if upload else None
        readings = self.monitor.last_readings()
        refused = self._spool.runs.refused_messages()
        return {
            "ok": True,
            "version": __version__,
            "node": self.node.uuid,
            "pid": os.getpid(),
            "data": str(self.home.parent),
            "interval_s": self._settings.interval_s,
            "users": self._settings.users.stamp,
            "enrolled": login is not None,
            "url": login.url if login else "",
            "lab": login.lab if login else "",
            "sources": self.monitor.sources.status(),
            "devices": [
                {
                    "device": key,
                    "name": info.name,
                    "measurement": readings[key].measurement
                    if key in readings
                    else info.measurement,
                    "facts": dict(info.facts),
                    "last_reading_us": readings[key].wall_us if key in readings else None,
                }
                for key, info in sorted(self.monitor.sources.devices.items())
            ],
            "device_problems": self._device_problems(),
            "windows_closed": self.monitor.windows_closed,
            "spool": {
                "rows": depth.rows,
                "dead": depth.dead,
                "bytes": depth.bytes,
                "oldest_us": depth.oldest_us,
            },
            "answered": {
                k: {"windows": n, "energy_mj": mj}
                for k, (n, mj) in self._spool.result_totals().items()
            },
            "push": {
                "ok": bool(upload and upload.state.ok),
                "error": upload.state.error if upload else "uploads are disabled",
                "at_us": upload.last_success_us if upload else None,
            },
            "complaint": upload.problem if upload else "",
            "refused_messages": {"count": refused.count, "reason": refused.reason},
            "skew_us": upload.skew_us if upload else None,
            "full": self.monitor.stop_reason,
            "notes": list(self.notes),
            "runs": len(self.runs.active),
            "config": self._config(),
            "jobs": self.jobs.status(),
        }

    def _open(self, *, is_damaged: bool = False) -> None:
        """Open spool, sources and registries. ``is_damaged``: rename the spool first, it proved
        damaged in use.
        """
        damaged_file = rename_damaged(self.home / FILE) if is_damaged else None
        self._spool = Spool(self.home, check=True)
        damaged_file = damaged_file or self._spool.damaged_file
        renamed = pseudonymise_spool(self._spool, self._settings.users)
        if renamed:
            self._add_note(
                f"{renamed} rows of the spool contained user names and were rewritten (mode "
                f"{self._settings.users.mode})"
            )
        # An empty spool beside acknowledged anchors was lost. The counters continue from the
        # anchors.
        recovered = (
            0 if self._spool.anchors() else recover_acknowledged(self._spool, boot=self.boot)
        )
        if damaged_file:
            self._add_note(
                f"the spool was damaged and renamed to {damaged_file}; {recovered} devices "
                "continue from their counters"
            )
        elif recovered:
            self._add_note(
                f"the spool was missing; {recovered} devices continue from their counters"
            )
        sources = open_sources(
            self.node.uuid, self._environ, now=self._now, last=self._spool.anchors
        )
        self.monitor = NodeMonitor(
            spool=self._spool,
            capacity=SpoolCapacity(self._spool, max_bytes=self._max_bytes),
            sources=sources,
            consumers=self._consumers,
            boot=self.boot,
            grid_us=self._grid_us,
            now=self._now,
            busy_us=BusyTime().total_us,
            idle_mw=modelled_idle_mw(self.node.uuid),
            on_reading=self._settings.on_reading,
        )
        self.runs = RunRegistry(self.monitor, now=self._now, config=self._config)
        names = self._settings.users
        watch = create_watcher(
            self._spool, self._environ, node=self.node.uuid, sources=sources, names=names
        )
        watch = watch if self._settings.upload else None
        self.jobs = JobRegistry(self.monitor, now=self._now, config=self._config, watch=watch)
        self._upload_thread = None
        self.monitor.poll(with_processes=True)  # store the first anchors before clients connect
        save_acknowledged(self._spool)

    def _start_upload(self) -> None:
        if not self._settings.upload:
            return
        self._upload_thread = UploadThread(
            home=self.home,
            environ=self._environ,
            node=self.node.uuid,
            boot=self.boot,
            interval_us=self._grid_us,
            now=self._now,
            health=self._health,
            device_facts=self._device_facts,
        )
        self._upload_thread.start()

    def _recover_spool(self, error: sqlite3.DatabaseError) -> None:
        """Continue with a new spool after damage to this one. Any other error is raised."""
        if not is_corrupt(error):
            raise error
        if self._upload_thread is not None:
            self._upload_thread.stop()
        self.monitor.sources.close()
        self._spool.close()
        self._open(is_damaged=True)
        self._start_upload()

    def _wait(self) -> None:
        """Answer the socket until the next full second of the wall clock, so that polls meet the
        grid.
        """
        self.server.serve((POLL_US - self._now().wall_us % POLL_US) / 1_000_000)

    def _handle(self, request: Mapping[str, Any], uid: int) -> Dict[str, Any]:
        try:
            return self._dispatch(request, uid)
        except SpoolFull as error:
            raise RequestError(
                "full", f"the collector's disk is full: {error}", f"free space in {self.home}"
            ) from error

    def _dispatch(self, request: Mapping[str, Any], uid: int) -> Dict[str, Any]:
        operation = request.get("op")
        if operation == "status":
            return self.status()
        if operation == "top":
            return top_response(
                self.monitor, self.runs, self._settings.users, uid, self._settings.interval_s
            )
        if operation == "register":
            facts = request.get("facts")
            self.runs.register(uid=uid, run=request.get("run"), pid=request.get("pid"))
            key = self.jobs.add_run(str(request.get("run")), int(request["pid"]))
            if isinstance(facts, Mapping):
                self.runs.forward(
                    uid=uid,
                    run=request.get("run"),
                    facts=self._server_facts(self.jobs.with_job(facts, key), uid),
                    closing=None,
                )
            self._had_runs = True
            self._wake_upload()
            login = self._upload_thread.login if self._upload_thread else None
            user = self._settings.users.public_name(user_name_of(uid))
            return {
                "ok": True,
                "node": self.node.uuid,
                "url": login.url if login else "",
                "lab": login.lab if login else "",
                "user": user,
                "pid": os.getpid(),
                "data": str(self.home.parent),
            }
        if operation == "so_far":
            return self.runs.current_figures(uid=uid, run=request.get("run"))
        if operation == "end":
            figures = self.runs.end(
                uid=uid,
                run=request.get("run"),
                children_cpu_us=request.get("children_cpu_us", 0),
                facts=self._server_facts(request.get("facts"), uid),
                closing=request.get("closing"),
                process_continues=request.get("goes_on") is True,
            )
            self._wake_upload()
            return figures
        if operation == "tell":
            message = {
                "run": request.get("run"),
                "closing": request.get("closing"),
                "artifacts": request.get("artifacts"),
            }
            artifact_count = self.runs.forward(
                uid=uid, facts=self._server_facts(request.get("facts"), uid), **message
            )
            self._wake_upload()
            return {"ok": True, "artifacts": artifact_count}
        if operation == "job":
            login = self._upload_thread.login if self._upload_thread else None
            return {
                **self.jobs.job_figures(uid=uid, job=request.get("job")),
                "url": login.url if login else "",
            }
        if operation == "heard":
            return self.runs.server_response(
                uid=uid,
                run=request.get("run"),
                reachable=bool(self._upload_thread and self._upload_thread.state.ok),
            )
        operations = "register, so_far, end, tell, heard, job, top or status"
        raise RequestError("bad_request", f"unknown op {str(operation)[:40]!r}", operations)

    def _server_facts(self, facts: object, uid: int) -> object:
        """Return run facts as they are sent to the server: of this node and this user, whatever the
        client claims.
        """
        if not isinstance(facts, Mapping):
            return None
        return {**self._settings.users.mask_run(facts, user_name_of(uid)), "node": self.node.uuid}

    def _health(self) -> Dict[str, Any]:
        """Return the ``health`` part of a batch, for the upload thread."""
        return {
            "source": self.monitor.sources.take_health(),
            "collector": __version__,
            "notes": list(self.notes),
            "devices": self._device_problems(),
        }

    def _device_problems(self) -> List[Dict[str, Any]]:
        return [asdict(problem) for problem in self.monitor.device_problems]

    def _device_facts(self) -> Dict[str, Dict[str, str]]:
        return {
            key: {"name": info.name, **info.facts}
            for key, info in self.monitor.sources.devices.items()
        }

    def _config(self) -> Optional[Mapping[str, Any]]:
        return self._upload_thread.config if self._upload_thread else None

    def _wake_upload(self) -> None:
        if self._upload_thread is not None:
            self._upload_thread.wake()

    def _add_note(self, text: str) -> None:
        self.notes.append(text)
        self._log(f"labcarbon-collect: {text}")

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True
