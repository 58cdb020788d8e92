"""Deprecated names of management commands (docs/compatibility.md)."""

import sys
from collections.abc import Sequence

_CURRENT_NAMES = {
    ("work",): ["worker"],
    ("audit", "verify"): ["verify_audit"],
    ("confirm_mail",): ["verify_email"],
    ("remove_second_factor",): ["reset_mfa"],
    ("derive_books",): ["recompute_balances"],
}


def replace_alias(argv: Sequence[str]) -> list[str]:
    """Return ``argv`` with a deprecated command name replaced. Prints a deprecation line to
    stderr.
    """
    program, *arguments = argv
    for former, current in _CURRENT_NAMES.items():
        if tuple(arguments[: len(former)]) == former:
            print(
                f"manage.py {' '.join(former)} is deprecated: use {' '.join(current)}.",
                file=sys.stderr,
            )
            return [program, *current, *arguments[len(former) :]]
    if arguments[:1] == ["audit"]:
        print("manage.py audit verify is now verify_audit.", file=sys.stderr)
    return list(argv)
