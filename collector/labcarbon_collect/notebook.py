"""A notebook as a run: ``%load_ext labcarbon_collect``, ``%labcarbon project=vision``, ``%labcarbon``.

The kernel's process and all that it starts is the run. Nothing here raises into the notebook or makes it wait for more than
two seconds, cells are not looked at, and IPython is not imported: the shell is what ``%load_ext`` hands over.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from typing import Any, Callable, Optional

from labcarbon_collect.notebook_run import NotebookRun, Settings
from labcarbon_collect.timeouts import WRONG

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
