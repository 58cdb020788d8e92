"""The command line: parse the arguments, run one command, return its exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect import __version__

# Name → purpose. One module per command in commands/.
COMMANDS: Tuple[Tuple[str, str], ...] = (
    (
        "run",
        (
            "run a command and measure its energy: labcarbon-collect run --project demo -- python "
            "train.py"
        ),
    ),
    ("check", "check whether a command repeats a run: labcarbon-collect check -- python train.py"),
    ("plan", "estimate memory and operations of a training before it starts"),
    ("login", "log in as a person with a one-time code from the server"),
    ("enrol", "enrol this machine with a one-time code or a fleet token from the Nodes page"),
    ("daemon", "measure this machine, store the energy windows, upload them"),
    ("status", "show the daemon's meters, spool and last upload"),
    ("top", "show the current power of each device and your share of it"),
    ("doctor", "check what can be measured, with a fix for each problem"),
    ("epilog", "print the energy of a Slurm job in one line, for the site's epilog"),
    ("scan", "find and hash checkpoints, models and datasets, and register them"),
    ("apply-plan", "execute an approved cleanup plan: move to the trash, restore, or delete"),
    ("import-sacct", "import the history of a Slurm cluster"),
    ("import-wandb", "import offline run folders of W&B"),
    ("upload", "upload the spool one time, without a daemon"),
)
# Former name → current name (docs/compatibility.md).
ALIASES: Mapping[str, str] = {"push": "upload"}
_EPILOG = """\
settings (environment)
  LABCARBON_URL      URL of the server
  LABCARBON_TOKEN    a person's token, instead of a login
  LABCARBON_DATA     data folder (root: /var/lib/labcarbon, else ~/.local/state/labcarbon)
  LABCARBON_SOCKET   socket of the daemon
  LABCARBON_NODE_ID  UUID of this node, instead of the one stored in the data folder
  LABCARBON_SOURCES  meters to read, comma-separated (default: all; status lists them)
  LABCARBON_USERS    user names sent to the server: keep, hash (needs a key) or drop
  LABCARBON_INTERVAL_S  seconds per window of the daemon, 10 to 300 (60)
  LABCARBON_STARTUP_TIMEOUT_S  maximum delay before and after a command, in seconds, 0.5 to 60 (2)

In a notebook: %load_ext labcarbon_collect
On a new machine: labcarbon-collect doctor
"""


def build_parser(selected: str = "") -> argparse.ArgumentParser:
    """Return the parser: all commands with their purpose, and the arguments of the selected one.

    The other command modules are not imported, so that a wrapped command does not wait for them.
    """
    parser = argparse.ArgumentParser(
        prog="labcarbon-collect",
        description="Measure the energy of this machine per consumer and upload it to LabCarbon.",
        epilog=_EPILOG,
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
            name,
            help=purpose,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(handler=module.run)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command and return its exit code. Expected errors print one line to stderr and return
    1.
    """
    words: List[str] = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in ALIASES:
        from labcarbon_collect.commands import warn_deprecated

        former, words[0] = words[0], ALIASES[words[0]]
        warn_deprecated(former, words[0])
    parsed = build_parser(*words[:1]).parse_args(words)
    from labcarbon_collect.errors import CommandError

    try:
        return int(parsed.handler(parsed))
    except CommandError as failed:
        print(f"labcarbon-collect: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
