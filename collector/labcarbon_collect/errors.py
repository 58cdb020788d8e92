"""Errors that a command or the daemon reports to the user."""

from __future__ import annotations


class CommandError(Exception):
    """A command failed. The text states the cause and the fix."""


class RequestError(Exception):
    """The daemon refuses a request. ``code`` is for programs, ``hint`` states the fix."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint
