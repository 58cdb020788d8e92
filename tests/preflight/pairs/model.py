"""Pairs of training runs whose truth is established by executing both runs.

The pairs measure the detection of duplicates, so they are written without regard to its rules:
what is true of a pair follows from the result lines of its two runs (``execute.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

# same: both runs compute the same result from the same seed (or without random numbers).
# replicate: equal work, but another seed or no seed. different: everything else.
Truth = Literal["same", "different", "replicate"]
Framework = Literal[
    "argparse", "hydra", "configuration", "environment", "notebook", "launcher", "mlflow"
]

SOURCES = Path(__file__).parent / "sources"


@dataclass(frozen=True)
class Commit:
    """The last commit of the working folder. ``files``: files whose committed text differs from
    the text on disk; None if the file is not committed.
    """

    message: str = "Add training"
    files: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSpec:
    """One run. Paths in ``files`` are relative to the working folder; a path that begins with
    ``../`` is beside it, one that begins with ``~/`` in the home folder.

    ``{root}`` in ``command`` and ``environ`` is replaced by the folder that contains both.
    ``git`` is None if the working folder is not a repository.
    """

    files: Mapping[str, str]
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: str = "project"
    git: Commit | None = None

    def edit(self, path: str, old: str, new: str) -> RunSpec:
        """Replace ``old``, which must occur exactly once, in the file at ``path``."""
        count = self.files[path].count(old)
        if count != 1:
            raise ValueError(f"{old!r} occurs {count} times in {path}, not once")
        return self.write(path, self.files[path].replace(old, new))

    def write(self, path: str, text: str) -> RunSpec:
        return replace(self, files={**self.files, path: text})

    def remove(self, path: str) -> RunSpec:
        return replace(self, files={key: self.files[key] for key in self.files if key != path})

    def move(self, path: str, target: str) -> RunSpec:
        return self.remove(path).write(target, self.files[path])

    def add(self, *arguments: str) -> RunSpec:
        """Append arguments to the command."""
        return replace(self, command=(*self.command, *arguments))

    def swap(self, old: str, *new: str) -> RunSpec:
        """Replace the argument ``old``, which must occur exactly once, by ``new``."""
        if self.command.count(old) != 1:
            raise ValueError(f"{old!r} is not once in {self.command}")
        place = self.command.index(old)
        return self.run(*self.command[:place], *new, *self.command[place + 1 :])

    def option(self, name: str, value: str) -> RunSpec:
        """Replace the value that follows the option ``name``."""
        place = self.command.index(name) + 1
        return self.run(*self.command[:place], value, *self.command[place + 1 :])

    def run(self, *command: str) -> RunSpec:
        """Replace the command."""
        return replace(self, command=command)

    def env(self, **variables: str) -> RunSpec:
        """Set environment variables."""
        return replace(self, environ={**self.environ, **variables})

    def unset(self, name: str) -> RunSpec:
        return replace(self, environ={k: v for k, v in self.environ.items() if k != name})

    def at(self, folder: str) -> RunSpec:
        """Move the working folder."""
        return replace(self, folder=folder)

    def commit(self, message: str = "Add training", **files: str | None) -> RunSpec:
        """Make the working folder a repository. ``files``: see ``Commit``; ``__`` in a key is a
        slash, its last ``_`` the dot.
        """
        paths = {}
        for key, text in files.items():
            stem, _, suffix = key.replace("__", "/").rpartition("_")
            paths[f"{stem}.{suffix}"] = text
        return replace(self, git=Commit(message, paths))


@dataclass(frozen=True)
class Pair:
    """Two runs and what is true of them.

    ``data_known``: both runs have each data file they read named on the command line, in a
    configuration file or in an environment variable. ``seed_known``: both runs set a seed.
    A name with ``-hard-`` marks a pair whose truth is easily misjudged.
    """

    name: str
    framework: Framework
    left: RunSpec
    right: RunSpec
    truth: Truth
    data_known: bool
    seed_known: bool
    reason: str

    @property
    def is_hard(self) -> bool:
        return "-hard-" in self.name

    @property
    def is_comparable(self) -> bool:
        """Return whether the pair is a repeat that must be found."""
        return self.truth == "same" and self.data_known and self.seed_known


class PairList:
    """Collects the pairs of one framework."""

    def __init__(self, framework: Framework) -> None:
        self._framework: Framework = framework
        self.pairs: list[Pair] = []

    def same(self, name: str, left: RunSpec, right: RunSpec, reason: str, **known: bool) -> None:
        self._add(name, left, right, "same", reason, known)

    def different(
        self, name: str, left: RunSpec, right: RunSpec, reason: str, **known: bool
    ) -> None:
        self._add(name, left, right, "different", reason, known)

    def replicate(
        self, name: str, left: RunSpec, right: RunSpec, reason: str, **known: bool
    ) -> None:
        self._add(name, left, right, "replicate", reason, known)

    def _add(
        self,
        name: str,
        left: RunSpec,
        right: RunSpec,
        truth: Truth,
        reason: str,
        known: Mapping[str, bool],
    ) -> None:
        if known.keys() - {"data_known", "seed_known"}:
            raise TypeError(f"{name}: unknown arguments in {sorted(known)}")
        data_known, seed_known = known.get("data_known", True), known.get("seed_known", True)
        name = f"{self._framework}-{name}"
        if any(pair.name == name for pair in self.pairs):
            raise ValueError(f"two pairs are named {name}")
        self.pairs.append(
            Pair(name, self._framework, left, right, truth, data_known, seed_known, reason)
        )


def read_source(name: str) -> dict[str, str]:
    """Return the files of a project in ``sources``: path → text."""
    root = SOURCES / name
    files = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not files:
        raise ValueError(f"{root} has no files")
    return files


def table(columns: str, seed: int, rows: int = 40) -> str:
    """Return a CSV table of small numbers; another ``seed`` gives another content."""
    state = seed * 2654435761 % 2**32
    lines = [columns]
    width = columns.count(",") + 1
    for _ in range(rows):
        cells = []
        for _ in range(width - 1):
            state = (state * 1664525 + 1013904223) % 2**32
            cells.append(state / 2**31 - 1)
        label = int(sum(cells) + (state >> 9) % 7 / 10 > 0)
        lines.append(",".join([*(f"{cell:.3f}" for cell in cells), str(label)]))
    return "\n".join(lines) + "\n"


SENTENCES = (
    "the cell divides and the signal rises",
    "a neuron fires when the signal is strong",
    "the model reads the image of the cell",
    "light falls on the retina and the neuron fires",
    "the protein folds and the cell moves",
    "an image of the protein shows a fold",
)


def corpus(*places: int) -> str:
    """Return a text of some of ``SENTENCES``, one a line."""
    return "".join(SENTENCES[place] + "\n" for place in places)
