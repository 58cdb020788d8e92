"""The lowest uid of a person on this machine, by /etc/login.defs."""

from __future__ import annotations

from pathlib import Path

_DEFAULT_UID_MIN = 1000


def first_person_uid(path: Path = Path("/etc/login.defs")) -> int:
    """Return UID_MIN of the file, 1000 without a usable value. Accounts below are of the system."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _DEFAULT_UID_MIN
    values = [
        words[1] for words in map(str.split, lines) if len(words) > 1 and words[0] == "UID_MIN"
    ]
    text = values[-1] if values else ""
    return int(text) if text.isascii() and text.isdigit() and int(text) else _DEFAULT_UID_MIN
