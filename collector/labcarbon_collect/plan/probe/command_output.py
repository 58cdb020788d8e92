"""Output of a probed command: read through a terminal, so that programs do not collect it in
blocks, and passed on.
"""

from __future__ import annotations

import os
import pty
import struct
import termios
from fcntl import ioctl
from typing import List, Tuple

MAX_LINES = 200_000
_ROWS, _COLUMNS = 24, 120
_OUTPUT_FLAGS = 1
_LONGEST = 4096


class CommandOutput:
    """A terminal of its own for a command. ``lines``: (µs, text) of each line, also of those that
    replace themselves.
    """

    def __init__(self, passed_to: int) -> None:
        self.lines: List[Tuple[int, str]] = []
        self.is_open = True  # the command has not closed it
        self._passed_to, self._rest = passed_to, b""
        self.descriptor, self._terminal = pty.openpty()
        attributes = termios.tcgetattr(self._terminal)
        attributes[_OUTPUT_FLAGS] &= ~termios.OPOST  # a newline stays a newline
        termios.tcsetattr(self._terminal, termios.TCSANOW, attributes)
        ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        os.set_blocking(self.descriptor, False)

    def attach(self) -> None:
        """In the child: write to this terminal, read nothing."""
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.dup2(self._terminal, 1)
        os.dup2(self._terminal, 2)

    def release_terminal(self) -> None:
        """In the parent, after the fork: only the command writes."""
        os.close(self._terminal)

    def read(self, at_us: int) -> bool:
        """Read what is there and pass it on. Returns whether there may be more."""
        try:
            part = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self.is_open = False
            return False
        self._pass_on(part)
        *complete, self._rest = (self._rest + part).replace(b"\r", b"\n").split(b"\n")
        for line in complete:
            if line.strip() and len(self.lines) < MAX_LINES:
                self.lines.append((at_us, line[:_LONGEST].decode("utf-8", "replace")))
        if len(self._rest) > _LONGEST:
            self._rest = self._rest[-_LONGEST:]
        return True

    def close(self) -> None:
        """Close the terminal."""
        os.close(self.descriptor)

    def _pass_on(self, part: bytes) -> None:
        while part:
            try:
                part = part[os.write(self._passed_to, part) :]
            except OSError:
                return
