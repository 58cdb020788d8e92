"""The local code files of a program: its entry and what that imports, as far as it is beside the
program.

Files are read, never imported. Also included: native sources, scripts and configuration files named
by a string in the code, all files of a package with dynamic imports, and Hydra's folder beside its
script.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from labcarbon_collect.files.read_limits import Budget, BudgetExceeded, read_regular_file
from labcarbon_collect.fingerprint.code_facts import CodeFacts
from labcarbon_collect.fingerprint.foreign_code import scan_foreign, scan_shell_inputs
from labcarbon_collect.fingerprint.normalise import MAX_PARSED_CHARS
from labcarbon_collect.fingerprint.notebooks import (
    MAGIC,
    InvalidNotebook,
    notebook_code,
    parameters_cell,
    without_magics,
)
from labcarbon_collect.fingerprint.search_path import added_folders

_MAX_FILES, _MAX_BYTES, _MAX_FILE_BYTES = 5000, 64 * 1024 * 1024, 16 * 1024 * 1024
_MAX_OUTER_FILES = 500  # of a folder of the search path, for imports with a computed name
_FILE_NAME = re.compile(
    r"^[\w./ -]{1,200}\.(cu|cuh|c|cc|cpp|h|hpp|pyx|pxd|py|sh|bash|R|r|jl|pl|ipynb|"
    r"ya?ml|toml|ini|cfg)$"
    r"|^([\w./ -]*/)?\w*(config|settings|params|hparams|args|defaults)\w*\.json$"
)
CONFIG_FILE = re.compile(r"\.(ya?ml|toml|ini|cfg|json)$")
_SHELL_FILE_NAME = re.compile(r"[\w./+-]+\.(?:py|sh|bash|R|r|jl|pl|ipynb|ya?ml|toml)\b")
_SHELL_MODULE = re.compile(r"\s-m[ =]([A-Za-z_][\w.]*)")
_CONFIG_SUFFIXES = (".yaml", ".yml")
_IMPORTERS = frozenset(("import_module", "__import__"))


@dataclass
class Closure:
    """Files by their name below the root, with their content. Notebooks have the code of their
    cells.

    ``paths``: the path of each file. ``config_files``: paths of configuration files that a string
    in the code names. ``omitted``: paths of files that count as parameters, not as code.
    """

    root: str
    files: Dict[str, bytes] = field(default_factory=dict)
    paths: Dict[str, str] = field(default_factory=dict)
    config_files: List[str] = field(default_factory=list)
    omitted: Set[str] = field(default_factory=set)
    facts: CodeFacts = field(default_factory=CodeFacts)

    @property
    def size(self) -> int:
        """The sum of the file sizes."""
        return sum(len(content) for content in self.files.values())


class _ImportWalk:
    def __init__(self, root: str, search: Sequence[str], cwd: str, budget: Budget) -> None:
        self.closure, self._search, self._budget = (
            Closure(os.path.realpath(root)),
            list(search),
            budget,
        )
        self._cwd = cwd
        self._remaining_bytes = _MAX_BYTES
        self._entries: Set[str] = set()
        self._queue: List[str] = []
        self._visited: Set[str] = set()

    def follow(self, entries: Sequence[str]) -> Closure:
        self._entries = {os.path.realpath(entry) for entry in entries}
        for entry in entries:
            self._enqueue(entry)
        while self._queue:
            self._budget.check()
            self._read(self._queue.pop())
        self.closure.facts.finish()
        return self.closure

    def _enqueue(self, path: str) -> None:
        real = os.path.realpath(path)
        if real in self._visited:
            return
        if len(self._visited) >= _MAX_FILES:
            raise BudgetExceeded(f"the code has more than {_MAX_FILES} files")
        self._visited.add(real)
        self._queue.append(real)

    def _read(self, path: str) -> None:
        content = read_regular_file(path, min(_MAX_FILE_BYTES, self._remaining_bytes))
        self._remaining_bytes -= len(content)
        if path.endswith(".ipynb"):
            with suppress(InvalidNotebook):
                self.closure.facts.add_cell(parameters_cell(content))
                content = notebook_code(content).encode("utf-8", "replace")
        name = self._name(path)
        self.closure.files[name], self.closure.paths[name] = content, path
        if path.endswith((".py", ".pyw", ".ipynb")):
            self.scan_python(path, content.decode("utf-8-sig", "replace"))
        elif path.endswith((".sh", ".bash")) or content.startswith(b"#!"):
            self.scan_shell(path, content.decode("utf-8", "replace"))
        else:
            named = scan_foreign(self.closure.facts, path, content.decode("utf-8", "replace"))
            for name in named:
                self._add_named(name, os.path.dirname(path))

    def _name(self, path: str) -> str:
        """Return the path below the root. Other files start with ``../``, below the folder in which
        they were searched.
        """
        for folder in (
            self.closure.root,
            *(os.path.realpath(folder_path) for folder_path in self._search),
        ):
            if path.startswith(folder.rstrip(os.sep) + os.sep):
                relative_path = os.path.relpath(path, folder)
                return relative_path if folder == self.closure.root else f"../{relative_path}"
        return f"../{os.path.basename(path)}"

    def scan_python(self, path: str, text: str) -> None:
        if len(text) > MAX_PARSED_CHARS:
            self.closure.facts.is_incomplete = True
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(without_magics(text) if path.endswith(".ipynb") else text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.closure.facts.is_incomplete = True
            return
        nodes = list(ast.walk(tree))
        self.closure.facts.add(nodes, is_entry=path in self._entries)
        folder = os.path.dirname(path)
        for added in added_folders(nodes, path, self._cwd):
            self._add_search(added)
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for module, level in _imported_modules(node):
                    self._add_module(module, level, folder)
            elif isinstance(node, ast.Call):
                self._add_call(node, folder)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and _FILE_NAME.match(node.value)
            ):
                self._add_named(node.value, folder)

    def _add_search(self, folder: Optional[str]) -> None:
        """Add a folder to the module search path. An unknown one is stated."""
        if folder is None:
            self.closure.facts.inputs.computed_folders = True
        elif folder not in self._search:
            self._search.append(folder)

    def _add_call(self, node: ast.Call, folder: str) -> None:
        self._add_magic(node, folder)
        function_name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if function_name in _IMPORTERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                bare = first.value.lstrip(".")
                self._add_module(bare, len(first.value) - len(bare), folder)
            else:
                self._add_folder(folder, (".py",))
                self._add_outer_folders()
        for keyword in node.keywords:
            if keyword.arg == "config_path" and isinstance(keyword.value, ast.Constant):
                self._add_folder(os.path.join(folder, str(keyword.value.value)), _CONFIG_SUFFIXES)

    def _add_magic(self, node: ast.Call, folder: str) -> None:
        """Add the files that a magic line of a notebook names, such as ``%run helper.py``."""
        if getattr(node.func, "id", "") == MAGIC and isinstance(node.args[0], ast.Constant):
            line = str(node.args[0].value).lstrip("%! ")
            for name in (*scan_shell_inputs(self.closure.facts, line), *line.split()[1:]):
                self._add_named(name, folder)

    def _add_outer_folders(self) -> None:
        """Add all modules of the search path that are outside of the root, for an import with a
        computed name. Too many of them are stated.
        """
        root = self.closure.root + os.sep
        for folder in self._search:
            if f"{os.path.realpath(folder)}{os.sep}".startswith(root):
                continue
            if _has_many_modules(folder):
                self.closure.facts.inputs.computed_modules = True
            else:
                self._add_folder(folder, (".py",))

    def _add_module(self, module: str, level: int, folder: str) -> None:
        """Add a module's file and those of its packages, if it is local."""
        if level:
            search = [os.path.normpath(os.path.join(folder, *[".."] * (level - 1)))]
        else:
            search = [folder, *self._search]
        parts = module.split(".") if module else []
        for folder_path in search:
            paths = list(_module_files(folder_path, parts))
            if paths:
                for path in paths:
                    self._enqueue(path)
                return

    def _add_named(self, name: str, folder: str) -> None:
        for folder_path in (folder, *self._search):
            path = os.path.join(folder_path, name)
            if os.path.isfile(path):
                self._enqueue(path)
                if CONFIG_FILE.search(name):
                    self.closure.config_files.append(os.path.realpath(path))
                return

    def _add_folder(self, folder: str, suffixes: Tuple[str, ...]) -> None:
        for folder_path, folders, names in os.walk(folder):
            self._budget.check()
            folders[:] = [
                name for name in folders if not name.startswith(".") and name != "__pycache__"
            ]
            for name in names:
                if name.endswith(suffixes):
                    self._enqueue(os.path.join(folder_path, name))

    def scan_shell(self, path: str, text: str) -> None:
        """Add the files and modules that a shell script names, and the variables that it reads."""
        self.closure.facts.add_shell(text)
        for name in scan_shell_inputs(self.closure.facts, text):
            self._add_named(name, os.path.dirname(path))
        for name in _SHELL_FILE_NAME.findall(text):
            self._add_named(name, os.path.dirname(path))
        for module in _SHELL_MODULE.findall(text):
            module_path = module_file(module, self._search)
            if module_path:
                self._enqueue(module_path)


def import_closure(
    entries: Sequence[str], *, root: str, search: Sequence[str], cwd: str, budget: Budget
) -> Closure:
    """Return the files that ``entries`` import. ``search``: the module search path, as the start of
    ``sys.path``. ``cwd``: the working folder.

    Raises OSError for an unreadable file, BudgetExceeded for too many or too large files.
    """
    return _ImportWalk(root, search, cwd, budget).follow(entries)


def import_closure_of_text(
    text: str,
    *,
    name: str,
    python: bool,
    root: str,
    search: Sequence[str],
    cwd: str,
    budget: Budget,
) -> Closure:
    """Return the same for a program given on the command line, as ``name``."""
    walk = _ImportWalk(root, search, cwd, budget)
    walk.closure.files[name] = text.encode("utf-8", "surrogateescape")
    (walk.scan_python if python else walk.scan_shell)(os.path.join(root, name), text)
    return walk.follow(())


def module_file(module: str, search: Sequence[str]) -> Optional[str]:
    """Return the file that ``python -m module`` runs, if it is in ``search``."""
    for folder in search:
        stem = os.path.join(folder, *module.split("."))
        for path in (stem + ".py", os.path.join(stem, "__main__.py")):
            if os.path.isfile(path):
                return path
    return None


def _has_many_modules(folder: str) -> bool:
    count = 0
    for _, _, names in os.walk(folder):
        count += len(names)
        if count > _MAX_OUTER_FILES:
            return True
    return False


def _imported_modules(node: ast.AST) -> Iterator[Tuple[str, int]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, 0
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        yield base, node.level
        for alias in node.names:
            if alias.name != "*":
                yield f"{base}.{alias.name}" if base else alias.name, node.level


def _module_files(root: str, parts: Sequence[str]) -> Iterator[str]:
    """Return ``__init__`` of each package on the path, and the module itself."""
    folder = root
    for number, part in enumerate(parts):
        path = os.path.join(folder, part)
        if number == len(parts) - 1 and os.path.isfile(path + ".py"):
            yield path + ".py"
            return
        if not os.path.isdir(path):
            return
        init = os.path.join(path, "__init__.py")
        if os.path.isfile(init):
            yield init
        elif number == 0 and number == len(parts) - 1:
            return
        folder = path
