"""Text in CSV cells that no spreadsheet runs as a formula, and back. Pure.

A spreadsheet can split a cell at a semicolon, tab or line break, by its locale. So each part that
starts like a formula gets an apostrophe, also behind apostrophes: removing one restores the text.
"""

import re

# ASCII and full-width operators
_OPERATORS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_SPACES = r"[^\S\t\r\n]*"
_FIRST = rf"'*[\s{_OPERATORS}]"
_LATER = rf"'*{_SPACES}[{_OPERATORS}]"
_UNGUARDED = re.compile(rf"\A(?={_FIRST})|(?<=[;\t\r\n])(?={_LATER})")
_GUARD = re.compile(rf"\A'(?={_FIRST})|(?<=[;\t\r\n])'(?={_LATER})")


def guard(text: str) -> str:
    """Return ``text`` with an apostrophe before each part that could be a formula, or starts with a
    space.
    """
    return _UNGUARDED.sub("'", text)


def is_guarded(text: str) -> bool:
    """Return whether ``text`` starts with an apostrophe of :func:`guard`."""
    return _GUARD.match(text) is not None


def unguard(text: str) -> str:
    """Return the text that :func:`guard` got."""
    return _GUARD.sub("", text)
