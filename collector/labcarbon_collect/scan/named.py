"""Paths as they may be told and shown. Pure."""

from __future__ import annotations

from typing import Union

from labcarbon_collect.scan.description import one_line

_LONGEST_SHOWN = 300
_LONGEST_PATH = 4096  # characters, of the server


def unregistrable(path: bytes) -> str:
    """Why a path cannot be told; empty where it can."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return "its path is not UTF-8, which the server takes: rename it"
    return f"its path is longer than {_LONGEST_PATH} characters" if len(text) > _LONGEST_PATH else ""


def shown(path: Union[bytes, str]) -> str:
    """A path as a terminal may show it: one line, nothing that moves the cursor."""
    text = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path
    if text.isprintable() and len(text) <= _LONGEST_SHOWN:
        return text
    return one_line("".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text), _LONGEST_SHOWN)
