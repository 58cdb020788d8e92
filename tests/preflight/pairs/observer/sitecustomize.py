"""Observes a run: Python imports this module first, as it is on PYTHONPATH.

Writes the path of each file that is opened for reading to the file in PAIR_OPENED_FILES. With
PAIR_FIXED_RANDOM each seed of ``random`` has the same effect.
"""

import os
import random
import sys

_RECORD = os.environ.get("PAIR_OPENED_FILES")


def _record_open(event: str, arguments: tuple[object, ...]) -> None:
    if event not in {"open", "sqlite3.connect"} or not isinstance(arguments[0], str | os.PathLike):
        return
    if event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wax":
        return  # written, not read
    path = os.path.abspath(arguments[0])  # noqa: PTH100 - an audit hook must not resolve links
    if path.endswith((".py", ".pyc", ".so")):
        return
    os.write(_descriptor, f"{path}\n".encode())


if _RECORD:
    _descriptor = os.open(_RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    sys.addaudithook(_record_open)

if os.environ.get("PAIR_FIXED_RANDOM"):

    class _FixedRandom(random.Random):
        def seed(self, a: object = None, version: int = 2) -> None:
            super().seed(0, version)

    _reseed = random.seed

    def _seed_fixed(a: object = None, version: int = 2) -> None:
        _reseed(0, version)

    _seed_fixed()
    random.Random = _FixedRandom  # type: ignore[misc]
    random.seed = _seed_fixed
