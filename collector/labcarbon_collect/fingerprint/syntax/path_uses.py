"""What code does with the paths in it: constants that it may read, and paths that it computes from
others. Pure.
"""

from __future__ import annotations

import ast
import re
from typing import Dict, Optional, Sequence

from labcarbon_collect.fingerprint.syntax.environ_uses import Parents

WRITTEN, NEUTRAL, READ, OPENED = "written", "neutral", "read", "opened"
_STRENGTH = (NEUTRAL, WRITTEN, READ, OPENED)
_PATH_TEXT = re.compile(r"^(?!\.{0,2}/?$)[^\0\n:<>|\"{}]{1,200}$|^[a-z][a-z0-9+.-]*://\S{1,200}$")
_OPENERS = re.compile(
    r"(load|read|restore|resume)(_\w+)?|open|from_pretrained|genfromtxt|loadtxt|fromfile|memmap|"
    r"i?glob|rglob|listdir|scandir|walk|iterdir|urlopen|urlretrieve|download(_\w+)?"
)
_WORD = re.compile(r"[\w -]+")
# Calls that return a path made of their arguments.
_TRANSPARENT = frozenset(
    ("join", "Path", "PurePath", "str", "abspath", "normpath", "realpath", "expanduser", "fspath",
     "joinpath", "resolve", "absolute", "as_posix", "format", "with_name", "with_suffix", "rstrip")
)  # fmt: skip
_WRITERS = re.compile(
    r"(save|write|dump|export|log)(_\w+)?|to_(?!tensor)\w+|savefig|savetxt|savez\w*|imwrite|"
    r"mkdir|makedirs|rmtree|remove|unlink|touch|rename|SummaryWriter|\w*FileHandler|\w*Logger|"
    r"ModelCheckpoint|getLogger|print|info|debug|warning|error|exception|basicConfig|mkdtemp|"
    r"set_defaults|add_argument|option|argument|add_parser|add_argument_group|DEFINE_\w+"
)
_TESTS = frozenset(("exists", "isfile", "isdir", "is_file", "is_dir", "startswith", "endswith"))
_KEYED = frozenset(
    ("get", "pop", "setdefault", "getattr", "hasattr", "setattr", "getenv", "__magic__")
)
_OUTPUT_NAME = re.compile(
    r"(^|_)(ckpts?|checkpoints?)(_?(dir|folder|root))?$|"
    r"(^|_)(out|output|outputs|log|logs|logging|save|saved|result|results|run|runs|work|tmp|temp|cache|plot|plots|figure|figures|report|reports|export|"
    r"dest|destination|prediction|predictions|pred|preds|metrics|wandb|mlruns|tensorboard|help|"
    r"description|name|title)(_|$)",
    re.IGNORECASE,
)
_PARTS = (
    ast.keyword,
    ast.Attribute,
    ast.BinOp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.List,
    ast.Tuple,
    ast.IfExp,
    ast.BoolOp,
)
_READING = (ast.arguments, ast.Return, ast.For, ast.Starred, ast.Yield)
_WRITE_MODE = re.compile(r"^[wax]")
# Methods and functions that make a path beside another one.
_BESIDE = frozenset(("replace", "with_suffix", "with_name", "with_stem", "dirname", "removesuffix"))
_BESIDE_ATTRIBUTES = frozenset(("parent", "parents"))


def path_uses(nodes: Sequence[ast.AST], parents: Parents) -> Dict[str, str]:
    """Return each constant that may be a path or an address with its strongest use: OPENED, READ
    (also unknown uses), WRITTEN or NEUTRAL.
    """
    names = _name_uses(nodes, parents)
    uses: Dict[str, str] = {}
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _PATH_TEXT.match(node.value)
        ):
            use = _use(node, parents, names)
            if use is not None:
                uses[node.value] = stronger_use(use, uses.get(node.value))
    return uses


def stronger_use(one: str, other: Optional[str]) -> str:
    """Return the stronger one of two uses."""
    return one if other is None or _STRENGTH.index(one) >= _STRENGTH.index(other) else other


def _name_uses(nodes: Sequence[ast.AST], parents: Parents) -> Dict[str, str]:
    """Return the strongest use of each variable."""
    uses: Dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            use = _use(node, parents, {})
            if use is not None:
                uses[node.id] = stronger_use(use, uses.get(node.id))
    return uses


def _use(node: ast.AST, parents: Parents, names: Dict[str, str]) -> Optional[str]:
    """Return the use of a value, or None if it is no path: a key, a comparison, a text."""
    parent = parents.get(id(node))
    while parent is not None and _passes_on(parent, node):
        if isinstance(parent, ast.keyword) and _OUTPUT_NAME.search(parent.arg or ""):
            return WRITTEN
        node, parent = parent, parents.get(id(parent))
    if isinstance(parent, ast.Call):
        if parent.func is not node:
            return _call_use(parent, _name_of(parent.func), node)
        is_method = isinstance(node, ast.Attribute)
        return _call_use(parent, _name_of(node), None) if is_method else None
    if isinstance(parent, ast.Dict):
        return READ if any(value is node for value in parent.values) else None
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return _assigned_use(parent, names)
    return READ if isinstance(parent, _READING) else None


def _passes_on(parent: ast.AST, node: ast.AST) -> bool:
    """Return whether the value of a node is (a part of) that of its parent."""
    if isinstance(parent, ast.Call):
        return _name_of(parent.func) in _TRANSPARENT and (
            parent.func is not node or isinstance(node, ast.Attribute)
        )
    return isinstance(parent, _PARTS)


def _assigned_use(node: ast.AST, names: Dict[str, str]) -> Optional[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    target = targets[0]
    name = _name_of(target) if target is not None else ""
    if _OUTPUT_NAME.search(name):
        return WRITTEN
    if isinstance(target, ast.Name) and name in names:
        return names[name]
    return READ


def _call_use(call: ast.Call, name: str, node: Optional[ast.AST]) -> Optional[str]:
    if name in _KEYED:
        return None
    if name in _TESTS:
        return NEUTRAL
    if name == "open":
        place = 1 if node is not None else 0
        modes = list(call.args[place : place + 1])
        modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
        writes = any(
            isinstance(mode, ast.Constant) and _WRITE_MODE.match(str(mode.value)) for mode in modes
        )
        is_mode = any(mode is node for mode in modes)
        return None if is_mode else WRITTEN if writes else OPENED
    if _WRITERS.fullmatch(name):
        return WRITTEN
    return OPENED if _OPENERS.fullmatch(name) else READ


def path_beside(node: ast.AST) -> Optional[ast.AST]:
    """Return the expression beside whose path a node makes another one, such as the first part of
    ``Path(data).with_suffix(".json")`` and ``data + ".idx"``, or None.
    """
    if isinstance(node, ast.Call) and _name_of(node.func) in _BESIDE:
        return _unless_script(node)
    if isinstance(node, ast.Attribute) and node.attr in _BESIDE_ATTRIBUTES:
        return _unless_script(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_suffix(node.right):
        return node.left
    if isinstance(node, ast.JoinedStr) and _has_suffix(node):
        return node.values[0]
    return None


def _unless_script(node: ast.AST) -> Optional[ast.AST]:
    """Return None for a path beside the script itself."""
    names = (getattr(inner, "id", "") for inner in ast.walk(node))
    return None if "__file__" in names else node


def _is_suffix(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.match(r"[._-]\w|/\.\.", node.value) is not None
    )


def _has_suffix(node: ast.JoinedStr) -> bool:
    return (
        len(node.values) > 1
        and isinstance(node.values[0], ast.FormattedValue)
        and _is_suffix(node.values[1])
    )


def _name_of(node: Optional[ast.AST]) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_word(text: str) -> bool:
    """Return whether a text is a bare word: a name of something else as often as a path."""
    return _WORD.fullmatch(text) is not None
