"""The files that a program reads in as code: what its entry imports, as far as that lies where the program does.

Found by reading, never by importing. Also counted: native sources and configuration named by a plain text in the code, all
of a package that imports by names made up at run time, and Hydra's folder beside the script that names it.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from labcarbon_collect.files.budget import Budget, BudgetExceeded, read_regular_file
from labcarbon_collect.fingerprint.notebooks import NotANotebook, code_of, without_magics

_MOST_FILES, _MOST_BYTES, _MOST_FILE_BYTES = 5000, 64 * 1024 * 1024, 16 * 1024 * 1024
_NAMED = re.compile(r"^[\w./ -]{1,200}\.(cu|cuh|c|cc|cpp|h|hpp|pyx|pxd|ya?ml|toml)$")
_SHELL_NAMED = re.compile(r"[\w./+-]+\.(?:py|sh|bash|R|r|jl|pl|ipynb|ya?ml|toml)\b")
_SHELL_MODULE = re.compile(r"\s-m[ =]([A-Za-z_][\w.]*)")
_CONFIG_SUFFIXES = (".yaml", ".yml")
_IMPORTERS = frozenset(("import_module", "__import__"))


@dataclass
class Closure:
    """Files by their name below the root, with their content; notebooks by the code in them."""

    root: str
    files: Dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The sum of their sizes."""
        return sum(len(content) for content in self.files.values())


class _Walk:
    def __init__(self, root: str, search: Sequence[str], budget: Budget) -> None:
        self.closure, self._search, self._budget = Closure(os.path.realpath(root)), list(search), budget
        self._left = _MOST_BYTES
        self._waiting: List[str] = []
        self._seen: Set[str] = set()

    def follow(self, entries: Sequence[str]) -> Closure:
        for entry in entries:
            self._add(entry)
        while self._waiting:
            self._budget.check()
            self._read(self._waiting.pop())
        return self.closure

    def _add(self, path: str) -> None:
        real = os.path.realpath(path)
        if real in self._seen:
            return
        if len(self._seen) >= _MOST_FILES:
            raise BudgetExceeded(f"the code is more than {_MOST_FILES} files")
        self._seen.add(real)
        self._waiting.append(real)

    def _read(self, path: str) -> None:
        content = read_regular_file(path, min(_MOST_FILE_BYTES, self._left))
        self._left -= len(content)
        if path.endswith(".ipynb"):
            with suppress(NotANotebook):
                content = code_of(content).encode("utf-8", "replace")
        self.closure.files[self._name(path)] = content
        if path.endswith((".py", ".pyw", ".ipynb")):
            self.python(path, content.decode("utf-8-sig", "replace"))
        elif path.endswith((".sh", ".bash")) or content.startswith(b"#!"):
            self.words(path, content.decode("utf-8", "replace"))

    def _name(self, path: str) -> str:
        """The path below the root; what lies elsewhere begins with ``../``, below where it was looked for."""
        for folder in (self.closure.root, *(os.path.realpath(each) for each in self._search)):
            if path.startswith(folder.rstrip(os.sep) + os.sep):
                below = os.path.relpath(path, folder)
                return below if folder == self.closure.root else f"../{below}"
        return f"../{os.path.basename(path)}"

    def python(self, path: str, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(without_magics(text) if path.endswith(".ipynb") else text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        folder = os.path.dirname(path)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for module, level in _imported(node):
                    self._module(module, level, folder)
            elif isinstance(node, ast.Call):
                self._call(node, folder)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED.match(node.value):
                self._beside(node.value, folder)

    def _call(self, node: ast.Call, folder: str) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _IMPORTERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                bare = first.value.lstrip(".")
                self._module(bare, len(first.value) - len(bare), folder)
            else:
                self._all_of(folder, (".py",))
        for keyword in node.keywords:
            if keyword.arg == "config_path" and isinstance(keyword.value, ast.Constant):
                self._all_of(os.path.join(folder, str(keyword.value.value)), _CONFIG_SUFFIXES)

    def _module(self, module: str, level: int, folder: str) -> None:
        """Add a module's file and those of the packages it lies in; nothing where it is not ours."""
        if level:
            places = [os.path.normpath(os.path.join(folder, *[".."] * (level - 1)))]
        else:
            places = [folder, *self._search]
        parts = module.split(".") if module else []
        for place in places:
            found = list(_module_files(place, parts))
            if found:
                for path in found:
                    self._add(path)
                return

    def _beside(self, name: str, folder: str) -> None:
        for place in (folder, *self._search):
            path = os.path.join(place, name)
            if os.path.isfile(path):
                self._add(path)
                return

    def _all_of(self, folder: str, suffixes: Tuple[str, ...]) -> None:
        for place, folders, names in os.walk(folder):
            self._budget.check()
            folders[:] = [each for each in folders if not each.startswith(".") and each != "__pycache__"]
            for name in names:
                if name.endswith(suffixes):
                    self._add(os.path.join(place, name))

    def words(self, path: str, text: str) -> None:
        """Files and modules that a shell script names."""
        for word in _SHELL_NAMED.findall(text):
            self._beside(word, os.path.dirname(path))
        for module in _SHELL_MODULE.findall(text):
            found = module_file(module, self._search)
            if found:
                self._add(found)


def closure(entries: Sequence[str], *, root: str, search: Sequence[str], budget: Budget) -> Closure:
    """The files that ``entries`` come to. ``search``: where modules are looked for, as ``sys.path`` begins.

    Raises OSError for a file that cannot be read, OutOfBudget for too much of it.
    """
    return _Walk(root, search, budget).follow(entries)


def closure_of_text(text: str, *, name: str, python: bool, root: str, search: Sequence[str], budget: Budget) -> Closure:
    """The same for a program given on the command line, as ``name``."""
    walk = _Walk(root, search, budget)
    walk.closure.files[name] = text.encode("utf-8", "surrogateescape")
    (walk.python if python else walk.words)(os.path.join(root, name), text)
    return walk.follow(())


def module_file(module: str, search: Sequence[str]) -> Optional[str]:
    """The file that ``python -m module`` runs, where it lies in ``search``."""
    for place in search:
        stem = os.path.join(place, *module.split("."))
        for path in (stem + ".py", os.path.join(stem, "__main__.py")):
            if os.path.isfile(path):
                return path
    return None


def _imported(node: ast.AST) -> Iterator[Tuple[str, int]]:
    if isinstance(node, ast.Import):
        for each in node.names:
            yield each.name, 0
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        yield base, node.level
        for each in node.names:
            if each.name != "*":
                yield f"{base}.{each.name}" if base else each.name, node.level


def _module_files(place: str, parts: Sequence[str]) -> Iterator[str]:
    """``__init__`` of each package on the way, and the module itself."""
    folder = place
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
