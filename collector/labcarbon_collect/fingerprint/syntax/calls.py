"""How names and texts reach the parameters of a program's functions, across its files. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, Iterator, List, Sequence, Set, Tuple, Union

from labcarbon_collect.fingerprint.syntax.environ_uses import Parents

_MAX_CALLS, _ROUNDS = 20_000, 5
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Param = Tuple[str, str]  # function, parameter


@dataclass(frozen=True)
class Call:
    """One argument of a call: the names and texts of its expression. ``scope``: parameters of the
    function that contains the call.
    """

    function: str
    position: int
    keyword: str
    names: FrozenSet[str]
    texts: FrozenSet[str]
    scope: FrozenSet[Param]


@dataclass
class Calls:
    """Functions and calls of all files. A class has the parameters of its ``__init__``."""

    params: Dict[str, List[str]] = field(default_factory=dict)
    calls: List[Call] = field(default_factory=list)

    def add_functions(self, nodes: Sequence[ast.AST], parents: Parents) -> None:
        """Add the functions of a file by their names."""
        for node in nodes:
            if isinstance(node, _FUNCTIONS):
                for name in _called_names(node, parents):
                    known = self.params.setdefault(name, [])
                    own = _params(node)
                    self.params[name] = own if len(own) > len(known) else known

    def add(self, call: Call) -> None:
        """Add an argument of a call."""
        if len(self.calls) < _MAX_CALLS:
            self.calls.append(call)

    def sources(self, used: Set[Param]) -> Tuple[Set[str], Set[str]]:
        """Return the names and texts that reach the used parameters, through other functions
        too.
        """
        reached = set(used)
        names: Set[str] = set()
        texts: Set[str] = set()
        for _ in range(_ROUNDS):
            before = len(reached)
            for call in self.calls:
                if self._param(call) in reached:
                    names |= call.names
                    texts |= call.texts
                    reached |= {param for param in call.scope if param[1] in call.names}
            if len(reached) == before:
                break
        return names, texts

    def _param(self, call: Call) -> Param:
        if call.keyword:
            return call.function, call.keyword
        params = self.params.get(call.function, [])
        return call.function, params[call.position] if call.position < len(params) else ""


def scopes_of(nodes: Sequence[ast.AST], parents: Parents) -> Dict[int, FrozenSet[Param]]:
    """Return by the id of each node which parameters it can use: those of its functions, and those
    of its class' ``__init__``. ``nodes``: parents before their children.
    """
    scopes: Dict[int, FrozenSet[Param]] = {}
    for node in nodes:
        scope = scopes.get(id(parents.get(id(node))), frozenset())
        if isinstance(node, _FUNCTIONS):
            scope |= {
                (name, param) for name in _called_names(node, parents) for param in _params(node)
            }
        elif isinstance(node, ast.ClassDef):
            scope |= {
                (node.name, param)
                for method in node.body
                if isinstance(method, _FUNCTIONS) and method.name == "__init__"
                for param in _params(method)
            }
        scopes[id(node)] = scope
    return scopes


def arguments_of(node: ast.Call) -> Iterator[Tuple[int, str, ast.AST]]:
    """Yield (position, keyword, expression) of each argument."""
    for position, argument in enumerate(node.args):
        yield position, "", argument
    for keyword in node.keywords:
        if keyword.arg:
            yield -1, keyword.arg, keyword.value


def _called_names(node: Function, parents: Parents) -> Iterator[str]:
    parent = parents.get(id(node))
    if node.name == "__init__" and isinstance(parent, ast.ClassDef):
        yield parent.name
    else:
        yield node.name


def _params(node: Function) -> List[str]:
    arguments = node.args
    names = [part.arg for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names
