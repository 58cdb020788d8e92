"""Write a snapshot, or compare two: ``python -m scripts.snapshot write FOLDER``, ``python -m
scripts.snapshot compare A B``.

Pages, CSV exports, API responses, OpenAPI schema, database and collector output of a seeded lab are
written as sorted JSON. Two snapshots of the same code are identical. After a change that must not
alter a value, write a second snapshot with ``--like FIRST``, which requests the addresses of the
first one, and compare both.

Of snapshots on SQLite and on PostgreSQL primary keys and texts differ, not sums, ledger and what
the collector makes: ``compare A B --only sums.json --only rows/energy_ledgerentry.json --only
collector.json``.
"""

import argparse
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.snapshot.compare import OPTIONAL, compare  # noqa: E402

HASH_SEED = "0"  # the order of sets decides in which order rows are inserted


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.snapshot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    write = commands.add_parser("write", help="build the lab and write its facts to a folder")
    write.add_argument("folder", type=Path, help="folder of the snapshot (new or empty)")
    write.add_argument(
        "--like", type=Path, metavar="FOLDER", help="request the addresses of this snapshot"
    )
    database = write.add_mutually_exclusive_group()
    database.add_argument(
        "--postgres", action="store_true", help="use a private PostgreSQL instead of SQLite"
    )
    database.add_argument(
        "--database-url", metavar="URL", help="use this empty PostgreSQL database"
    )
    both = commands.add_parser(
        "compare", help="list all differences of two snapshots; exit 1 if there is one"
    )
    both.add_argument("before", type=Path, help="folder of the first snapshot")
    both.add_argument("after", type=Path, help="folder of the second snapshot")
    both.add_argument(
        "--allow",
        type=Path,
        metavar="FILE",
        help="allowed differences: 'file: key  # reason', * for any text",
    )
    both.add_argument(
        "--only",
        action="append",
        metavar="FILE",
        help="compare only files that match (rows/*); repeatable",
    )
    both.add_argument(
        "--limit",
        type=int,
        default=200,
        metavar="N",
        help="list at most N differences (%(default)s)",
    )
    for name, (_, text) in OPTIONAL.items():
        both.add_argument(f"--{name}", action="store_true", help=f"compare {text} as well")
    return parser.parse_args()


def write(options: argparse.Namespace) -> int:
    """Write a snapshot on the chosen database."""
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "scripts.snapshot", *sys.argv[1:]])
    options.folder.mkdir(parents=True, exist_ok=True)
    if any(options.folder.iterdir()):
        sys.exit(f"{options.folder} is not empty")
    with ExitStack() as stack:
        url = options.database_url or ""
        if options.postgres:
            from tests.services.postgres import Postgres

            url = stack.enter_context(Postgres()).url
        data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-snapshot-"))
        from scripts.snapshot import writer

        writer.write(options.folder, data_dir=Path(data_dir), database_url=url, like=options.like)
    return 0


def main() -> int:
    """Run the chosen command."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # compare … | head
    options = arguments()
    if options.command == "write":
        for name in ("folder", "like"):
            if path := getattr(options, name):
                setattr(options, name, path.resolve())
        sys.argv = [
            part if not Path(part).exists() else str(Path(part).resolve()) for part in sys.argv
        ]
        return write(options)
    return compare(
        options.before,
        options.after,
        allow=options.allow,
        only=options.only or ["*"],
        limit=options.limit,
        optional=[name for name in OPTIONAL if getattr(options, name)],
    )


if __name__ == "__main__":
    sys.exit(main())
