"""A notebook as a run: ``%load_ext labcarbon_collect``, ``%labcarbon project=vision``, ``%labcarbon``.

The kernel's process and all that it starts is the run. Nothing here raises into the notebook or makes it wait for more than
two seconds, cells are not looked at, and IPython is not imported: the shell is what ``%load_ext`` hands over.
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

from labcarbon_collect.api.run_client import Reporter
from labcarbon_collect.config import Login, client_sockets, is_uuid, user_login
from labcarbon_collect.identity import Refused
from labcarbon_collect.ipc.client import Client, NoDaemon, error_text
from labcarbon_collect.pseudonyms import own_name, own_names
from labcarbon_collect.runs import current, facts
from labcarbon_collect.timeouts import A_WHILE_S, PATIENCE_S, WRONG
from labcarbon_collect.totals import closing_line

_PREFIX = "labcarbon: "


@dataclass(frozen=True)
class Settings:
    """Whose run it is. ``program``: what is told as its command."""

    name: str
    program: str
    project: Optional[str] = None


class NotebookRun:
    """One kernel's run. Every method returns a line to show; none raises for an absent daemon or server."""

    def __init__(self, settings: Settings) -> None:
        self.registered = False
        self._settings = settings
        self._run = str(uuid.uuid4())
        self._started_us = time.time_ns() // 1000
        self._node: Optional[str] = None
        self._user: Optional[str] = None
        self._server = ""
        self._login: Optional[Login] = None
        self._reporter: Optional[Reporter] = None
        self._heard = ""

    def change(self, settings: Mapping[str, str]) -> None:
        """Take over new settings."""
        project = settings.get("project", self._settings.project)
        self._settings = replace(self._settings, project=project or None, name=settings.get("name") or self._settings.name)

    def begin(self) -> str:
        """Register this process."""
        why = ""
        try:
            self._login = user_login(os.environ)
        except Refused as refused:
            why = f" ({refused})"
        request: Dict[str, Any] = {"op": "register", "run": self._run, "pid": os.getpid()}
        if self._login is None:
            request["facts"] = self._facts()
        answer = self._ask(request)
        if "why" in answer:
            return f"this notebook is not measured: {answer['why']}"
        self.registered = True
        current.begin(self._run, current.NOTEBOOK)
        node, user = answer.get("node"), answer.get("user")
        self._node, self._user = node if is_uuid(node) else None, user if isinstance(user, str) else None
        self._server = self._login.url if self._login else str(answer.get("url") or "")
        self._report()
        return self._with_warning(f"this notebook is measured as the run {self._settings.name}{self._link()}{why}")

    def tell(self, settings: Mapping[str, str]) -> str:
        """Tell the server new settings."""
        self.change(settings)
        if self._login is None:
            answer = self._ask({"op": "tell", "run": self._run, "facts": self._facts(), "closing": None})
            if "why" in answer:
                return f"not told: {answer['why']}"
        self._report()
        project = f"project {self._settings.project}" if self._settings.project else "no project"
        return self._with_warning(f"{self._settings.name}, {project}")

    def so_far(self) -> str:
        """kWh and kg up to the last poll."""
        answer = self._ask({"op": "so_far", "run": self._run})
        if "why" in answer:
            return f"what this notebook took is not known now: {answer['why']}"
        return closing_line(answer, link=self._link().strip(), server=self._server).removeprefix(_PREFIX)

    def end(self, *, goes_on: bool) -> str:
        """End the run; ``goes_on``: this process stays and is no longer it. "" where there was none."""
        if not self.registered:
            return ""
        self.registered = False
        current.end(self._run)
        request: Dict[str, Any] = {"op": "end", "run": self._run, "children_cpu_us": 0, "goes_on": goes_on}
        if self._reporter is None:
            request["closing"] = self._closing(None)
        answer = self._ask(request)
        if "why" in answer:
            return f"what this notebook took is not known: {answer['why']}"
        closing = self._closing(int(answer["energy_mj"]))
        if self._reporter is not None and not self._finished(self._reporter, closing):
            self._ask({"op": "tell", "run": self._run, "facts": self._facts(), "closing": closing})
        return closing_line(answer, link=self._link().strip(), server=self._server).removeprefix(_PREFIX)

    def _finished(self, reporter: Reporter, closing: Mapping[str, Any]) -> bool:
        """Whether the server took the end from us; what it did not take, the daemon tells it later."""
        try:
            return reporter.finish(self._facts(), closing)
        except RuntimeError:  # since Python 3.12 an interpreter that ends starts no thread
            return False

    def _facts(self) -> Dict[str, Any]:
        user = own_names(os.environ).told(own_name()) if self._user is None else self._user
        return facts.facts(
            command=[self._settings.program], project=self._settings.project, name=self._settings.name, params={},
            node=self._node, started_us=self._started_us, user=user,
        )  # fmt: skip

    def _closing(self, energy_mj: Optional[int]) -> Dict[str, Any]:
        return facts.closing(exit_code=0, killed=False, ended_us=time.time_ns() // 1000, energy_mj=energy_mj)

    def _report(self) -> None:
        """Tell the server with the person's own token, in the background."""
        if self._login is not None:
            self._reporter = Reporter(self._login, self._run, say=self._hear, patience_s=PATIENCE_S)
            self._reporter.start(self._facts())

    def _hear(self, warning: str) -> None:
        self._heard = warning

    def _with_warning(self, text: str) -> str:
        """``text``, and what the server said of the run if it says it soon: a project that it does not know."""
        warning = self._warning()
        return f"{text}. {warning}" if warning else text

    def _warning(self) -> str:
        if self._reporter is not None:
            self._reporter.wait(A_WHILE_S)
            warning, self._heard = self._heard, ""
            return warning
        deadline_s = time.monotonic() + A_WHILE_S
        while self._settings.project and self._server and time.monotonic() < deadline_s:
            answer = self._ask({"op": "heard", "run": self._run})
            if not answer.get("wait"):
                return str(answer.get("warning") or "")
            time.sleep(0.05)
        return ""

    def _link(self) -> str:
        return f" {self._server}/runs/{self._run}/" if self._server else ""

    def _ask(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        """The daemon's answer, or ``{"why": …}``. A connection each: a kernel asks seldom, and daemons are restarted."""
        try:
            client = Client(client_sockets(os.environ), timeout_s=A_WHILE_S)
            try:
                answer = client.call(request, timeout_s=A_WHILE_S)
            finally:
                client.close()
        except NoDaemon as error:
            return {"why": str(error)}
        wrong = error_text(answer)
        return {"why": wrong} if wrong else answer


MAGIC = "labcarbon"
_USAGE = "write %labcarbon, or %labcarbon project=NAME name=NAME"
_active: Optional[_Notebook] = None


class _Notebook:
    """The run of this kernel and how it says something."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.run = NotebookRun(Settings(name=_file_name(), program=_program()))
        self.pid = os.getpid()

    def begin(self) -> None:
        self.say(self.run.begin())

    def magic(self, line: str) -> None:
        """``%labcarbon``: what it took so far; with settings: whose run it is."""
        try:
            settings = _parsed(line)
        except ValueError as error:
            self.say(f"{error}; {_USAGE}")
            return
        if not self.run.registered:
            self.run.change(settings)
            self.begin()
        elif settings:
            self.say(self.run.tell(settings))
        else:
            self.say(self.run.so_far())

    def end(self, *, goes_on: bool) -> None:
        if os.getpid() != self.pid:
            return  # a fork of the kernel ends, not the kernel
        said = self.run.end(goes_on=goes_on)
        if said:
            self.say(said)


def load(shell: Any) -> None:
    """Register the kernel and the magic."""
    global _active
    try:
        if _active is not None:
            return
        _active = _Notebook(_say)
        atexit.register(_at_exit)
        shell.register_magic_function(_magic, "line", MAGIC)
        if WRONG:
            _say(WRONG)
        _active.begin()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with us, the notebook goes on
        _say(f"this notebook is not measured: {type(error).__name__}: {error}")


def unload(shell: Any) -> None:
    """End the run; the kernel goes on without it."""
    global _active
    notebook, _active = _active, None
    try:
        atexit.unregister(_at_exit)
        shell.magics_manager.magics["line"].pop(MAGIC, None)
        if notebook is not None:
            notebook.end(goes_on=True)
    except Exception as error:  # noqa: BLE001 - see load
        _say(f"this run could not be closed: {type(error).__name__}: {error}")


def _magic(line: str) -> None:
    """Show what this notebook took so far; ``%labcarbon project=NAME name=NAME`` says whose run it is."""
    try:
        if _active is not None:
            _active.magic(line)
    except Exception as error:  # noqa: BLE001 - see load
        _say(f"{type(error).__name__}: {error}")


def _at_exit() -> None:
    global _active
    notebook, _active = _active, None
    try:
        if notebook is not None:
            notebook.end(goes_on=False)
    except Exception as error:  # noqa: BLE001 - the kernel ends as it ends
        _say(f"this run could not be closed: {type(error).__name__}: {error}")


def _parsed(line: str) -> dict[str, str]:
    """``project=… name=…``. Raises ValueError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"{line.strip()!r} cannot be read ({error})") from error
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in ("project", "name"):
            raise ValueError(f"{word!r} is not a setting")
        settings[key] = value
    return settings


def _file_name() -> str:
    """The notebook's file name, without its folder, where Jupyter tells it."""
    return os.path.basename(os.environ.get("JPY_SESSION_NAME", "")) or "notebook"


def _program() -> str:
    return "ipykernel" if "ipykernel" in sys.modules else "ipython"


def _say(text: str) -> None:
    print(f"labcarbon: {text}", flush=True)
