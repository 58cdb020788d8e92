"""The state of code in git: the tree of HEAD and the changes to it, file by file.

Only plumbing commands are used (``ls-tree``, ``diff-index``), which start no text conversion,
external diff or hook. Other programs that a ``.git/config`` could start are disabled, filters by
their names, because git passes changed files through them. This module reads changed files itself.
Equal files have equal hashes, committed or not: an amend, a rebase or a merge changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from typing import Collection, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.files.read_limits import Budget, BudgetExceeded, read_regular_file

# Disabled settings with which git would start programs or fetch. Protocols: a partial clone fetches
# missing objects.
_SAFE_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.sshCommand=false",
    "core.fileMode=false", "diff.external=", "core.untrackedCache=false", "protocol.allow=never",
    "submodule.recurse=false", "core.pager=cat",
)  # fmt: skip
_ALLOWED_VARIABLES = ("GIT_CONFIG", "GIT_CEILING")
_SAFE_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C",
}  # fmt: skip
_PLAIN_FILTER = re.compile(r"^[\w.-]+$")
_MAX_CHANGED_BYTES, _MAX_CHANGED_FILES, _MAX_DEPTH, _MAX_OUTPUT_BYTES = (
    64 * 1024 * 1024,
    20_000,
    4,
    256 * 1024 * 1024,
)
_LINK, _SUBMODULE = b"120000", b"160000"


class GitUnavailable(Exception):
    """There is no usable git repository."""


@dataclass
class GitState:
    """The files of a working tree as git stores them: path → mode and object name."""

    root: str
    commit: str
    files: Dict[bytes, bytes] = field(default_factory=dict)
    dirty: bool = False

    def hash(self, untracked: Mapping[bytes, bytes], omitted: Collection[bytes] = ()) -> str:
        """Return SHA-256 over all files. ``untracked`` (path → content) counts as if git tracked
        it. ``omitted``: paths of files that count as parameters.
        """
        width = len(self.commit)
        added = {
            path: blob(content, width)
            for path, content in untracked.items()
            if path not in self.files
        }
        digest = hashlib.sha256(b"labcarbon code\0")
        for path, content in sorted({**self.files, **added}.items()):
            if path in omitted:
                continue
            digest.update(b"%d:%s %s\n" % (len(path), path, content))
        return digest.hexdigest()


class _Git:
    """Git in one folder, without any program that its configuration could start."""

    def __init__(self, folder: str, environ: Mapping[str, str], budget: Budget) -> None:
        self.folder, self._budget = folder, budget
        self._settings = list(_SAFE_SETTINGS)
        inherited = {
            name: text
            for name, text in environ.items()
            if not name.startswith("GIT_") or name.startswith(_ALLOWED_VARIABLES)
        }
        self._environ = {**inherited, **_SAFE_ENVIRONMENT}

    def __call__(self, *arguments: str, allowed_codes: Tuple[int, ...] = (0,)) -> bytes:
        """Return the output. Raises GitUnavailable for other exit codes than ``allowed_codes``,
        BudgetExceeded after the time limit.
        """
        self._budget.check()
        settings = [argument for setting in self._settings for argument in ("-c", setting)]
        try:
            completed = subprocess.run(
                ["git", *settings, "-C", self.folder, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=max(0.01, self._budget.remaining_s),
                env=self._environ,
            )
        except subprocess.TimeoutExpired as error:
            raise BudgetExceeded(f"git exceeded {self._budget.seconds:g} s") from error
        except OSError as error:
            raise GitUnavailable("git cannot be started") from error
        if completed.returncode not in allowed_codes or len(completed.stdout) > _MAX_OUTPUT_BYTES:
            raise GitUnavailable(
                completed.stderr[:200].decode("utf-8", "replace").strip() or "git failed"
            )
        return completed.stdout

    def disable_filters(self) -> None:
        """Disable all filters by an empty command. Raises GitUnavailable for a name that the
        command line cannot express.
        """
        names = self(
            "config", "--null", "--name-only", "--get-regexp", r"^filter\.", allowed_codes=(0, 1)
        ).split(b"\0")
        filters = {
            name.partition(b".")[2].rpartition(b".")[0].decode("utf-8", "replace")
            for name in names
            if name
        }
        for filter_name in sorted(filters):
            if not _PLAIN_FILTER.match(filter_name):
                raise GitUnavailable(f"the configuration has a filter {filter_name[:40]!r}")
            self._settings += [
                f"filter.{filter_name}.{key}"
                for key in ("clean=", "smudge=", "process=", "required=false")
            ]


def git_state(
    folder: str, environ: Mapping[str, str], budget: Budget, *, depth: int = 0
) -> GitState:
    """Return the state of the repository of ``folder``.

    Raises GitUnavailable, BudgetExceeded (also above 64 MiB of changes), and OSError if a changed
    file cannot be read.
    """
    git = _Git(folder, environ, budget)
    lines = git("rev-parse", "--show-toplevel", "HEAD").split(b"\n")
    if len(lines) < 2 or not lines[1]:
        raise GitUnavailable("the repository has no commit")
    state = GitState(os.fsdecode(lines[0]), lines[1].decode("ascii", "replace"))
    git.folder = state.root
    submodules = _read_tree(state, git)
    _apply_changes(state, git, budget)
    for path in submodules:
        if path in state.files:
            state.files[path] = _submodule(state, path, environ, budget, depth)
    for path in [path for path in state.files if path.endswith(b".ipynb")]:
        del state.files[path]  # notebooks are never imported; an executed one counts by its cells
    return state


def blob(content: bytes, width: int) -> bytes:
    """Return git's name of a content, in repositories whose names have ``width`` digits."""
    kind = hashlib.sha256 if width == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(content) + content).hexdigest().encode()


def _read_tree(state: GitState, git: _Git) -> List[bytes]:
    """Read HEAD's files. Returns the paths of submodules."""
    submodules = []
    for row in git("ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0"):
        attributes, _, path = row.partition(b"\t")
        if path:
            mode, _, name = attributes.split(b" ", 2)
            state.files[path] = _content(mode, name)
            if mode == _SUBMODULE:
                submodules.append(path)
    return submodules


def _apply_changes(state: GitState, git: _Git, budget: Budget) -> None:
    git.disable_filters()
    rows = git(
        "diff-index",
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
        "--ignore-submodules=all",
        "HEAD",
    ).split(b"\0")
    if len(rows) // 2 > _MAX_CHANGED_FILES:
        raise BudgetExceeded(f"more than {_MAX_CHANGED_FILES} files differ from HEAD")
    changes = [
        (attributes.lstrip(b":").split(b" "), path)
        for attributes, path in zip(rows[::2], rows[1::2])
    ]
    changes += [([b"", b"", _object_name(state, path)], path) for path in _unwatched(state, git)]
    remaining_bytes = _MAX_CHANGED_BYTES
    for before, path in changes:
        budget.check()
        if path.endswith(b".ipynb") or _SUBMODULE in before[:2]:
            continue
        content, byte_count = _read_changed(
            state, path, before[2].decode("ascii", "replace"), remaining_bytes
        )
        remaining_bytes -= byte_count
        if content == state.files.get(path):
            continue
        state.dirty = True
        if content is None:
            state.files.pop(path, None)
        else:
            state.files[path] = content


def _unwatched(state: GitState, git: _Git) -> List[bytes]:
    """Return existing files whose changes git ignores: assume-unchanged and skip-worktree."""
    rows = git("ls-files", "-v", "-z").split(b"\0")
    paths = [row[2:] for row in rows if row[:1].islower() or row[:1] == b"S"]
    return [
        path
        for path in paths[:_MAX_CHANGED_FILES]
        if path in state.files and os.path.lexists(os.path.join(os.fsencode(state.root), path))
    ]


def _object_name(state: GitState, path: bytes) -> bytes:
    return state.files[path].rpartition(b" ")[2]


def _read_changed(
    state: GitState, path: bytes, before: str, max_bytes: int
) -> Tuple[Optional[bytes], int]:
    """Return the entry of a file in the working tree and the bytes read. The entry of a deleted
    file is None.

    A file that differs from HEAD only in line endings, or whose content is in large-file storage,
    has the entry of HEAD.
    """
    full_path = os.path.join(os.fsencode(state.root), path)
    try:
        status = os.lstat(full_path)
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    width = len(state.commit)
    if stat.S_ISLNK(status.st_mode):
        return _content(_LINK, blob(os.readlink(full_path), width)), 0
    if not stat.S_ISREG(status.st_mode):
        return None, 0
    content = read_regular_file(full_path, max_bytes)
    names = [
        blob(variant, width)
        for variant in (content, content.replace(b"\r\n", b"\n"), _lfs_pointer(content))
    ]
    name = before.encode() if before.encode() in names else names[0]
    return _content(b"100644", name), len(content)


def _lfs_pointer(content: bytes) -> bytes:
    """Return the pointer that Git LFS stores in the tree instead of a content."""
    digest = hashlib.sha256(content).hexdigest()
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    ).encode()


def _submodule(
    state: GitState, path: bytes, environ: Mapping[str, str], budget: Budget, depth: int
) -> bytes:
    """Return a submodule's entry by its files if it is checked out, else by its commit."""
    folder = os.fsdecode(os.path.join(os.fsencode(state.root), path))
    if depth >= _MAX_DEPTH or not os.path.lexists(os.path.join(folder, ".git")):
        return state.files[path]
    try:
        inner = git_state(folder, environ, budget, depth=depth + 1)
    except GitUnavailable:
        return state.files[path]
    state.dirty = state.dirty or inner.dirty
    return b"module " + inner.hash({}).encode()


def _content(mode: bytes, name: bytes) -> bytes:
    kind = {_LINK: b"link ", _SUBMODULE: b"commit "}.get(mode, b"")
    return kind + name
