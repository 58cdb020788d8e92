"""The normal form of code: without comments, docstrings and formatting, one line per statement.
Pure.

It does not use ``ast.dump``, whose output differs between Python versions. Empty fields are left
out, so that fields added by later versions change nothing.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from typing import Any, Iterator, List, Tuple

from labcarbon_collect.fingerprint.notebooks import without_magics

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_IGNORED_FIELDS = frozenset(("ctx", "kind", "type_comment", "type_ignores"))
_SHELL = (".sh", ".bash")
_PREPROCESSED = (".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh")
# Python's parser cannot be interrupted: a longer text would delay the start beyond its time.
MAX_PARSED_CHARS = 512 * 1024
MAX_SHINGLES = 20_000
_LINE_BYTES = 8
_USES_DOCSTRINGS = re.compile(r"\b__doc__\b|\bdocopt\b")
# A line with such a word and a string may contain a secret. A dictionary attack on its 32 bits
# would succeed.
_MAY_BE_SECRET = re.compile(r"pass|pwd|secret|token|key|cred|auth|://", re.IGNORECASE)


def normal_lines(name: str, content: bytes) -> List[str]:
    """Return the normal form of a file: Python and notebooks by their syntax, or their exact lines
    if they are long or invalid; other files without ``#`` lines, which are instructions in C.
    Indentation counts, except in a shell script and C.
    """
    text = content.decode("utf-8-sig", "replace")
    if name.endswith((".py", ".pyw", ".ipynb")):
        if len(text) > MAX_PARSED_CHARS:
            return text.splitlines()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(without_magics(text) if name.endswith(".ipynb") else text)
                return list(
                    _statements(tree, 0, has_docs=_USES_DOCSTRINGS.search(text) is not None)
                )
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text.splitlines()
    if name.endswith(_PREPROCESSED):
        return [line for line in map(str.strip, text.splitlines()) if line]
    strip = str.strip if name.endswith(_SHELL) else str.rstrip
    stripped = (strip(line) for line in text.splitlines())
    return [line for line in stripped if line and not line.lstrip().startswith("#")]


def pack_lines(lines: List[str]) -> bytes:
    """Return eight bytes of SHA-256 per line. The leading byte is 1 if the line may be sent as a
    shingle, else 0.
    """
    rows = []
    for line in lines:
        flag = b"\0" if _MAY_BE_SECRET.search(line) else b"\1"
        rows.append(flag + hashlib.sha256(line.encode("utf-8", "replace")).digest()[:_LINE_BYTES])
    return b"".join(rows)


def normal_hash(files: List[Tuple[str, bytes]]) -> str:
    """Return the hash of all files' packed lines, sorted by name."""
    digest = hashlib.sha256(b"labcarbon normal\0")
    for name, lines in sorted(files):
        name_bytes = name.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%s %d\n" % (len(name_bytes), name_bytes, len(lines)) + lines)
    return digest.hexdigest()


def shingles(files: List[Tuple[str, bytes]]) -> List[str]:
    """Return eight hex digits for each line that may be sent, sorted, at most the smallest 20
    000.
    """
    width = _LINE_BYTES + 1
    unique = {
        lines[offset + 1 : offset + 5].hex()
        for _, lines in files
        for offset in range(0, len(lines), width)
        if lines[offset : offset + 1] == b"\1"
    }
    return sorted(unique)[:MAX_SHINGLES]


def _statements(node: Any, depth: int, *, has_docs: bool = False) -> Iterator[str]:
    """Yield a statement's own line, then those of its blocks, one level deeper. ``has_docs``:
    docstrings count, because the code reads them.
    """
    if not isinstance(node, ast.Module):
        yield f"{depth} {_dump_node(node, top=True)}"
    for field in _BLOCKS:
        block = getattr(node, field, None)
        if not isinstance(block, list) or not block:
            continue
        if field != "body":
            yield f"{depth} {field}"
        statements = (
            block[1:]
            if field == "body"
            and not has_docs
            and isinstance(node, _DOCUMENTED)
            and _is_docstring(block[0])
            else block
        )
        for inner in statements:
            yield from _statements(inner, depth + 1, has_docs=has_docs)


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _dump_node(node: Any, *, top: bool = False) -> str:
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.AST):
        parts = []
        for field in node._fields:
            value = getattr(node, field, None)
            block = top and field in _BLOCKS and isinstance(value, list)
            if not block and field not in _IGNORED_FIELDS and value is not None and value != []:
                parts.append(f"{field}={_dump_node(value)}")
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return "[" + ",".join([_dump_node(item) for item in node]) + "]"
    return repr(node)
