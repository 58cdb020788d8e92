"""Names and texts of Python modules, for scripts/vocabulary.py."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIRECTIVE = re.compile(r"#\s*(?:fmt:|noqa|type:|pragma|!|-\*-)")
_SQL = re.compile(
    r"\b(?:SELECT|INSERT INTO|UPDATE \S+ SET|DELETE FROM|CREATE|ALTER TABLE|DROP|PRAGMA|FROM|WHERE"
    r"|JOIN|AND|OR|ORDER BY|GROUP BY|UNION|EXISTS|BEGIN"
    r"|CASE|WHEN|COALESCE|IS NULL|IS NOT NULL|NULLS|AS \w+)\b"
)
_INTERNAL_PATH = re.compile(
    r"""/(?:[a-z][\w-]*|\{\})(?:[/?#.]|$)|.*(?:href|action|src)=["']?/""", re.DOTALL
)
_PARSER_CALLS = frozenset({
    "ArgumentParser", "add_argument", "add_argument_group", "add_mutually_exclusive_group",
    "add_parser", "add_subparsers",
})  # fmt: skip
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PARSER_TEXTS = frozenset({"help", "description", "epilog", "usage", "title"})


def name_parts(name: str) -> list[str]:
    """Split an identifier at underscores and CamelCase humps."""
    return [part.lower() for part in _PART.findall(name)]


@dataclass(frozen=True)
class Literal:
    """A string in the source; ``kind``: docstring, cli or message."""

    kind: str
    line: int
    text: str

    def is_message(self) -> bool:
        return self.kind == "message" and " " in self.text.strip() and not _SQL.search(self.text)

    def is_internal_path(self) -> bool:
        return self.kind != "docstring" and _INTERNAL_PATH.match(self.text) is not None


class PythonModule:
    """Names and texts of one module, with their lines."""

    def __init__(self, source: str) -> None:
        self._source = source
        tree = ast.parse(source)
        reader = _TreeReader(_parser_description(tree) if "argparse" in source else None)
        reader.visit(tree)
        self._nodes = reader.nodes
        self.literals = reader.literals

    def definitions(self) -> Iterator[tuple[int, str]]:
        for node in self._nodes:
            if isinstance(node, _DEFINITIONS) and not _is_special(node.name):
                yield node.lineno, node.name

    def bindings(self) -> Iterator[tuple[int, str]]:
        for node in self._nodes:
            name = _bound_name(node)
            if name is not None and not _is_special(name):
                yield getattr(node, "lineno", 0), name

    def comments(self) -> Iterator[tuple[int, str]]:
        if "#" not in self._source:
            return
        for token in tokenize.generate_tokens(io.StringIO(self._source).readline):
            if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
                yield token.start[0], token.string

    def post_uses(self) -> Iterator[int]:
        for node in self._nodes:
            if isinstance(node, ast.Attribute) and node.attr == "POST":
                yield node.lineno


def _is_special(name: str) -> bool:
    return name in {"self", "cls", "_"} or (name.startswith("__") and name.endswith("__"))


def _bound_name(node: ast.AST) -> str | None:
    """Return the name that a node of the tree binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
            return name
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            return name
        case ast.alias(name=original, asname=str(name)) if name != original:
            return name
    return None


class _TreeReader(ast.NodeVisitor):
    """Collects the nodes of a tree, and its strings by what they are for."""

    def __init__(self, description: ast.stmt | None) -> None:
        self.nodes: list[ast.AST] = []
        self.literals: list[Literal] = []
        self._kind = "message"
        self._description = description

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.expr_context):
            self.nodes.append(node)
            super().visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in ast.iter_child_nodes(node):
            is_help = (
                node.name == "Command" and isinstance(child, ast.Assign) and _assigns(child, "help")
            )
            self._visit_as("cli" if is_help else self._kind, child)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            self._visit_as("cli" if node is self._description else "docstring", node.value)
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        for child in (node.func, *node.args):
            self.visit(child)
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        for keyword in node.keywords:
            is_help = name in _PARSER_CALLS and keyword.arg in _PARSER_TEXTS
            self._visit_as("cli" if is_help else self._kind, keyword.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.literals.append(Literal(self._kind, node.lineno, node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
        self.literals.append(Literal(self._kind, node.lineno, text))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _visit_as(self, kind: str, node: ast.AST) -> None:
        previous, self._kind = self._kind, kind
        self.visit(node)
        self._kind = previous


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _parser_description(tree: ast.Module) -> ast.stmt | None:
    """Return the docstring of a module if a parser shows it.

    The module passes ``__doc__`` as a description, or a function of it gets a parser.
    """
    names = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "description"
    )
    passed = any(
        isinstance(part, ast.Name) and part.id == "__doc__"
        for node in names
        for part in ast.walk(node)
    )
    annotations = [
        ast.unparse(argument.annotation)
        for function in tree.body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
        for argument in function.args.args
        if argument.annotation is not None
    ]
    is_displayed = passed or any(
        annotation.endswith("ArgumentParser") for annotation in annotations
    )
    return tree.body[0] if is_displayed and tree.body else None
