"""Removes token secrets from logs. Some clients of trackers send their token in the URL."""

import logging
import re
from logging import LogRecord
from typing import Any

# The secret and check digits of a token. The key id in front stays readable.
_SECRET = re.compile(r"(lc_[a-z]+_[0-9A-Za-z]{8}_)[0-9A-Za-z]{8,}")


def redact(text: str) -> str:
    """Return ``text`` with all token secrets replaced."""
    return _SECRET.sub(r"\1…", text)


class RedactingFormatter(logging.Formatter):
    """Formats like another formatter (or by its own format), with token secrets replaced, also in
    tracebacks.
    """

    def __init__(self, *args: Any, inner: logging.Formatter | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inner = inner

    def format(self, record: LogRecord) -> str:
        """Return the line of a record."""
        return redact(self._inner.format(record) if self._inner else super().format(record))
