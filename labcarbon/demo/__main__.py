"""`make demo`: starts LabCarbon on a made-up lab, in a data directory of its own."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from labcarbon.demo.marks import DATABASE, GENERATED, create_database, is_demo_folder, mark_folder
from labcarbon.env import BASE_DIR, ConfigurationError
from labcarbon.launch import StartupError, run

FOLDER = BASE_DIR / "var-demo"
PORT = 8010
_PARTIAL = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "databases-created")


def claim_folder(folder: Path) -> None:
    """Mark a new or empty folder as that of a demo. Raises StartupError for any other folder."""
    if is_demo_folder(folder):
        return
    if folder == BASE_DIR / "var" or (folder.exists() and any(folder.iterdir())):
        raise StartupError(
            f"{folder} does not belong to a demo, so no made-up data is written into it. Choose a "
            "new folder with --data."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark_folder(folder)
    except OSError as error:
        raise StartupError(f"{folder} cannot be written ({error.strerror}).") from error


def set_environment(folder: Path, port: int) -> None:
    """Replace all settings of LabCarbon in the environment by those of a demo."""
    for name in [name for name in os.environ if name.startswith("LABCARBON_")]:
        del os.environ[name]
    os.environ.update(LABCARBON_DEMO="1", LABCARBON_DATA=str(folder), LABCARBON_PORT=str(port))


def begin_database(folder: Path) -> None:
    """Create the marked database. One that was not completed is created again."""
    if not (folder / GENERATED).exists():
        for name in _PARTIAL:
            (folder / name).unlink(missing_ok=True)
    create_database(folder)


def _fill(folder: Path, seed: int, multiplier: int) -> None:
    """Generate the lab, unless it is there."""
    from apps.core.clock import now_us, utc
    from labcarbon.demo.generator import generate

    done = folder / GENERATED
    if done.exists():
        facts = json.loads(done.read_text(encoding="utf-8"))
        print(f"Made-up data until {facts['until']}, from {done.parent}")
    else:
        print("Generating a made-up lab of a year. This happens once.", flush=True)
        now, started_s = now_us(), time.monotonic()

        def report(text: str) -> None:
            print(f"  {time.monotonic() - started_s:5.0f} s  {text}", flush=True)

        generate(now=now, seed=seed, multiplier=multiplier, report=report)
        until = f"{utc(now):%Y-%m-%d %H:%M} UTC"
        facts = {"until": until, "seed": seed, "multiplier": multiplier}
        done.write_text(json.dumps(facts), encoding="utf-8")
        report("complete")
    print(f"To delete the demo, or to generate it again until now: rm -r {folder}", flush=True)


def main() -> int:
    """Parse the command line. Problems that the user can fix end with one line."""
    parser = argparse.ArgumentParser(prog="python -m labcarbon.demo", description=__doc__)
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder (default: var-demo)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port (default: {PORT})")
    parser.add_argument(
        "--multiplier", type=int, default=1, help="times four machines with their runs"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed is another lab")
    parser.add_argument(
        "--prepare", action="store_true", help="only generate the lab, start no server"
    )
    options = parser.parse_args()
    if not 1 <= options.multiplier <= 100:
        parser.error("--multiplier must be from 1 to 100.")
    folder = options.data.expanduser().resolve()
    try:
        claim_folder(folder)
        set_environment(folder, options.port)
        run(
            before=begin_database,
            after=lambda data_dir: _fill(data_dir, options.seed, options.multiplier),
            is_only_prepared=options.prepare,
        )
    except (StartupError, ConfigurationError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
