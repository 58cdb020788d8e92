"""Part C: the code that a command runs, from git if available, and from its imports."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.read_limits import Budget, read_regular_file
from labcarbon_collect.fingerprint.code_facts import CodeFacts
from labcarbon_collect.fingerprint.git import GitState, GitUnavailable, git_state
from labcarbon_collect.fingerprint.imports import (
    Closure,
    import_closure,
    import_closure_of_text,
    module_file,
)
from labcarbon_collect.fingerprint.launchers import Launch
from labcarbon_collect.fingerprint.normalise import normal_hash, normal_lines, pack_lines, shingles
from labcarbon_collect.fingerprint.payload import display_name
from labcarbon_collect.fingerprint.search_path import editable_folders
from labcarbon_collect.fingerprint.syntax.path_uses import OPENED, READ
from labcarbon_collect.lc1 import part_hash

_INLINE = "-c"
_PROGRAM_BYTES = 256 * 1024 * 1024


class UnknownCode(Exception):
    """The code of a command cannot be determined. The text has the reason."""


@dataclass
class Code:
    """The wire's ``entry`` and ``entry_name``, and the files of the program, if they are known.

    ``path``: the executed file, "" for none. ``program``: the hash of a program that is no text.
    ``named``: git's entry of each other tracked file that the code names.
    """

    entry: str
    entry_name: str
    files: Optional[Closure] = None
    state: Optional[GitState] = None
    path: str = ""
    program: str = ""
    error: str = ""
    named: Dict[str, bytes] = field(default_factory=dict)

    @property
    def facts(self) -> CodeFacts:
        """Return what the code reveals about its settings, nothing for unknown code."""
        return CodeFacts() if self.files is None else self.files.facts


@dataclass(frozen=True)
class _Entry:
    """``path``: the executed file, or "". ``folder``: the first folder of the module search
    path.
    """

    path: str
    folder: str
    name: str


def read_code(launch: Launch, cwd: str, environ: Mapping[str, str], budget: Budget) -> Code:
    """Return the code of a launch. Raises BudgetExceeded, and OSError for a file that exists but
    cannot be read.
    """
    entry = _entry(launch, cwd, environ)
    try:
        state: Optional[GitState] = git_state(entry.folder, environ, budget)
    except GitUnavailable:
        state = None
    root = os.path.realpath(state.root if state else entry.folder)
    relative_path = (
        os.path.relpath(os.path.realpath(entry.path), root) if entry.path else entry.name
    )
    code = Code(
        part_hash("entry", relative_path.replace(os.sep, "/")),
        display_name(entry.name),
        state=state,
        path=entry.path,
    )
    try:
        if launch.kind == "program" and entry.path and not _is_text(entry.path):
            digest = hashlib.sha256(read_regular_file(entry.path, _PROGRAM_BYTES)).hexdigest()
            code.program = part_hash("program", digest)
        else:
            code.files = _collect_files(launch, entry, root, state, environ, cwd, budget)
            code.named = _named_files(code.files, state, root, (cwd, entry.folder))
    except UnknownCode as error:
        code.error = str(error)
    return code


def _named_files(
    files: Closure, state: Optional[GitState], root: str, folders: Sequence[str]
) -> Dict[str, bytes]:
    """Return tracked files that the code may read by a constant path: a text, a table."""
    if state is None:
        return {}
    named: Dict[str, bytes] = {}
    for text, use in files.facts.inputs.paths.items():
        for folder in folders if use in (READ, OPENED) else ():
            path = os.path.relpath(os.path.realpath(os.path.join(folder, text)), root)
            entry = state.files.get(os.fsencode(path))
            if entry is not None and path not in files.files:
                named[path] = entry
    return named


def omit_files(code: Code, paths: Collection[str]) -> None:
    """Remove configuration files from the code, because their values are parameters."""
    if code.files is None:
        return
    omitted = {os.path.realpath(path) for path in paths}
    for name, path in list(code.files.paths.items()):
        if path in omitted:
            code.files.files.pop(name, None)
    code.files.omitted |= omitted


def hash_code(code: Code) -> Dict[str, Any]:
    """Return the wire's ``code`` without its normal form."""
    if code.program:
        return {"state": "verified", "hash": code.program}
    if code.files is None:
        return {"state": "unknown"}
    return _code_part(code.files, code.state)


def add_normal(code: Code, cache: DigestCache, budget: Budget) -> Dict[str, Any]:
    """Return the wire's ``normal`` and ``shingles`` of ``code``. Raises BudgetExceeded."""
    if code.files is None:
        return {}
    packed_files: List[Tuple[str, bytes]] = []
    new_lines: List[Tuple[bytes, bytes]] = []
    try:
        for name, content in code.files.files.items():
            budget.check()
            kind = os.path.splitext(name)[1].encode("utf-8", "surrogateescape")
            key = hashlib.sha256(b"2" + kind + b"\0" + content).digest()
            lines = cache.lookup_lines(key)
            if lines is None:
                lines = pack_lines(normal_lines(name, content))
                new_lines.append((key, lines))
            packed_files.append((name, lines))
    finally:
        cache.store_lines(new_lines)
    packed_files += [
        (name, b"\0" + hashlib.sha256(entry).digest()[:8]) for name, entry in code.named.items()
    ]
    return {"normal": normal_hash(packed_files), "shingles": shingles(packed_files)}


def _entry(launch: Launch, cwd: str, environ: Mapping[str, str]) -> _Entry:
    if launch.kind == "inline":
        return _Entry("", cwd, _INLINE)
    if launch.kind == "module":
        path = module_file(launch.entry, _search_path(cwd, environ, cwd)) or ""
        return _Entry(path, cwd, launch.entry)
    path = os.path.join(cwd, launch.entry)
    is_file = os.path.isfile(path) and (launch.kind != "program" or os.sep in launch.entry)
    name = os.path.basename(launch.entry)
    return (
        _Entry(path, os.path.dirname(os.path.realpath(path)), name)
        if is_file
        else _Entry("", cwd, name)
    )


def _search_path(folder: str, environ: Mapping[str, str], cwd: str, *more: str) -> List[str]:
    """Return the folders in which Python searches the project's modules, in order."""
    python_path = [
        os.path.join(cwd, path) for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path
    ]
    return list(dict.fromkeys([folder, *python_path, *more]))


def _collect_files(
    launch: Launch,
    entry: _Entry,
    root: str,
    state: Optional[GitState],
    environ: Mapping[str, str],
    cwd: str,
    budget: Budget,
) -> Closure:
    if launch.kind == "program" and not entry.path:
        raise UnknownCode(f"{entry.name} is an installed program, whose version is not read")
    if not entry.path and launch.kind != "inline":
        raise UnknownCode(f"{entry.name} is not below this folder")
    search = _search_path(
        entry.folder,
        environ,
        cwd,
        *([root, os.path.join(root, "src")] if state else []),
        *editable_folders(launch, cwd, environ),
    )
    if launch.kind == "inline":
        python = launch.family == "python"
        name = f"{_INLINE}.py" if python else _INLINE
        files = import_closure_of_text(
            launch.entry,
            name=name,
            python=python,
            root=root,
            search=search,
            cwd=cwd,
            budget=budget,
        )
    else:
        files = import_closure([entry.path], root=root, search=search, cwd=cwd, budget=budget)
    if (
        state is None
        and launch.family not in ("python", "R")
        and len(files.files) == 1
        and _is_command_list(launch, entry)
    ):
        raise UnknownCode(f"{entry.name} starts unknown programs")
    return files


def _is_command_list(launch: Launch, entry: _Entry) -> bool:
    """Return whether a program of one file is likely to be a list of commands."""
    return (
        launch.family == "shell"
        or entry.path.endswith((".sh", ".bash"))
        or launch.kind == "program"
    )


def _code_part(files: Closure, state: Optional[GitState]) -> Dict[str, Any]:
    content = {
        name.encode("utf-8", "surrogateescape"): file_content.replace(b"\r\n", b"\n")
        for name, file_content in files.files.items()
    }
    if state is None:
        digest = hashlib.sha256(b"labcarbon imported code\0")
        for name, file_content in sorted(content.items()):
            digest.update(b"%d:%s %d:%s\n" % (len(name), name, len(file_content), file_content))
        return {"state": "verified", "hash": digest.hexdigest()}
    has_untracked = any(
        name not in state.files and not name.endswith(b".ipynb") for name in content
    )
    return {
        "state": "verified",
        "hash": state.hash(content, _names_below(state.root, files.omitted)),
        "commit": state.commit,
        "dirty": state.dirty or has_untracked,
    }


def _names_below(root: str, paths: Collection[str]) -> Set[bytes]:
    """Return paths as git names them. Its root may be a link."""
    real_root = os.path.realpath(root)
    return {os.fsencode(os.path.relpath(path, real_root)) for path in paths}


def _is_text(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
