"""Inputs of a program that neither its command nor its configuration shows: constant paths, paths
beside a given one, standard input, seeds that count as none. Pure.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import AbstractSet, Dict, Optional, Sequence, Set

from labcarbon_collect.fingerprint.syntax.calls import Calls, Param
from labcarbon_collect.fingerprint.syntax.environ_uses import Parents
from labcarbon_collect.fingerprint.syntax.path_uses import path_uses, stronger_use

_MAX_PATHS = 20_000
_SEED = re.compile(r"seed|\w+_seed|seed_\w+", re.IGNORECASE)
_STDIN_PATHS = frozenset(("/dev/stdin", "/dev/fd/0"))


@dataclass
class InputFacts:
    """Facts of all files of a program.

    ``paths``: constants that may be paths, with their use. ``beside``: names of paths from which
    the code makes another path. ``reads_stdin``; ``zero_is_no_seed``: a seed of 0 is not used.
    ``calls``: how names reach the parameters of functions. ``used``: for each kind of use, the
    parameters so used.
    """

    paths: Dict[str, str] = field(default_factory=dict)
    beside: Set[str] = field(default_factory=set)
    reads_stdin: bool = False
    zero_is_no_seed: bool = False
    computed_modules: bool = False
    computed_folders: bool = False
    calls: Calls = field(default_factory=Calls)
    used: Dict[str, Set[Param]] = field(default_factory=dict)

    def add(self, nodes: Sequence[ast.AST], parents: Parents) -> None:
        """Add the facts of one file."""
        for text, use in path_uses(nodes, parents).items():
            self.add_path(text, use)
        for node in nodes:
            self.reads_stdin |= _reads_stdin(node)
            self.zero_is_no_seed |= _tests_seed(node)

    def add_path(self, text: str, use: str) -> None:
        """Add a constant with its strongest use."""
        if len(self.paths) < _MAX_PATHS:
            self.paths[text] = stronger_use(use, self.paths.get(text))

    def add_use(self, kind: str, names: Set[str], scope: AbstractSet[Param]) -> None:
        """Add the parameters of a function that an expression of some kind uses."""
        self.used.setdefault(kind, set()).update(param for param in scope if param[1] in names)


def _reads_stdin(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "stdin" and getattr(node.value, "id", "") == "sys"
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in _STDIN_PATHS
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "id", "")
    if name == "open" and node.args:
        first = node.args[0]
        return isinstance(first, ast.Constant) and first.value == 0 and first.value is not False
    return name in ("input", "raw_input") or _is_fileinput(node.func)


def _is_fileinput(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "fileinput"


def _tests_seed(node: ast.AST) -> bool:
    """Return whether a seed is tested for its truth: ``if seed:``, ``seed or time()``."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return _is_seed(node.test)
    if isinstance(node, ast.BoolOp):
        return any(map(_is_seed, node.values))
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and _is_seed(node.operand)


def _is_seed(node: Optional[ast.AST]) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = str(node.slice.value)
    else:
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return _SEED.fullmatch(name) is not None
