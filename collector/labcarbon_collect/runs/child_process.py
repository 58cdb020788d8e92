"""Child process of a run: starts after registration, receives all signals, and passes on its exit
code.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence

# Sent to this process only, but meant for the command. SIGINT and SIGQUIT: see _forward_signal.
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGQUIT,
)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 125


@dataclass(frozen=True)
class ExitStatus:
    """How the command ended. ``cpu_us``: CPU time of the command and all descendants that were
    waited for, from wait4.
    """

    exit_code: int  # as in a shell: 128 + n if killed by signal n
    killed_by: int  # the signal, 0: none
    cpu_us: int


class GatedProcess:
    """A forked child that waits for :meth:`release` before it executes the command. Create it
    before starting threads.

    ``on_signal`` is called for each forwarded signal. ``prepare`` is called in the child before it
    waits.
    """

    def __init__(
        self, command: Sequence[str], *, prepare: Optional[Callable[[], None]] = None
    ) -> None:
        self.on_signal: Callable[[], None] = lambda: None
        gate, self._gate = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _exec_after_release(list(command), gate, prepare)
        os.close(gate)
        for number in _FORWARDED:
            # Signals ignored by the caller (nohup) stay ignored in the command as well.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._forward_signal)

    def release(self) -> None:
        """Let the command start."""
        with suppress(BrokenPipeError):  # a signal has already ended the child, which wait reports
            os.write(self._gate, b"1")
        os.close(self._gate)

    def abandon(self) -> None:
        """End the child without starting the command."""
        os.close(self._gate)
        os.waitpid(self.pid, 0)

    def wait(self) -> ExitStatus:
        """Wait for the end."""
        exit_status = self._wait(0)
        assert exit_status is not None
        return exit_status

    def poll(self) -> Optional[ExitStatus]:
        """Return how the command ended, None while it runs. Call it again only after None."""
        return self._wait(os.WNOHANG)

    def _wait(self, options: int) -> Optional[ExitStatus]:
        pid, status, used = os.wait4(self.pid, options)
        if not pid:
            return None
        cpu_us = int((used.ru_utime + used.ru_stime) * 1_000_000)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return ExitStatus(128 + number, number, cpu_us)
        return ExitStatus(os.WEXITSTATUS(status), 0, cpu_us)

    def _forward_signal(self, number: int, frame: object) -> None:
        """Forward a signal, unless the terminal has sent it to the whole foreground group and thus
        to the command.
        """
        self.on_signal()
        if number in _FROM_TERMINAL and _in_foreground():
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def _exec_after_release(
    command: List[str], gate: int, prepare: Optional[Callable[[], None]]
) -> None:
    """In the child: wait, then exec. Never returns."""
    try:
        if prepare is not None:
            prepare()
        for number in _FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        # Python ignores these two for itself. The command must not inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        if not os.read(gate, 1):
            os._exit(NOT_STARTED)  # the parent has ended before the start
        os.execvp(command[0], command)  # noqa: S606 - the user requested exactly this command
    except OSError as error:
        code = exit_code(error, command[0], os.environ.get("PATH", os.defpath))
        message = "command not found" if code == NOT_FOUND else str(error)
        os.write(2, f"labcarbon-collect: {command[0]}: {message}\n".encode(errors="replace"))
        os._exit(code)
    except BaseException as error:  # noqa: BLE001 - no code of the parent may continue in the child
        os.write(2, f"labcarbon-collect: {command[0]}: {error}\n".encode(errors="replace"))
        os._exit(NOT_EXECUTABLE)


def exit_code(error: OSError, name: str, path: str) -> int:
    """Return a shell's exit code for a command that could not be started.

    If a folder of PATH is not searchable, exec reports "permission denied" even for a name that
    does not exist.
    """
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    is_file = os.sep in name or any(
        os.path.isfile(os.path.join(folder, name)) for folder in path.split(os.pathsep)
    )
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
