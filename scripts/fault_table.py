"""Print what is counted, declared and shown for each fault of a GPU at each moment, as Markdown.

python scripts/fault_table.py

Uses the simulated driver. The column of the pages follows tests/dashboard/test_device_problems.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "collector")]

from tests.collector.device_faults import FAULTS, MOMENTS, Outcome, play  # noqa: E402
from tests.collector.nvml_bench import Bench  # noqa: E402
from tests.fakes.nvml_driver import FakeDriver  # noqa: E402

PAGES = {
    "measured": "nothing",
    "lost": "node page: GPU lost; Overview: GPU not measured",
    "silent": "node page and Overview: GPU silent",
    "power": "node page: energy counter not used; Overview: GPU not measured by the counter",
}


def outcome_of(fault: str, moment: str) -> Outcome:
    """Let one fault happen on a new machine."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "spool").mkdir()
        driver = FakeDriver(home, ("hopper", "hopper"), libraries=home)
        with driver.in_process():
            machine = Bench(driver, home / "sys")
            try:
                return play(machine, home / "spool", fault, moment)
            finally:
                machine.source.close()


def main() -> int:
    """Print the table."""
    print("| fault | moment | drawn kJ | error kJ | gap s (reason) | status | doctor | pages |")
    print("|---|---|---|---|---|---|---|---|")
    for fault in FAULTS:
        for moment in MOMENTS:
            outcome = outcome_of(fault, moment)
            gap = f"{outcome.gap_s:.6g} ({', '.join(outcome.gap_reasons)})"
            row = [
                fault,
                moment,
                f"{outcome.drawn_mj / 1e6:.1f}",
                f"{outcome.error_mj / 1e6:.3f}",
                gap if outcome.gap_reasons else "none",
                " → ".join(outcome.states),
                outcome.doctor,
                " → ".join(PAGES[state] for state in outcome.states),
            ]
            print(f"| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
