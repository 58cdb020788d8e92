"""Errors that a command or the daemon reports to the user."""

from __future__ import annotations


class CommandError(Exception):
    """A command could not do its work; the text says what was wrong and what mends it."""


class RequestError(Exception):
    """A request that the daemon does not carry out; ``code`` is for programs, ``hint`` mends it."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint
