"""Tokens never stand in a log of ours: CodeCarbon's older clients carry theirs in the address."""

import logging
import re
from logging import LogRecord
from typing import Any

# A token's secret and check digits; who reads a log may still tell which token it was.
_SECRET = re.compile(r"(lc_[a-z]+_[0-9A-Za-z]{8}_)[0-9A-Za-z]{8,}")


def redacted(text: str) -> str:
    """Return ``text`` with the secret of every token in it replaced."""
    return _SECRET.sub(r"\1…", text)


class Redacting(logging.Formatter):
    """Formats as another formatter does (or as told), tracebacks included, without secrets of tokens."""

    def __init__(self, *args: Any, inner: logging.Formatter | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inner = inner

    def format(self, record: LogRecord) -> str:
        """Return the line of a record."""
        return redacted(self._inner.format(record) if self._inner else super().format(record))
