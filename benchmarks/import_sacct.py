"""Time to import 100 000 Slurm jobs from a file of sacct into a real server, and to repeat the
import.
"""

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.faults.installation import ROOT, Installation, Machine
from tests.mistakes.conftest import serving
from tests.services.postgres import Postgres

COLUMNS = (
    "JobIDRaw|Cluster|JobID|User|Account|Partition|State|ExitCode|Submit|Start|End|NodeList|"
    "AllocTRES|"
    "ConsumedEnergyRaw|JobName"
)
STATES = (("COMPLETED", "0:0"),) * 8 + (
    ("FAILED", "1:0"),
    ("TIMEOUT", "0:15"),
    ("CANCELLED by 1004", "0:15"),
)
YEAR_S, END_S = 365 * 86_400, 1_793_606_400
_TOKEN = """
from apps.accounts.models import Lab, User
from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
print(issue_user_token(lab=Lab.objects.get(), user=User.objects.get(username="owner"), now=now_us()))
"""  # noqa: E501
_COUNT = """
from apps.runs.models import Run
print(Run.objects.count(), Run.objects.exclude(account="").count())
"""


def write_history(path: Path, jobs: int) -> None:
    """Write a year of a cluster with thirty users: half of the jobs in arrays, a tenth on two
    nodes.
    """
    dice = random.Random(981)
    with path.open("w", encoding="utf-8") as file:
        file.write(COLUMNS + "\n")
        for number in range(1, jobs + 1):
            start = END_S - YEAR_S + number * YEAR_S // jobs
            state, code = dice.choice(STATES)
            user = dice.randrange(30)
            gpus, nodes = (
                dice.choice((0, 1, 1, 2, 4, 8)),
                dice.choice(("gpu1",) * 9 + ("gpu[1-2]",)),
            )
            output = f"{number - number % 10}_{number % 10}" if number % 2 else str(number)
            fields = (
                number,
                "hpc",
                output,
                f"user{user:02}",
                f"account{user % 7}",
                "gpu",
                state,
                code,
                start - 600,
                start,
                start + dice.randrange(60, 86_400),
                nodes,
                f"billing=8,cpu=8,gres/gpu={gpus},mem=32G,node=1",
                "",
                f"train {dice.randrange(500)} ünï|code",
            )
            file.write("|".join(map(str, fields)) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-")))
        database = stack.enter_context(Postgres(durable=True)).url if options.postgres else ""
        server = Installation(folder / "server", database_url=database)
        server.prepare()
        server.codes(0)
        history = folder / "sacct.txt"
        write_history(history, options.jobs)
        stack.enter_context(serving(server))
        machine = Machine(
            folder / "machine",
            {"LABCARBON_TOKEN": server.shell(_TOKEN).splitlines()[-1], "LABCARBON_URL": server.url},
        )
        ours = {
            "PYTHONPATH": f"{ROOT / 'collector'}:{ROOT}"
        }  # this checkout's collector, even if another one is installed
        print(
            f"{'PostgreSQL' if options.postgres else 'SQLite'}, {options.jobs} jobs, "
            f"{history.stat().st_size >> 20} MiB"
        )
        for what, more in (("first import", ()), ("repetition", ("--restart",))):
            started = time.perf_counter()
            done = machine.collect(
                "import-sacct", *more, str(history), environ=ours, timeout_s=1200
            )
            took_s = time.perf_counter() - started
            print(
                f"{what:14}{took_s:7.1f} s{options.jobs / took_s:9.0f} jobs/s  "
                f"{done.stdout.strip()}{done.stderr[-300:]}"
            )
        print("runs, with an account:", server.shell(_COUNT).splitlines()[-1])


if __name__ == "__main__":
    main()
