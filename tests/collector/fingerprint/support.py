"""A folder of code and data, and its fingerprint."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labcarbon_collect.fingerprint import Survey, survey

TRAIN = """\
import model

# trains
def main():
    \"\"\"Train.\"\"\"
    for epoch in range(3):
        model.step(epoch)


main()
"""
MODEL = "def step(epoch):\n    return epoch * 2\n"


class Folder:
    """A folder of a simulated user, with files and possibly a git repository."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.home = root, home or root.parent / "state"
        self.home.mkdir(exist_ok=True, mode=0o700)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LABCARBON_DATA": str(self.home),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CEILING_DIRECTORIES": str(self.home.parent),
        }

    def write(self, **files: str | bytes) -> None:
        """``train_py="…"`` writes train.py; ``pkg__model_py`` writes pkg/model.py."""
        for name, content in files.items():
            self.put(name.replace("__", "/").replace("_", "."), content)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def git(self, *arguments: str) -> str:
        who = [
            "-c",
            "user.name=ana",
            "-c",
            "user.email=ana@example.org",
            "-c",
            "protocol.file.allow=always",
        ]
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str = "state") -> None:
        if not (self.root / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def survey(
        self,
        *command: str,
        seconds: float = 20,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Survey:
        command_line = command or ("python", "train.py")
        return survey(
            command_line,
            cwd=str(self.root),
            environ={**self.environ, **(environ or {})},
            seconds=seconds,
            **options,
        )

    def wire(self, *command: str, **options: Any) -> dict[str, Any]:
        return self.survey(*command, **options).wire

    def code(self, *command: str, **options: Any) -> str:
        """Return the hash of the code."""
        code = self.wire(*command, **options)["code"]
        assert code["state"] == "verified", code
        return str(code["hash"])

    def normal(self, *command: str) -> str:
        return str(self.wire(*command)["code"]["normal"])
