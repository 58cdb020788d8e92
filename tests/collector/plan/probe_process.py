"""A probe in a process of its own, with short times.

``python -m tests.collector.plan.probe_process OPTIONS COMMAND …`` prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcarbon_collect.config import read_login
from labcarbon_collect.plan.probe.probed_command import ProbeTiming
from labcarbon_collect.plan.probe.result import TotalWork, compute_result, format_lines, to_json
from labcarbon_collect.plan.probe.runner import ProbeOptions, run_probe

from tests.collector.collector_process import Collector
from tests.collector.plan.trainings import script

SECOND = 1_000_000
ROOT = Path(__file__).resolve().parents[3]
SHORT = {
    "warm_up_us": SECOND,
    "needed_us": SECOND,
    "interrupt_us": 2 * SECOND,
    "terminate_us": SECOND,
    "kill_us": 5 * SECOND,
}
LENGTH_US = 4 * SECOND


@dataclass
class ProbeRun:
    """A training, prepared in a folder of its own, and the probe's environment."""

    node: Collector
    folder: Path

    @property
    def truth(self) -> list[tuple[int, str]]:
        """True steps as (µs, number)."""
        text = (self.folder.parent / "truth").read_text().split("\n")
        return [(int(at), rest) for at, _, rest in (line.partition(" ") for line in text if line)]

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(at, int(step)) for at, step in self.truth if step.isdecimal()]

    @property
    def environ(self) -> dict[str, str]:
        # the packages of this process
        paths = [str(ROOT), *(path for path in sys.path if path)]
        return {
            **self.node.environ,
            "TRUTH": str(self.folder.parent / "truth"),
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def arguments(self, options: dict[str, Any], command: list[str] | None) -> list[str]:
        command = command or [sys.executable, "train.py"]
        module = [sys.executable, "-m", "tests.collector.plan.probe_process"]
        return [*module, json.dumps(options), *command]

    def probe(
        self, *, command: list[str] | None = None, **options: Any
    ) -> tuple[dict[str, Any], str]:
        """Return the result and everything printed to standard error."""
        done = subprocess.run(
            self.arguments(options, command),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    def start(self, **options: Any) -> subprocess.Popen[str]:
        """Start a probe in a session of its own."""
        return subprocess.Popen(
            self.arguments(options, None),
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def prepare(node: Collector, name: str) -> ProbeRun:
    """Write a training into a folder of its own."""
    folder = node.root / "work"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script(name))
    (node.root / "truth").touch()
    return ProbeRun(node, folder)


def main() -> None:
    options = json.loads(sys.argv[1])
    work = TotalWork(**options.pop("work", {}))
    timing = ProbeTiming(**{**SHORT, **options.pop("timing", {})})
    length_us = options.pop("length_us", LENGTH_US)
    probe = run_probe(
        ProbeOptions(sys.argv[2:], length_us, timing=timing, **options),
        read_login(os.environ),
        lambda text: print(f"labcarbon: {text}", file=sys.stderr, flush=True),
    )
    result = compute_result(probe, work)
    print(json.dumps({**to_json(result), "text": list(format_lines(result))}))


if __name__ == "__main__":
    main()
