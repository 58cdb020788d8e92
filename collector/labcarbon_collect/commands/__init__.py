"""The commands, a module each: ``arguments`` declares its options, ``carry_out`` does it and
returns the exit code.
"""

from __future__ import annotations

import argparse


def thread_count(text: str) -> int:
    """How many threads somebody asks for. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads, 1 to 256")
    return int(text)
