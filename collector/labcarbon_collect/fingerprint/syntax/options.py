"""Options that code declares, and the constants in their declarations. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Union

from labcarbon_collect.lc1 import is_canonical, is_number

NO_DEFAULT = object()  # a default that is missing or no constant
_FLAG_ACTIONS = frozenset(
    ("store_true", "store_false", "count", "store_const", "append_const", "help", "version")
)
_LAST_WINS = frozenset(("store", "store_true", "store_false", "store_const"))


@dataclass(frozen=True)
class Option:
    """An option of a command line. ``name``: its name without dashes. ``values``: how many words it
    takes, an integer, ``+``, ``*`` or ``?``. ``default``: its constant default, or NO_DEFAULT.
    ``flag``: its value without a word. ``repeats``: each occurrence counts, not only the last one.
    ``is_text``: its value is no number for the program.
    """

    name: str
    values: Union[int, str] = 1
    default: Any = NO_DEFAULT
    flag: Any = True
    repeats: bool = False
    is_text: bool = field(default=False, compare=False)

    def as_text(self, word: str) -> str:
        """Return a word so that an option without a type stays text: ``1.10`` is not ``1.1``."""
        return f'"{word}"' if self.is_text and is_number(word) and not is_canonical(word) else word


def constant(node: Optional[ast.AST]) -> Any:
    """Return the value of a constant expression, else NO_DEFAULT."""
    if node is None:
        return NO_DEFAULT
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return NO_DEFAULT


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def value_count(keywords: Dict[str, Any], *, is_click: bool) -> Union[int, str]:
    if is_click and any(constant(keywords.get(name)) is True for name in ("is_flag", "count")):
        return 0
    if constant(keywords.get("action")) in _FLAG_ACTIONS or has_negative(keywords):
        return 0
    count = constant(keywords.get("nargs"))
    return count if isinstance(count, (int, str)) and not isinstance(count, bool) else 1


def flag_value(keywords: Dict[str, Any]) -> Any:
    """Return the value of an option without a word. One that the code computes is the text."""
    if constant(keywords.get("action")) == "store_false":
        return False
    given = keywords.get("const", keywords.get("flag_value"))
    if given is None:
        return True
    value = constant(given)
    return ast.dump(given)[:200] if value is NO_DEFAULT else value


def repeats(keywords: Dict[str, Any], *, is_click: bool) -> bool:
    """Return whether each occurrence of an option counts."""
    if is_click:
        return "multiple" in keywords or "count" in keywords or "callback" in keywords
    return "action" in keywords and not (
        constant(keywords["action"]) in _LAST_WINS or has_negative(keywords)
    )


def is_text_option(keywords: Dict[str, ast.expr], *, is_argparse: bool) -> bool:
    """Return whether an option has the type text. argparse converts nothing without a type."""
    if "type" in keywords:
        return name_of(keywords["type"]) == "str"
    default = constant(keywords.get("default"))
    is_numeric = isinstance(default, (int, float))
    return is_argparse and "action" not in keywords and not is_numeric


def has_negative(keywords: Dict[str, Any]) -> bool:
    return "action" in keywords and name_of(keywords["action"]) == "BooleanOptionalAction"
