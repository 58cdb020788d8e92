"""Scripts that use MLflow, run by a user on a machine, and their results."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.collector.collector_process import Collector
from tests.collector.fake_mlflow import write
from tests.fakes import labcarbon_server as fakes

RUN, PART = "labcarbon.run_uuid", "labcarbon.part_of"
SKIPPED_CHECK = "Duplicate check skipped"
ONE_RUN = "with mlflow.start_run():\n    print('trained')"
DATA = ("--data", "cats")
WORDS = ("--lr", "0.1", "--seed", "1")


@dataclass
class Done:
    """A finished script. ``created``: the tags of each run that MLflow would have created."""

    code: int
    created: list[dict[str, str]]
    output: str
    messages: str

    @property
    def ours(self) -> list[str]:
        """The lines of standard error from the collector."""
        return [line for line in self.messages.splitlines() if line.startswith("labcarbon: ")]


@dataclass
class Scripts:
    """The folder of a user's scripts."""

    person: Collector

    @property
    def folder(self) -> Path:
        return self.person.root / "work"

    def run(
        self,
        body: str = ONE_RUN,
        *words: str,
        before: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
    ) -> Done:
        """Run ``python train.py --data cats …`` with this body."""
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / "cats").exists():
            (self.folder / "cats").mkdir()
            (self.folder / "cats" / "1.png").write_bytes(b"cat")
        (self.folder / "train.py").write_text(f"import mlflow\n{body}\n")
        return self.call(
            [*before, sys.executable, "train.py", *DATA, *(words or WORDS)], environ or {}
        )

    def call(self, command: list[str], environ: dict[str, str]) -> Done:
        libraries = write(self.person.root / "libraries")
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.person.environ, "PYTHONPATH": _path(libraries), **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = done.stdout.splitlines()
        created = [
            json.loads(line.removeprefix("CREATED "))
            for line in lines
            if line.startswith("CREATED ")
        ]
        rest = "\n".join(line for line in lines if not line.startswith("CREATED "))
        return Done(done.returncode, created, rest, done.stderr)


def questions(server: fakes.FakeServer) -> list[Any]:
    """Return the bodies of the preflight requests."""
    return [request.body for request in server.requests if request.path == "/api/v1/preflight/"]


def _path(libraries: Path) -> str:
    import labcarbon_collect

    return f"{libraries}:{Path(labcarbon_collect.__file__).parents[1]}"
