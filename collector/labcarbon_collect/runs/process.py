"""Start a command, held back until it is registered, and pass signals and its end through untouched."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Callable, List, Sequence

# Sent to us alone, meant for the work. SIGINT and SIGQUIT see _pass_on.
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 125


@dataclass(frozen=True)
class ExitStatus:
    """How the work ended. ``cpu_us``: CPU time of it and of all descendants that were waited for, by wait4."""

    exit_code: int  # as a shell tells it: 128 + n when killed by signal n
    killed_by: int  # the signal, 0: none
    cpu_us: int


class GatedProcess:
    """A forked child that waits for :meth:`release` before it becomes the command. Fork before starting threads.
    ``on_signal``: called for each signal that is meant for it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.on_signal: Callable[[], None] = lambda: None
        gate, self._gate = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _exec_after_release(list(command), gate)
        os.close(gate)
        for number in _FORWARDED:
            # What the caller ignores (nohup) stays ignored, for the work as well.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._forward_signal)

    def release(self) -> None:
        """Let the command begin."""
        with suppress(BrokenPipeError):  # a signal ended it already; wait tells
            os.write(self._gate, b"1")
        os.close(self._gate)

    def abandon(self) -> None:
        """The command does not begin."""
        os.close(self._gate)
        os.waitpid(self.pid, 0)

    def wait(self) -> ExitStatus:
        """Wait for the end."""
        _, status, used = os.wait4(self.pid, 0)
        cpu_us = int((used.ru_utime + used.ru_stime) * 1_000_000)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return ExitStatus(128 + number, number, cpu_us)
        return ExitStatus(os.WEXITSTATUS(status), 0, cpu_us)

    def _forward_signal(self, number: int, frame: object) -> None:
        """Forward a signal, unless the terminal sent it to the whole foreground group: then the work has it already."""
        self.on_signal()
        if number in _FROM_TERMINAL and _in_foreground():
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def _exec_after_release(command: List[str], gate: int) -> None:
    """In the child: wait, then exec. Never returns."""
    try:
        for number in _FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        # Python ignores these two for itself; the work must not inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        if not os.read(gate, 1):
            os._exit(NOT_STARTED)  # our parent is gone before it began
        os.execvp(command[0], command)  # noqa: S606 - the user asked for exactly this command
    except OSError as error:
        code = exit_code(error, command[0], os.environ.get("PATH", os.defpath))
        message = "command not found" if code == NOT_FOUND else str(error)
        os.write(2, f"labcarbon-collect: {command[0]}: {message}\n".encode(errors="replace"))
        os._exit(code)
    except BaseException as error:  # noqa: BLE001 - nothing of the parent may run on in the child
        os.write(2, f"labcarbon-collect: {command[0]}: {error}\n".encode(errors="replace"))
        os._exit(NOT_EXECUTABLE)


def exit_code(error: OSError, name: str, path: str) -> int:
    """The exit code of a command that could not be started, as a shell tells it.

    A folder of PATH that we may not search makes exec answer "permission denied" for a name that is nowhere.
    """
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    is_file = os.sep in name or any(os.path.isfile(os.path.join(folder, name)) for folder in path.split(os.pathsep))
    return NOT_EXECUTABLE if is_file else NOT_FOUND


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
