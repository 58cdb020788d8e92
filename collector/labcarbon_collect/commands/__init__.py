"""The commands, one module each. ``add_arguments`` declares the options, ``run`` executes and
returns the exit code.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any


class _AliasAction(argparse.Action):
    """Print a deprecation line, then apply the current option."""

    def __init__(self, *args: Any, current: argparse.Action, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._current = current

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        warn_deprecated(str(option_string), self._current.option_strings[0])
        self._current(parser, namespace, values, option_string)


def add_alias(parser: Any, former: str, option: argparse.Action) -> None:
    """Accept ``former`` as a hidden name of ``option``. Its use prints one deprecation line."""
    parser.add_argument(
        former,
        action=_AliasAction,
        current=option,
        dest=option.dest,
        nargs=option.nargs,
        type=option.type,
        choices=option.choices,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def warn_deprecated(former: str, current: str) -> None:
    """Print the deprecation line of a former command, option or variable."""
    print(f"labcarbon-collect: {former} is deprecated: use {current}", file=sys.stderr)


def thread_count(text: str) -> int:
    """Parse a number of threads. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads from 1 to 256")
    return int(text)
