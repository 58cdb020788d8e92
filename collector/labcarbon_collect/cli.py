"""The command line: parse, call one command, answer with its exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import List, Optional, Sequence, Tuple

from labcarbon_collect import __version__

# name → what it is for. One module per command in commands/.
COMMANDS: Tuple[Tuple[str, str], ...] = (
    ("run", "start a command and account for its energy: labcarbon-collect run --project demo -- python train.py"),
    ("check", "ask whether a command's work was done before: labcarbon-collect check -- python train.py"),
    ("login", "log in as a person, with the one-time code that the server's page shows"),
    ("enrol", "enrol this machine, with the one-time code that the Nodes page shows"),
    ("daemon", "measure this machine, keep what was measured, push it"),
    ("status", "show the daemon's meters, spool and last push"),
    ("top", "show what each device does now, and which of it is yours"),
    ("doctor", "say what can be measured here, what not, and what mends it"),
    ("epilog", "tell in one line what a Slurm job took: for the site's epilog"),
    ("scan", "find checkpoints, models and datasets in folders, hash them and tell the server"),
    ("apply-plan", "carry out an approved plan of what may go: to the trash, back again, or away for good"),
    ("import-sacct", "bring the history of a Slurm cluster to the server"),
    ("push", "send what is in the spool now, without a daemon"),
)
_EPILOG = """\
settings (environment)
  LABCARBON_URL      address of the server
  LABCARBON_TOKEN    a person's token, instead of a login
  LABCARBON_DATA     data folder (root: /var/lib/labcarbon, else ~/.local/state/labcarbon)
  LABCARBON_SOCKET   socket of the daemon
  LABCARBON_NODE_ID  UUID of this node, instead of the one kept in the data folder
  LABCARBON_SOURCES  meters to read, comma separated (nvml, rapl, cpu_model, replay)
  LABCARBON_USERS    how people are named to the server: keep, hash (needs a key) or drop
  LABCARBON_INTERVAL_S  seconds per window of the daemon, 10 to 300 (60)

In a notebook: %load_ext labcarbon_collect
On a new machine: labcarbon-collect doctor
"""


def build_parser(selected: str = "") -> argparse.ArgumentParser:
    """The command line: every command with its purpose, the arguments of the one that was chosen.

    The others are not even imported: a wrapped command waits for nothing that it does not need.
    """
    parser = argparse.ArgumentParser(
        prog="labcarbon-collect",
        description="Measures the energy of this machine, says who used it, and pushes it to LabCarbon.",
        epilog=_EPILOG.replace("%", "%%"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labcarbon-collect {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS:
        if name != selected:
            commands.add_parser(name, help=purpose)
            continue
        module = importlib.import_module(f"labcarbon_collect.commands.{name.replace('-', '_')}")
        command = commands.add_parser(
            name, help=purpose, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(command)
        command.set_defaults(handler=module.run)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns its exit code. Anticipated errors are one line on stderr, exit code
    1.
    """
    words: List[str] = list(sys.argv[1:] if arguments is None else arguments)
    parsed = build_parser(*words[:1]).parse_args(words)
    from labcarbon_collect.errors import CommandError

    try:
        return int(parsed.handler(parsed))
    except CommandError as failed:
        print(f"labcarbon-collect: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
