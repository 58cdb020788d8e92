"""The commands, a module each: ``arguments`` declares its options, ``carry_out`` does it and returns the exit code."""

from __future__ import annotations


class Failed(Exception):
    """A command could not do its work; the text says what was wrong and what mends it."""
