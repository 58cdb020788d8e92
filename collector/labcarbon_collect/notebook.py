"""A notebook as a run: ``%load_ext labcarbon_collect``, ``%labcarbon project=vision``,
``%labcarbon``.

The run covers the kernel's process and all processes that it starts. No function raises into the
notebook or delays it by more than two seconds. Cells are not read. IPython is not imported:
``%load_ext`` passes the shell.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.config import Login, client_sockets, is_uuid, read_login
from labcarbon_collect.figure_text import summary_line
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.pseudonyms import current_user_name, safe_user_names
from labcarbon_collect.runs import active_runs, facts
from labcarbon_collect.startup_timeout import PART_TIMEOUT_S, SETTING_WARNING, STARTUP_TIMEOUT_S

_PREFIX = "labcarbon: "


@dataclass(frozen=True)
class Settings:
    """Name and project of the run. ``program`` is sent as its command."""

    name: str
    program: str
    project: Optional[str] = None


class NotebookRun:
    """The run of one kernel. Methods return a line to print. None raises if daemon or server are
    unavailable.
    """

    def __init__(self, settings: Settings) -> None:
        self.is_registered = False
        self._options = settings
        self._run = str(uuid.uuid4())
        self._started_us = time.time_ns() // 1000
        self._node: Optional[str] = None
        self._user: Optional[str] = None
        self._server = ""
        self._login: Optional[Login] = None
        self._reporter: Optional[RunReporter] = None
        self._last_warning = ""

    def apply_settings(self, settings: Mapping[str, str]) -> None:
        """Apply new settings."""
        project = settings.get("project", self._options.project)
        self._options = replace(
            self._options, project=project or None, name=settings.get("name") or self._options.name
        )

    def start(self) -> str:
        """Register this process."""
        login_error = ""
        try:
            self._login = read_login(os.environ)
        except ConfigurationError as refused:
            login_error = f" ({refused})"
        request: Dict[str, Any] = {"op": "register", "run": self._run, "pid": os.getpid()}
        if self._login is None:
            request["facts"] = self._facts()
        response = self._call(request)
        if "why" in response:
            return f"This notebook is not measured: {response['why']}"
        self.is_registered = True
        active_runs.activate(self._run, active_runs.NOTEBOOK)
        node, user = response.get("node"), response.get("user")
        self._node, self._user = (
            node if is_uuid(node) else None,
            user if isinstance(user, str) else None,
        )
        self._server = self._login.url if self._login else str(response.get("url") or "")
        self._start_report()
        return self._with_warning(
            f"This notebook is measured as the run {self._options.name}{self._link()}{login_error}"
        )

    def update(self, settings: Mapping[str, str]) -> str:
        """Send new settings to the server."""
        self.apply_settings(settings)
        if self._login is None:
            response = self._call(
                {"op": "tell", "run": self._run, "facts": self._facts(), "closing": None}
            )
            if "why" in response:
                return f"Settings not sent: {response['why']}"
        self._start_report()
        project = f"project {self._options.project}" if self._options.project else "no project"
        return self._with_warning(f"{self._options.name}, {project}")

    def format_usage(self) -> str:
        """Return kWh and kg up to the last poll."""
        response = self._call({"op": "so_far", "run": self._run})
        if "why" in response:
            return f"The energy of this notebook is not available now: {response['why']}"
        return summary_line(response, link=self._link().strip(), server=self._server).removeprefix(
            _PREFIX
        )

    def end(self, *, process_continues: bool) -> str:
        """End the run and return its closing line, or "" without a run.

        ``process_continues``: the process outlives the run.
        """
        if not self.is_registered:
            return ""
        self.is_registered = False
        active_runs.deactivate(self._run)
        request: Dict[str, Any] = {
            "op": "end",
            "run": self._run,
            "children_cpu_us": 0,
            "goes_on": process_continues,
        }
        if self._reporter is None:
            request["closing"] = self._closing(None)
        response = self._call(request)
        if "why" in response:
            return f"The energy of this notebook is unknown: {response['why']}"
        closing = self._closing(int(response["energy_mj"]))
        if self._reporter is not None and not self._report_end(self._reporter, closing):
            self._call({"op": "tell", "run": self._run, "facts": self._facts(), "closing": closing})
        return summary_line(response, link=self._link().strip(), server=self._server).removeprefix(
            _PREFIX
        )

    def _report_end(self, reporter: RunReporter, closing: Mapping[str, Any]) -> bool:
        """Report the end and return whether the server accepted it. If not, the daemon forwards
        it.
        """
        try:
            return reporter.finish(self._facts(), closing)
        except RuntimeError:  # since Python 3.12 an interpreter that shuts down starts no thread
            return False

    def _facts(self) -> Dict[str, Any]:
        user = (
            safe_user_names(os.environ).public_name(current_user_name())
            if self._user is None
            else self._user
        )
        return facts.start_facts(
            command=[self._options.program],
            project=self._options.project,
            name=self._options.name,
            params={},
            node=self._node,
            started_us=self._started_us,
            user=user,
        )

    def _closing(self, energy_mj: Optional[int]) -> Dict[str, Any]:
        return facts.closing_facts(
            exit_code=0, killed=False, ended_us=time.time_ns() // 1000, energy_mj=energy_mj
        )

    def _start_report(self) -> None:
        """Report the run with the user's own token, in the background."""
        if self._login is not None:
            self._reporter = RunReporter(
                self._login, self._run, notify=self._store_warning, timeout_s=STARTUP_TIMEOUT_S
            )
            self._reporter.start(self._facts())

    def _store_warning(self, warning: str) -> None:
        self._last_warning = warning

    def _with_warning(self, text: str) -> str:
        """Return ``text`` with the server's warning about the run, such as an unknown project, if
        it arrives in time.
        """
        warning = self._warning()
        return f"{text}. {warning}" if warning else text

    def _warning(self) -> str:
        if self._reporter is not None:
            self._reporter.wait(PART_TIMEOUT_S)
            warning, self._last_warning = self._last_warning, ""
            return warning
        deadline_s = time.monotonic() + PART_TIMEOUT_S
        while self._options.project and self._server and time.monotonic() < deadline_s:
            response = self._call({"op": "heard", "run": self._run})
            if not response.get("wait"):
                return str(response.get("warning") or "")
            time.sleep(0.05)
        return ""

    def _link(self) -> str:
        return f" {self._server}/runs/{self._run}/" if self._server else ""

    def _call(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the daemon's response, or ``{"why": …}``. Each call opens a connection, because
        calls are rare and daemons are restarted.
        """
        try:
            client = Client(client_sockets(os.environ), timeout_s=PART_TIMEOUT_S)
            try:
                response = client.call(request, timeout_s=PART_TIMEOUT_S)
            finally:
                client.close()
        except DaemonUnavailable as error:
            return {"why": str(error)}
        error_message = response_error(response)
        return {"why": error_message} if error_message else response


MAGIC = "labcarbon"
_USAGE = "use %labcarbon, or %labcarbon project=NAME name=NAME"
_active: Optional[_Notebook] = None


class _Notebook:
    """The run of this kernel and its output function."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.notify = notify
        self.run = NotebookRun(Settings(name=_file_name(), program=_program()))
        self.pid = os.getpid()

    def start(self) -> None:
        self.notify(self.run.start())

    def run_magic(self, line: str) -> None:
        """Run ``%labcarbon``: print the usage so far, or apply settings."""
        try:
            settings = _parse_settings(line)
        except ValueError as error:
            self.notify(f"{error}; {_USAGE}")
            return
        if not self.run.is_registered:
            self.run.apply_settings(settings)
            self.start()
        elif settings:
            self.notify(self.run.update(settings))
        else:
            self.notify(self.run.format_usage())

    def end(self, *, process_continues: bool) -> None:
        if os.getpid() != self.pid:
            return  # a fork of the kernel ends, not the kernel
        message = self.run.end(process_continues=process_continues)
        if message:
            self.notify(message)


def load(shell: Any) -> None:
    """Register the kernel and the magic."""
    global _active
    try:
        if _active is not None:
            return
        _active = _Notebook(_notify)
        atexit.register(_end_at_exit)
        shell.register_magic_function(_magic, "line", MAGIC)
        if SETTING_WARNING:
            _notify(SETTING_WARNING)
        _active.start()
    except Exception as error:  # noqa: BLE001 - an error of the collector must not reach the notebook
        _notify(f"This notebook is not measured: {type(error).__name__}: {error}")


def unload(shell: Any) -> None:
    """End the run. The kernel continues without it."""
    global _active
    notebook, _active = _active, None
    try:
        atexit.unregister(_end_at_exit)
        shell.magics_manager.magics["line"].pop(MAGIC, None)
        if notebook is not None:
            notebook.end(process_continues=True)
    except Exception as error:  # noqa: BLE001 - see load
        _notify(f"This run could not be closed: {type(error).__name__}: {error}")


def _magic(line: str) -> None:
    """Print the energy of this notebook so far. ``%labcarbon project=NAME name=NAME`` sets project
    and name.
    """
    try:
        if _active is not None:
            _active.run_magic(line)
    except Exception as error:  # noqa: BLE001 - see load
        _notify(f"{type(error).__name__}: {error}")


def _end_at_exit() -> None:
    global _active
    notebook, _active = _active, None
    try:
        if notebook is not None:
            notebook.end(process_continues=False)
    except Exception as error:  # noqa: BLE001 - the kernel's own end counts
        _notify(f"This run could not be closed: {type(error).__name__}: {error}")


def _parse_settings(line: str) -> dict[str, str]:
    """Parse ``project=… name=…``. Raises ValueError."""
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"{line.strip()!r} cannot be parsed ({error})") from error
    settings = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in ("project", "name"):
            raise ValueError(f"{argument!r} is not a setting")
        settings[key] = value
    return settings


def _file_name() -> str:
    """Return the notebook's file name without its folder, as Jupyter passes it."""
    return os.path.basename(os.environ.get("JPY_SESSION_NAME", "")) or "notebook"


def _program() -> str:
    return "ipykernel" if "ipykernel" in sys.modules else "ipython"


def _notify(text: str) -> None:
    print(f"labcarbon: {text}", flush=True)
