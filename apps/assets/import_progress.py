"""Progress of running imports and undos, in files that web server and worker share.

The database cannot have it: an import is one transaction, which others see at its end only.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings

Report = Callable[[int, int, int], None]  # step, rows done, all rows


def ignore(step: int, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Progress:
    """How far an import is, in per mille of all its steps."""

    uuid: UUID
    steps: int

    def report(self, step: int, done: int, total: int) -> None:
        """Write that ``done`` of ``total`` rows of a step (from 0) are done."""
        permille = (1000 * step + 1000 * done // max(total, 1)) // self.steps
        path = _path(self.uuid)
        partial = path.with_suffix(".partial")
        with suppress(OSError):  # a full disk stops no import
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(str(permille), encoding="ascii")
            partial.replace(path)

    def end(self) -> None:
        with suppress(OSError):
            _path(self.uuid).unlink(missing_ok=True)


def permille_of(uuid: UUID) -> int | None:
    """Return the progress of an import, None if it is unknown."""
    try:
        return min(1000, max(0, int(_path(uuid).read_text(encoding="ascii"))))
    except (OSError, ValueError):
        return None


def _path(uuid: UUID) -> Path:
    return Path(settings.DATA_DIR) / "progress" / str(uuid)
