"""What may change a result and is not examined: files that neither the command nor the
configuration names as data. With such an input a match is at most possible.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, FrozenSet, Iterator, Mapping, Sequence, Set, Tuple

from labcarbon_collect.files.read_limits import read_regular_file
from labcarbon_collect.fingerprint.syntax.input_facts import InputFacts
from labcarbon_collect.fingerprint.syntax.path_uses import OPENED, READ, is_word
from labcarbon_collect.redaction import mask_argument

_MAX_CONSTANTS, _MAX_LISTED, _MAX_ENTRIES, _MAX_DEPTH, _MAX_TEXTS = 5000, 400, 2000, 8, 2000
_MAX_LIST_BYTES, _MAX_LIST_FILES, _MAX_TEXT = 256 * 1024, 10, 4096
_REMOTE = re.compile(r"^(?!(tcp|udp|env|nccl|gloo|mpi|ws|wss|grpc)://)[a-z][a-z0-9+.-]*://", re.I)
_SEPARATORS = re.compile(r"[,;:=|\s]+")
_MAGIC = re.compile(r"[*?\[{]")
# A word of a text file that may be a path: with a folder, or a suffix that begins with a letter.
_LISTED = re.compile(r"[^\s,;\"'\t|<>\[\]{}()=]*(?:/[^\s,;\"'\t|<>\[\]{}()=]+|\.[A-Za-z]\w{0,7})")
_LIST_SUFFIXES = (
    ".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".lst", ".list", ".scp", ".manifest",
    ".yaml", ".yml", ".ini", ".cfg", ".conf", ".toml", ".gin", ".py", ".data", ".names", ".args",
    "",
)  # fmt: skip
_INSTALLED = re.compile(r"^/(usr|bin|sbin|dev|proc|sys|etc)/|/\.?v?env/bin/|^/opt/\w+/bin/")
_VARIABLE = re.compile(r"\$(?:\{(?:oc\.env:|env:|ENV:)?([A-Za-z_]\w*)|([A-Za-z_]\w*))")


@dataclass
class KnownFiles:
    """Files that a fingerprint covers: data, start, configuration and code.

    ``tracked``: names below ``root`` that git tracks.
    """

    paths: Set[str] = field(default_factory=set)
    root: str = ""
    tracked: Collection[bytes] = frozenset()

    def add(self, paths: Collection[str]) -> None:
        self.paths |= {os.path.realpath(path) for path in paths}

    def covers(self, path: str) -> bool:
        """Return whether a file, or all files of a folder, are covered."""
        real = os.path.realpath(path)
        if self._has(real):
            return True
        if not os.path.isdir(real):
            return False
        files = [os.path.join(folder, name) for folder, name in _walk(real)]
        return len(files) < _MAX_ENTRIES and all(map(self._has, files))

    def _has(self, real: str) -> bool:
        if real in self.paths:
            return True
        folder = os.path.dirname(real)
        while len(folder) > 1:
            if folder in self.paths:
                return True
            folder = os.path.dirname(folder)
        if not self.root or not real.startswith(self.root + os.sep):
            return False
        return os.fsencode(os.path.relpath(real, self.root)) in self.tracked


@dataclass(frozen=True)
class Given:
    """``folders``: those below which a relative path may be. ``texts``: (name, value) of each
    parameter. ``files``: (name, path) of data and of configuration files that are not parsed.
    """

    folders: Sequence[str]
    texts: Sequence[Tuple[str, str]]
    files: Sequence[Tuple[str, str]]


def unexamined_inputs(facts: InputFacts, given: Given, known: KnownFiles) -> Iterator[str]:
    """Yield what is not compared, in words."""
    if facts.reads_stdin:
        yield "standard input"
    if facts.computed_folders:
        yield "modules in a folder with a computed path"
    if facts.computed_modules:
        yield "modules with a computed name"
    yield from _constants(facts, given, known)
    for name, text in given.texts[:_MAX_TEXTS]:
        if _names_files(text, given.folders, known):
            yield f"the files of {shown(name)}"
    beside = {name.lower() for name in facts.beside}
    for number, (name, path) in enumerate(given.files):
        if number < _MAX_LIST_FILES and _lists_files(path, given.folders, known):
            yield f"files that {shown(name)} lists"
        last = name.lstrip("-+").replace("-", "_").replace("/", ".").rsplit(".", 1)[-1].lower()
        if last in beside and _has_neighbour(path, known):
            yield f"files beside {shown(name)}"


def variables_in(texts: Collection[str], environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that texts name, such as ``$LR`` and ``${oc.env:LR}``, if they are
    set.
    """
    names = {match[1] or match[2] for text in texts for match in _VARIABLE.finditer(text)}
    return {name: environ[name] for name in sorted(names) if name in environ}


def texts_of(name: str, value: Any, depth: int = 0) -> Iterator[Tuple[str, str]]:
    """Yield (name, text) of each text in a value."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from texts_of(f"{name}.{key}", inner, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        for inner in value:
            yield from texts_of(name, inner, depth + 1)


def _constants(facts: InputFacts, given: Given, known: KnownFiles) -> Iterator[str]:
    """Yield constant paths that the code may read."""
    for text, use in sorted(facts.paths.items())[:_MAX_CONSTANTS]:
        if use not in (READ, OPENED):
            continue
        if _REMOTE.match(text):
            if use == OPENED:
                yield "the content of an address that the code names"
            continue
        for folder in given.folders:
            path = os.path.join(folder, os.path.expanduser(text))
            may_be_folder = use == OPENED or not is_word(text)
            paths = glob.iglob(path) if _MAGIC.search(text) else [path]
            if any(
                _is_input(one, may_be_folder=may_be_folder) and not known.covers(one)
                for _, one in zip(range(_MAX_ENTRIES), paths)
            ):
                yield f"the content of {shown(text)}"
                break


def _is_input(path: str, *, may_be_folder: bool) -> bool:
    """Return whether a path is a file, or a folder with content, that is not meant as a word.
    Installed programs are none.
    """
    try:
        if _INSTALLED.search(path):
            return False
        if os.path.isdir(path):
            return may_be_folder and next(_walk(path), None) is not None
        return os.path.isfile(path)
    except (OSError, ValueError):
        return False


def _names_files(text: str, folders: Sequence[str], known: KnownFiles) -> bool:
    """Return whether a value names files in a form that is no path: an address, a pattern, a list,
    a prefix.
    """
    if not text or len(text) > _MAX_TEXT or "\0" in text or "\n" in text:
        return False
    if _REMOTE.match(text):
        return True
    parts = {text, os.path.expanduser(text), os.path.expandvars(text), text.lstrip("@")}
    parts.update(part for part in _SEPARATORS.split(text) if part)
    for folder in folders:
        for part in parts:
            if any(not known.covers(path) for path in _paths(part, folder)):
                return True
    return False


def _paths(text: str, folder: str) -> Iterator[str]:
    """Yield the existing files and folders that a text names."""
    path = os.path.join(folder, text)
    if _MAGIC.search(text):
        fixed = os.path.dirname(os.path.join(folder, _MAGIC.split(text)[0] + "x"))
        if os.sep in text and fixed != folder and os.path.isdir(fixed):
            yield fixed
        else:
            yield from glob.iglob(path)
    elif os.path.isdir(path):
        if not is_word(text) and os.path.realpath(path) not in _TOO_WIDE:
            yield path
    elif os.path.isfile(path):
        yield path
    else:
        yield from _with_prefix(path, is_word(text))


_TOO_WIDE: FrozenSet[str] = frozenset(("/", "/tmp", "/dev", "/proc", "/sys"))  # noqa: S108


def _with_prefix(path: str, is_bare: bool) -> Iterator[str]:
    """Yield files whose name continues a path: ``corpus.bin`` of ``data/corpus``."""
    folder, stem = os.path.split(path)
    if len(stem) < 2:
        return
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MAX_ENTRIES), entries):
                rest = entry.name[len(stem) :]
                is_longer = entry.name.startswith(stem) and (not is_bare or rest.startswith("."))
                if is_longer and entry.is_file():
                    yield entry.path
    except (OSError, ValueError):
        return


def _lists_files(path: str, folders: Sequence[str], known: KnownFiles) -> bool:
    """Return whether a text file names existing files that are not covered."""
    if os.path.isdir(path):
        texts = [
            os.path.join(folder, name)
            for folder, name in _walk(path)
            if name.endswith(_LIST_SUFFIXES[:-1])
        ]
        return any(_lists_files(text, (), known) for text in sorted(texts)[:_MAX_LIST_FILES])
    if os.path.splitext(path)[1].lower() not in _LIST_SUFFIXES:
        return False
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_LIST_BYTES).decode("utf-8", "replace")
    except OSError:
        return True
    words = dict.fromkeys(match[0] for match in _LISTED.finditer(text))
    places = list(dict.fromkeys([os.path.dirname(path), *folders]))
    for word in list(words)[:_MAX_LISTED]:
        if _REMOTE.match(word):
            continue
        for folder in places:
            listed = os.path.join(folder, word)
            if os.path.isfile(listed) and not known.covers(listed):
                return True
    return False


def _has_neighbour(path: str, known: KnownFiles) -> bool:
    """Return whether the folder of a path has other files."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.is_file() and not known.covers(entry.path)
                for _, entry in zip(range(_MAX_ENTRIES), entries)
            )
    except OSError:
        return False


def _walk(folder: str) -> Iterator[Tuple[str, str]]:
    """Yield (folder, name) of files below a folder, at most as many as are examined."""
    count = 0
    for inner, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            count += 1
            if count > _MAX_ENTRIES:
                return
            yield inner, name


def read_opaque(path: str) -> str:
    """Return the beginning of a configuration file that cannot be parsed."""
    try:
        return read_regular_file(path, 16 * 1024 * 1024)[:_MAX_LIST_BYTES].decode(
            "utf-8", "replace"
        )
    except OSError:
        return ""


def shown(text: str) -> str:
    """Return a name or path for display. Folders above a path are never sent."""
    is_absolute = text.startswith((os.sep, "~"))
    return mask_argument(os.path.basename(text) if is_absolute else text.lstrip("-+"))[:60]
