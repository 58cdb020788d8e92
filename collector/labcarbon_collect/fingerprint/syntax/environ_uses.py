"""How code uses its environment as a whole: aliases of ``os.environ``, iteration over it, and
libraries that read it. Pure.
"""

from __future__ import annotations

import ast
from typing import Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

Parents = Mapping[int, ast.AST]
_ENVIRON, _GETENV = "environ", "getenv"
_NAMED_READS = frozenset(("get", "setdefault", "pop", "__getitem__", "update"))
# Libraries that read variables by names which the code does not show as such.
_LIBRARIES = frozenset(
    ("environs", "decouple", "dynaconf", "pydantic_settings", "everett", "environ", "envparse",
     "prettyconf", "goodconf", "environ_config", "confuse")
)  # fmt: skip
_SETTINGS_CLASS = "BaseSettings"


def parents_of(nodes: Sequence[ast.AST]) -> Dict[int, ast.AST]:
    """Return the parent of each node by the node's id."""
    return {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}


def resolve_aliases(nodes: Sequence[ast.AST]) -> None:
    """Rename variables that hold the environment or a copy of it to ``environ``, and other names of
    ``getenv``. Changes the nodes.
    """
    names = dict(_aliases(nodes))
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]


def _aliases(nodes: Sequence[ast.AST]) -> Iterator[Tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            for alias in node.names:
                if alias.name in (_ENVIRON, _GETENV) and alias.asname:
                    yield alias.asname, alias.name
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                if _holds_environ(node.value):
                    yield target.id, _ENVIRON
                elif isinstance(node.value, ast.Attribute) and node.value.attr == _GETENV:
                    yield target.id, _GETENV


def is_environ(node: Optional[ast.AST]) -> bool:
    """Return whether an expression is ``os.environ``."""
    return (isinstance(node, ast.Attribute) and node.attr == _ENVIRON) or (
        isinstance(node, ast.Name) and node.id == _ENVIRON
    )


def _holds_environ(node: ast.AST) -> bool:
    """Return whether an expression is the environment, or a copy of it."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
            return is_environ(node.func.value)
        is_dict = isinstance(node.func, ast.Name) and node.func.id == "dict"
        return is_dict and bool(node.args) and is_environ(node.args[0])
    if isinstance(node, ast.Dict):
        return any(key is None and is_environ(value) for key, value in zip(node.keys, node.values))
    return is_environ(node)


def reads_by_unknown_name(nodes: Sequence[ast.AST], parents: Parents) -> bool:
    """Return whether variables are read whose names the code does not show: the environment is
    passed on or iterated, or a library reads it.
    """
    return any(
        (is_environ(node) and not _is_known_use(node, parents))
        or _imports_library(node)
        or _is_reflection(node)
        for node in nodes
    )


def _is_known_use(node: ast.AST, parents: Parents) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    if isinstance(parent, ast.Attribute):
        call = parents.get(id(parent))
        if parent.attr in _NAMED_READS:
            return isinstance(call, ast.Call)
        return parent.attr == "copy" and call is not None and _is_stored(call, parents)
    if isinstance(parent, ast.Compare):
        return isinstance(parent.left, ast.Constant)
    if isinstance(parent, (ast.Call, ast.Dict)) and _holds_environ(parent):
        return _is_stored(parent, parents)
    return _is_stored(node, parents)


def _is_stored(node: ast.AST, parents: Parents) -> bool:
    """Return whether a value becomes a variable of its own, or the environment of a program."""
    parent = parents.get(id(node))
    if isinstance(parent, ast.Assign):
        return all(isinstance(target, ast.Name) for target in parent.targets)
    return isinstance(parent, ast.keyword) and parent.arg == "env"


def _imports_library(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in _LIBRARIES for alias in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level:
        module = node.module or ""
        return (
            module.partition(".")[0] in _LIBRARIES - {"pydantic_settings"}
            or module == "starlette.config"
        )
    return False


def _is_reflection(node: ast.AST) -> bool:
    """Return whether ``getattr(os, …)`` reads the environment."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    return (
        node.func.id == "getattr"
        and bool(node.args)
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "os"
    )


def tested_variables(nodes: Sequence[ast.AST]) -> Set[str]:
    """Return the variables of ``"X" in os.environ``, and of the fields of pydantic's settings."""
    names: Set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Compare) and any(map(is_environ, node.comparators)):
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                names.add(node.left.value)
        elif isinstance(node, ast.ClassDef) and any(map(_is_settings, node.bases)):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    names |= {statement.target.id, statement.target.id.upper()}
    return names


def _is_settings(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == _SETTINGS_CLASS
