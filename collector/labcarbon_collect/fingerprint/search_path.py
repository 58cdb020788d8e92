"""Folders in which a program's Python finds modules beside its script: what the code adds to
``sys.path``, and packages that are installed in editable form.
"""

from __future__ import annotations

import ast
import os
from contextlib import suppress
from pathlib import Path
from typing import Callable, Iterator, List, Mapping, Optional, Sequence

from labcarbon_collect.fingerprint.environment import find_interpreter
from labcarbon_collect.fingerprint.launchers import Launch

_ADDERS = frozenset(("insert", "append", "extend", "addsitedir"))
_SAME = frozenset(("str", "Path", "PurePath", "abspath", "realpath", "normpath", "resolve",
                   "absolute", "fspath", "as_posix"))  # fmt: skip
_MAX_FILES, _MAX_BYTES, _MAX_DEPTH = 200, 256 * 1024, 40
Value = Callable[[ast.AST], Optional[str]]


def added_folders(nodes: Sequence[ast.AST], path: str, cwd: str) -> Iterator[Optional[str]]:
    """Yield each folder that a file adds to ``sys.path``; None for one that it computes from
    something unknown.
    """
    names = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_path = isinstance(node.func.value, ast.Attribute) and _is_sys_path(node.func.value)
            if (
                node.func.attr in _ADDERS
                and node.args
                and (is_path or node.func.attr == "addsitedir")
            ):
                yield _folder(node.args[-1], path, cwd, names, 0)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(map(_is_sys_path, targets)):
                parts = node.value.elts if isinstance(node.value, ast.List) else [node.value]
                for part in parts:
                    if not isinstance(part, ast.Starred):
                        yield _folder(part, path, cwd, names, 0)


def _is_sys_path(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


def _folder(
    node: ast.AST, path: str, cwd: str, names: Mapping[str, ast.AST], depth: int
) -> Optional[str]:
    """Return the value of an expression that is a path, or None."""
    if depth > _MAX_DEPTH:
        return None

    def value(inner: ast.AST) -> Optional[str]:
        return _folder(inner, path, cwd, names, depth + 1)

    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return os.path.join(cwd, node.value)
    if isinstance(node, ast.Name):
        if node.id == "__file__":
            return path
        return value(names[node.id]) if node.id in names else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _joined(value(node.left), [node.right])
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        inner = value(node.value)
        return None if inner is None else os.path.dirname(inner)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        inner = value(node.value.value)
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if node.value.attr == "parents" and inner is not None and isinstance(place, int):
            parents = Path(inner).parents
            return str(parents[place]) if 0 <= place < len(parents) else None
        return None
    if isinstance(node, ast.Call):
        return _call(node, value, cwd)
    return None


def _call(node: ast.Call, value: Value, cwd: str) -> Optional[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ("getcwd", "cwd"):
        return cwd
    if name in _SAME:
        inner = value(node.args[0]) if node.args else value(owner) if owner is not None else None
        return None if inner is None else os.path.normpath(inner)
    if name == "dirname" and node.args:
        inner = value(node.args[0])
        return None if inner is None else os.path.dirname(inner)
    if name == "expanduser" and node.args and isinstance(node.args[0], ast.Constant):
        return os.path.expanduser(str(node.args[0].value))
    if name == "join" and node.args:
        return _joined(value(node.args[0]), node.args[1:])
    return None


def _joined(first: Optional[str], rest: Sequence[ast.AST]) -> Optional[str]:
    parts: List[str] = []
    for node in rest:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
        elif isinstance(node, ast.Attribute) and node.attr == "pardir":
            parts.append(os.pardir)
        else:
            return None
    return None if first is None else os.path.normpath(os.path.join(first, *parts))


def editable_folders(launch: Launch, cwd: str, environ: Mapping[str, str]) -> List[str]:
    """Return the folders of packages that are installed in editable form in the program's Python:
    those that its ``.pth`` files name, and those of setuptools' finders.
    """
    if launch.family != "python":
        return []
    interpreter = find_interpreter(launch.interpreter or "python3", cwd, environ)
    if interpreter is None:
        return []
    folders: List[str] = []
    for site in sorted(interpreter.parent.parent.glob("lib/python3*/site-packages")):
        with suppress(OSError):
            for path in sorted(site.iterdir())[:5000]:
                if path.suffix == ".pth":
                    folders += _pth_folders(path)
                elif path.name.startswith("__editable__") and path.suffix == ".py":
                    folders += _mapped_folders(path)
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)][:_MAX_FILES]


def _pth_folders(path: Path) -> Iterator[str]:
    for line in _text(path).splitlines():
        if line.strip() and not line.startswith(("#", "import ", "import\t")):
            yield os.path.normpath(os.path.join(path.parent, line.strip()))


def _mapped_folders(path: Path) -> Iterator[str]:
    """Yield the folders above the packages of ``MAPPING = {"package": "/path/package"}``."""
    for statement in _parsed(_text(path)):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(
            statement.value, ast.Dict
        ):
            for value in statement.value.values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield os.path.dirname(value.value)


def _parsed(text: str) -> List[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
