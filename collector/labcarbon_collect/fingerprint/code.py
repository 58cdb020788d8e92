"""Part C: what code a command runs, by git where there is one and by what it imports."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.files.budget import Budget, read_regular_file
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.fingerprint.git import GitState, NoGit, git_state
from labcarbon_collect.fingerprint.imports import Closure, closure, closure_of_text, module_file
from labcarbon_collect.fingerprint.launchers import Launched
from labcarbon_collect.fingerprint.normalise import normal_hash, normal_lines, packed, shingles
from labcarbon_collect.fingerprint.payload import shown_name
from labcarbon_collect.lc1 import part_hash

_INLINE = "-c"
_PROGRAM_BYTES = 256 * 1024 * 1024


class NoCode(Exception):
    """What is run is not known; the text says why."""


@dataclass
class Code:
    """The wire's ``entry``, ``entry_name`` and ``code``, and the files the normal form is made of."""

    entry: str
    entry_name: str
    code: Dict[str, Any] = field(default_factory=dict)
    files: Optional[Closure] = None
    why: str = ""


@dataclass(frozen=True)
class _Entry:
    """``path``: the file that is run, "" where it is none; ``folder``: where modules are looked for first."""

    path: str
    folder: str
    name: str


def code_of_command(what: Launched, cwd: str, environ: Mapping[str, str], budget: Budget) -> Code:
    """What ``what`` runs. Raises OutOfBudget, and OSError for a file that is there and cannot be read."""
    entry = _entry(what, cwd, environ)
    try:
        state: Optional[GitState] = git_state(entry.folder, environ, budget)
    except NoGit:
        state = None
    root = os.path.realpath(state.root if state else entry.folder)
    below = os.path.relpath(os.path.realpath(entry.path), root) if entry.path else entry.name
    code = Code(part_hash("entry", below.replace(os.sep, "/")), shown_name(entry.name))
    try:
        code.files, code.code = _found(what, entry, root, state, environ, cwd, budget)
    except NoCode as none:
        code.code, code.why = {"state": "unknown"}, str(none)
    return code


def add_normal(code: Code, cache: DigestCache, budget: Budget) -> Dict[str, Any]:
    """The wire's ``normal`` and ``shingles`` of ``code``. Raises OutOfBudget."""
    if code.files is None:
        return {}
    found: List[Tuple[str, bytes]] = []
    fresh: List[Tuple[bytes, bytes]] = []
    try:
        for name, content in code.files.files.items():
            budget.check()
            kind = os.path.splitext(name)[1].encode("utf-8", "surrogateescape")
            key = hashlib.sha256(b"1" + kind + b"\0" + content).digest()
            lines = cache.lookup_lines(key)
            if lines is None:
                lines = packed(normal_lines(name, content))
                fresh.append((key, lines))
            found.append((name, lines))
    finally:
        cache.store_lines(fresh)
    return {"normal": normal_hash(found), "shingles": shingles(found)}


def _entry(what: Launched, cwd: str, environ: Mapping[str, str]) -> _Entry:
    if what.kind == "inline":
        return _Entry("", cwd, _INLINE)
    if what.kind == "module":
        path = module_file(what.entry, _search(cwd, environ, cwd)) or ""
        return _Entry(path, cwd, what.entry)
    path = os.path.join(cwd, what.entry)
    known = os.path.isfile(path) and (what.kind != "program" or os.sep in what.entry)
    name = os.path.basename(what.entry)
    return _Entry(path, os.path.dirname(os.path.realpath(path)), name) if known else _Entry("", cwd, name)


def _search(folder: str, environ: Mapping[str, str], cwd: str, *more: str) -> List[str]:
    """Where Python would look for modules of ours, in order."""
    given = [os.path.join(cwd, each) for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    return list(dict.fromkeys([folder, *given, *more]))


def _found(
    what: Launched, entry: _Entry, root: str, state: Optional[GitState], environ: Mapping[str, str], cwd: str, budget: Budget
) -> Tuple[Optional[Closure], Dict[str, Any]]:  # fmt: skip
    if what.kind == "program" and not entry.path:
        raise NoCode(f"{entry.name} is an installed program, whose version is not looked at")
    if not entry.path and what.kind != "inline":
        raise NoCode(f"{entry.name} is not below this folder")
    search = _search(entry.folder, environ, cwd, *([root, os.path.join(root, "src")] if state else []))
    if what.kind == "inline":
        python = what.family == "python"
        name = f"{_INLINE}.py" if python else _INLINE
        files = closure_of_text(what.entry, name=name, python=python, root=root, search=search, budget=budget)
    elif what.kind == "program" and not _is_text(entry.path):
        digest = hashlib.sha256(read_regular_file(entry.path, _PROGRAM_BYTES)).hexdigest()
        return None, {"state": "verified", "hash": part_hash("program", digest)}
    else:
        files = closure([entry.path], root=root, search=search, budget=budget)
    if state is None and what.family not in ("python", "R") and len(files.files) == 1 and _starts_others(what, entry):
        raise NoCode(f"{entry.name} starts programs that are not known")
    return files, _told(files, state)


def _starts_others(what: Launched, entry: _Entry) -> bool:
    """Whether a program of one file is likely to be a list of commands."""
    return what.family == "shell" or entry.path.endswith((".sh", ".bash")) or what.kind == "program"


def _told(files: Closure, state: Optional[GitState]) -> Dict[str, Any]:
    content = {
        name.encode("utf-8", "surrogateescape"): each.replace(b"\r\n", b"\n") for name, each in files.files.items()
    }  # fmt: skip
    if state is None:
        digest = hashlib.sha256(b"labcarbon imported code\0")
        for name, each in sorted(content.items()):
            digest.update(b"%d:%s %d:%s\n" % (len(name), name, len(each), each))
        return {"state": "verified", "hash": digest.hexdigest()}
    beside = any(name not in state.files and not name.endswith(b".ipynb") for name in content)
    return {
        "state": "verified", "hash": state.hash(content), "commit": state.commit, "dirty": state.dirty or beside,
    }  # fmt: skip


def _is_text(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
