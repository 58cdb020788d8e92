"""The history of a lab: 1 300 runs of 40 training scripts, as its collectors and its tracker report
them. Nothing is executed; the order and the numbers are fixed.

24 scripts are started with the collector, which surveys their folders; 16 log to a tracker, which
reports parameters, a commit, and for most the digest of a data set. Half of the scripts of each
kind have a seed. Those of the collector without one set none; for those of the tracker it is
unknown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid5

import msgspec
from labcarbon_collect.fingerprint.builder import survey

from apps.runs.services.fingerprints import fingerprint_from_tracker
from tests.shipped_data import T0

Truth = Literal["distinct", "repeat", "duplicate"]
SCRIPTS, OF_COLLECTOR = 40, 24
REPEATS, DISTINCT, DUPLICATES = 1100, 192, 8
NAMES = ("train_unet", "finetune_bert", "fit_gnn", "train_diffusion", "pretrain_vae")
SPACE = UUID("6ba7b814-9dad-11d1-80b4-00c04fd430c8")
MINUTE_US = 60_000_000
COMMON = '''"""Training loop."""
import csv
import random


def fit(args):
    with open(args.data, newline="") as stream:
        rows = [[float(cell) for cell in row] for row in list(csv.reader(stream))[1:]]
    weights = [random.gauss(0, 0.1) for _ in range(args.width)]
    for epoch in range(args.epochs):
        random.shuffle(rows)
        for row in rows:
            error = sum(w * x for w, x in zip(weights, row)) - row[-1]
            weights = [w - args.lr * error for w in weights]
        print(epoch, error)
    return weights
'''
SEED_LINES = {
    True: ('parser.add_argument("--seed", type=int, required=True)', "random.seed(args.seed)"),
    False: ("", ""),
}


@dataclass(frozen=True)
class Script:
    """A training script. ``folder``: of its project; '' if only a tracker reports it."""

    number: int
    folder: str
    is_seeded: bool

    @property
    def name(self) -> str:
        return f"{NAMES[self.number % len(NAMES)]}_{self.number // len(NAMES)}.py"

    @property
    def project(self) -> int:
        return self.number // 4


@dataclass(frozen=True)
class Start:
    """A run: its script, which of the configurations of the script, and the seed, if it has one.
    ``order``: its place in the history.
    """

    script: Script
    configuration: int
    seed: int
    truth: Truth
    order: int = 0

    @property
    def uuid(self) -> UUID:
        return uuid5(SPACE, str(self.order))

    @property
    def started_us(self) -> int:
        return T0 + self.order * 90 * MINUTE_US

    @property
    def end(self) -> dict[str, Any]:
        """Return how the run ended: one of 12 repeats failed for an unknown cause, one of 25 was
        killed.
        """
        if self.truth == "repeat" and self.order % 12 == 5:
            return {"state": "failed", "exit_code": 1}
        if self.truth == "repeat" and self.order % 25 == 9:
            return {"state": "killed", "exit_code": 137}
        return {"state": "finished", "exit_code": 0}

    @property
    def values(self) -> dict[str, Any]:
        """Return the parameters. No two configurations of a script are equal."""
        i = self.configuration
        values = {
            "lr": round(0.001 * 3 ** (i % 4), 4),
            "epochs": 10 + 5 * (i // 4),
            "width": 16 + 16 * (i % 3),
            "output_dir": f"runs/{self.order}",
            "num_workers": 2 + self.order % 4,
        }
        return values | ({"seed": self.seed} if self.script.is_seeded else {})


def write_projects(root: Path) -> list[Script]:
    """Write the folders of the scripts that the collector surveys; return all scripts."""
    scripts = []
    for number in range(SCRIPTS):
        is_surveyed = number < OF_COLLECTOR
        folder = root / f"project-{number // 4}" if is_surveyed else None
        script = Script(number, str(folder or ""), number % 2 == 0)
        scripts.append(script)
        if folder is not None:
            (folder / "data").mkdir(parents=True, exist_ok=True)
            (folder / "common.py").write_text(COMMON)
            table = "".join(f"{row},{row * (number // 4 + 2) % 7}\n" for row in range(30))
            (folder / "data" / "cells.csv").write_text(f"x,y\n{table}")
            (folder / script.name).write_text(_program(script))
    return scripts


def _program(script: Script) -> str:
    argument, call = SEED_LINES[script.is_seeded]
    lines = [
        f'"""Train model {script.number}."""',
        "import argparse",
        "import random",
        "",
        "from common import fit",
        "",
        "parser = argparse.ArgumentParser()",
        'parser.add_argument("--data", required=True)',
        'parser.add_argument("--lr", type=float, default=0.01)',
        'parser.add_argument("--epochs", type=int, default=10)',
        'parser.add_argument("--width", type=int, default=16)',
        'parser.add_argument("--num-workers", type=int, default=2)',
        'parser.add_argument("--output-dir", default="runs")',
        argument,
        "args = parser.parse_args()",
        call,
        "fit(args)",
    ]
    return "\n".join(lines) + "\n"


def list_starts(scripts: list[Script]) -> list[Start]:
    """Return the runs in the order of their start.

    First all configurations of all scripts, each once; then again and again, with other seeds or
    without one; the duplicates come last: runs with seed 1, again.
    """
    first = [
        Start(script, i, 1, "distinct")
        for script in scripts
        for i in range(DISTINCT // SCRIPTS + (script.number < DISTINCT % SCRIPTS))
    ]
    repeats = [
        Start(origin.script, origin.configuration, 2 + k // DISTINCT, "repeat")
        for k in range(REPEATS)
        for origin in [first[k % DISTINCT]]
    ]
    seeded = [start for start in first if start.script.is_seeded]
    duplicates = [
        Start(origin.script, origin.configuration, 1, "duplicate")
        for origin in seeded[:: len(seeded) // DUPLICATES][:DUPLICATES]
    ]
    return [
        Start(one.script, one.configuration, one.seed, one.truth, order)
        for order, one in enumerate([*first, *repeats, *duplicates])
    ]


def surveyed(start: Start) -> dict[str, Any]:
    """Return the fingerprint that the collector makes of a run, from its folder."""
    options = [
        text
        for name, value in start.values.items()
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]
    result = survey(
        ["python", start.script.name, "--data", "data/cells.csv", *options],
        cwd=start.script.folder,
        environ={"PATH": "/usr/bin:/bin", "HOME": start.script.folder},
        seconds=60,
    )
    assert not result.notes, result.notes
    return result.wire


def reported(start: Start) -> dict[str, Any]:
    """Return the fingerprint of a run that only a tracker knows."""
    has_data = start.script.number % 4 != 3
    project = start.script.project
    fingerprint = fingerprint_from_tracker(
        {name: str(value) for name, value in start.values.items()},
        commit=f"{project:040x}",
        entry=start.script.name,
        datasets=[("train", f"cells-{project}", f"{project:08x}")] if has_data else [],
        from_scratch=True,
    )
    built: dict[str, Any] = msgspec.to_builtins(fingerprint)
    return {name: value for name, value in built.items() if value is not None}


def fingerprints(starts: list[Start]) -> Iterator[tuple[Start, dict[str, Any]]]:
    """Yield each run with its fingerprint, as the wire has it."""
    for start in starts:
        yield start, surveyed(start) if start.script.folder else reported(start)
