"""What the code of a program reveals about its settings, found in its syntax. Pure: nothing runs.

Found are options and their defaults, variables that are read, programs that are started, Hydra's
configuration, and names whose values reach a result although such names usually do not: an output
folder that is read, a number of workers that selects rows.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from labcarbon_collect.fingerprint.syntax.calls import Call, arguments_of, scopes_of
from labcarbon_collect.fingerprint.syntax.environ_uses import (
    parents_of,
    reads_by_unknown_name,
    resolve_aliases,
    tested_variables,
)
from labcarbon_collect.fingerprint.syntax.input_facts import InputFacts
from labcarbon_collect.fingerprint.syntax.options import (
    NO_DEFAULT,
    Option,
    constant,
    flag_value,
    has_negative,
    is_text_option,
    name_of,
    repeats,
    value_count,
)
from labcarbon_collect.fingerprint.syntax.path_uses import path_beside

# Functions of a project that pass options on to a parser.
_DECLARERS = frozenset(("add", "arg", "argument", "add_arg", "add_option", "add_opt", "opt"))
_ARGUMENT_KEYWORDS = frozenset(
    ("type", "default", "action", "nargs", "help", "dest", "choices", "required", "metavar")
)
_ENVIRON_METHODS = frozenset(("get", "setdefault", "pop", "__getitem__"))
_DATA_READERS = re.compile(
    r"(load|read|restore|resume)(_\w+)?|open|from_pretrained|genfromtxt|loadtxt|fromfile|memmap"
)
_WRITE_MODE = re.compile(r"^[wax]")
_PREFIX = re.compile(r"^[A-Z][A-Z0-9_]*_$")
_STARTERS = frozenset(
    ("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
)
_OS_STARTERS = frozenset(("system", "popen", "execv", "execvp", "execl", "spawnl", "spawnv"))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
# Keywords of click, typer and ConfigArgParse, and of click and pydantic.
_VARIABLE_KEYWORDS = frozenset(("envvar", "env_var"))
_PREFIX_KEYWORDS = frozenset(("auto_envvar_prefix", "auto_env_var_prefix", "env_prefix"))
_SHELL_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{[#]?([A-Za-z_]\w*))")
_SHELL_INDIRECT = re.compile(r"\$\{!|\beval\s")
_PATH_TEXT = re.compile(r"^(?!\.{0,2}/?$)[\w.~/-][\w./ -]{1,200}$")
_ENV_FILE = re.compile(r"^[\w./ -]{0,200}\.env(\.\w+)?$")
_MAX_NAMES, _MAX_ENV_FILES, _MAX_ORIGINS, _ROUNDS = 5000, 20, 200, 5


@dataclass(frozen=True)
class HydraCall:
    """``hydra.main(config_path=…, config_name=…)`` in the entry script."""

    folder: Optional[str]
    name: Optional[str]


@dataclass
class CodeFacts:
    """Facts of all files of a program.

    ``options``: by the text of the command line (``--lr``, ``-e``); one that is declared in
    different ways has None. ``variables``: environment variables read by a constant name, with
    their constant default. ``variable_prefixes``: of variables read in a loop.
    ``has_computed_variable``: some name is computed. ``computed``: names whose values are used in
    an index or in arithmetic; ``read``: names of paths that are read. ``unknown_programs``: a
    program is started whose name is computed.
    """

    options: Dict[str, Optional[Option]] = field(default_factory=dict)
    variables: Dict[str, Any] = field(default_factory=dict)
    variable_prefixes: Set[str] = field(default_factory=set)
    has_computed_variable: bool = False
    computed: Set[str] = field(default_factory=set)
    read: Set[str] = field(default_factory=set)
    read_texts: Set[str] = field(default_factory=set)
    unknown_programs: bool = False
    is_incomplete: bool = False
    readers: Dict[str, bool] = field(default_factory=dict)
    calls: List[Tuple[str, str, Any]] = field(default_factory=list)
    used_functions: Set[str] = field(default_factory=set)
    env_files: List[str] = field(default_factory=list)
    env_file_wins: bool = False
    sets_defaults: bool = False
    hydra: Optional[HydraCall] = None
    cell: Dict[str, Any] = field(default_factory=dict)
    inputs: InputFacts = field(default_factory=InputFacts)

    def add(self, nodes: Sequence[ast.AST], *, is_entry: bool) -> None:
        """Add the facts of one file. ``nodes``: all nodes of its syntax tree."""
        _FileFacts(self, nodes, is_entry=is_entry).collect()
        for name, variable, default in self.calls:
            if name in self.readers:
                self.add_variable(variable, default if self.readers[name] else NO_DEFAULT)

    def finish(self) -> None:
        """Add the names and texts that reach a use through the parameters of functions. Call it
        after the last file.
        """
        computed, _ = self.inputs.calls.sources(self.inputs.used.get("computed", set()))
        read, texts = self.inputs.calls.sources(self.inputs.used.get("read", set()))
        beside, _ = self.inputs.calls.sources(self.inputs.used.get("beside", set()))
        self.inputs.beside |= beside
        self.computed |= computed
        self.read |= read
        self.read_texts |= texts

    def add_variable(self, name: str, default: Any) -> None:
        """Add a variable that is read. One with several defaults has none."""
        if len(self.variables) < _MAX_NAMES:
            known = self.variables.get(name, default)
            self.variables[name] = default if known == default else NO_DEFAULT

    def add_shell(self, text: str) -> None:
        """Add the variables that a shell script reads."""
        for match in _SHELL_VARIABLE.finditer(text):
            if len(self.variables) >= _MAX_NAMES:
                break
            self.variables[match[1] or match[2]] = NO_DEFAULT
        self.has_computed_variable |= _SHELL_INDIRECT.search(text) is not None

    def add_cell(self, source: str) -> None:
        """Add the defaults of a notebook's cell that is tagged ``parameters``."""
        try:
            statements = ast.parse(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for statement in statements:
            target, value = _single_assignment(statement)
            value_of_cell = constant(value)
            if isinstance(target, ast.Name) and value_of_cell is not NO_DEFAULT:
                self.cell[target.id] = value_of_cell

    @property
    def reads_unknown_variables(self) -> bool:
        """Return whether the name of a variable is unknown. That of a reader is known if all of its
        uses are calls with a constant.
        """
        called = {name for name, _, _ in self.calls}
        return self.has_computed_variable or any(
            name in self.used_functions or name not in called for name in self.readers
        )

    @property
    def defaults(self) -> Dict[str, Any]:
        """Return the constant defaults of options, by name. With ``set_defaults`` none is known."""
        if self.sets_defaults:
            return {}
        return {
            option.name: option.as_text(option.default)
            if isinstance(option.default, str)
            else option.default
            for option in self.options.values()
            if option is not None and option.default is not NO_DEFAULT
        }


class _FileFacts:
    """Collects the facts of one file. ``_origins``: variable → names from which its value comes.
    ``_texts``: variable → constants of paths in its assignments.
    """

    def __init__(self, facts: CodeFacts, nodes: Sequence[ast.AST], *, is_entry: bool) -> None:
        self._facts, self._nodes, self._is_entry = facts, nodes, is_entry
        self._origins: Dict[str, Set[str]] = {}
        self._texts: Dict[str, Set[str]] = {}
        self._in_readers: Set[int] = set()
        self._prefixes: Set[str] = set()
        self._has_computed_variable = False
        resolve_aliases(nodes)
        self._parents = parents_of(nodes)
        self._scopes = scopes_of(nodes, self._parents)

    def _find_readers(self) -> None:
        """Find functions whose first argument is the name of a variable: ``env("LR", 0.1)``."""
        for function in self._nodes:
            if not isinstance(function, ast.FunctionDef) or not function.args.args:
                continue
            names = [argument.arg for argument in function.args.args]
            reads = [node for node in ast.walk(function) if _reads_variable(node, names[0])]
            if reads and names[0] != "self":
                self._facts.readers[function.name] = names[1:2] == ["default"]
                self._in_readers |= {id(node) for node in reads}

    def _add_uses_of_functions(self) -> None:
        """Add how functions are used, which may be readers of variables in another file."""
        called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        facts = self._facts
        for node in self._nodes:
            if isinstance(node, ast.alias) and node.asname:
                facts.used_functions.add(node.name)
            elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called:
                facts.used_functions.add(name_of(node))
            elif isinstance(node, ast.Call) and node.args:
                name, variable = _called_name(node), constant(node.args[0])
                if not isinstance(variable, str) or len(facts.calls) >= _MAX_NAMES:
                    facts.used_functions.add(name)
                    continue
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                default = node.args[1] if len(node.args) > 1 else keywords.get("default")
                facts.calls.append((name, variable, constant(default)))
            elif isinstance(node, ast.Call):
                facts.used_functions.add(_called_name(node))

    def collect(self) -> None:
        self._find_readers()
        facts = self._facts
        facts.inputs.add(self._nodes, self._parents)
        facts.inputs.calls.add_functions(self._nodes, self._parents)
        self._has_computed_variable = reads_by_unknown_name(self._nodes, self._parents)
        for name in tested_variables(self._nodes):
            facts.add_variable(name, NO_DEFAULT)
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._add_call(node)
            elif (
                isinstance(node, ast.Subscript)
                and _is_environ(node.value)
                and id(node) not in self._in_readers
            ):
                self._add_variable(node.slice, None)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and _ENV_FILE.match(node.value)
                and len(self._facts.env_files) < _MAX_ENV_FILES
            ):
                self._facts.env_files.append(node.value)
        if self._has_computed_variable:
            self._facts.variable_prefixes |= self._prefixes
            self._facts.has_computed_variable |= not self._prefixes
        self._follow_assignments()
        for node in self._nodes:
            self._add_uses(node)
        self._add_uses_of_functions()

    def _add_call(self, node: ast.Call) -> None:
        name = _called_name(node)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        self._add_declared_variables(node)
        self._add_expanded_variables(node, name)
        if node.args and (name in ("add_argument", "option") or _is_declaration(node, name)):
            self._add_option(node, is_click=name == "option")
        elif name == "set_defaults":
            self._facts.sets_defaults = True
        elif name == "getenv" or (
            name in _ENVIRON_METHODS and owner is not None and _is_environ(owner)
        ):
            if node.args and name != "setdefault" and id(node) not in self._in_readers:
                self._add_variable(node.args[0], node.args[1] if len(node.args) > 1 else None)
        elif name == "startswith" and node.args:
            prefix = constant(node.args[0])
            if isinstance(prefix, str) and _PREFIX.match(prefix):
                self._prefixes.add(prefix)
        elif name in ("load_dotenv", "dotenv_values"):
            if not node.args:
                self._facts.env_files.append(".env")
            self._facts.env_file_wins |= any(
                keyword.arg == "override" and constant(keyword.value) is not False
                for keyword in node.keywords
            )
        elif name == "main" and self._is_entry and (owner is None or name_of(owner) == "hydra"):
            self._add_hydra(node)
        elif _starts_program(name, owner) and node.args and not _is_known_program(node.args[0]):
            self._facts.unknown_programs = True

    def _add_expanded_variables(self, node: ast.Call, name: str) -> None:
        text = constant(node.args[0]) if name == "expandvars" and node.args else None
        if isinstance(text, str):
            self._facts.add_shell(text)

    def _add_option(self, node: ast.Call, *, is_click: bool) -> None:
        words = [constant(argument) for argument in node.args]
        texts = [word for word in words if isinstance(word, str) and word.startswith("-")]
        if not texts:
            return
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        positive = [text.partition("/")[0].strip() for text in texts] if is_click else texts
        long_names = [text for text in positive if text.startswith("--")] or positive
        name = constant(keywords["dest"]) if "dest" in keywords else long_names[0].lstrip("-")
        is_pair = is_click and any("/" in text for text in texts)
        option = Option(
            str(name).replace("-", "_"),
            0 if is_pair else value_count(keywords, is_click=is_click),
            constant(keywords["default"]) if "default" in keywords else NO_DEFAULT,
            flag_value(keywords),
            repeats(keywords, is_click=is_click),
            is_text_option(keywords, is_argparse=_called_name(node) == "add_argument"),
        )
        for text in positive[:8]:
            self._declare(text, option)
        negative = [text.partition("/")[2].strip() for text in texts if is_pair and "/" in text]
        if has_negative(keywords):
            negative = [f"--no-{text[2:]}" for text in long_names if text.startswith("--")]
        for text in negative[:8]:
            self._declare(text, replace(option, flag=False))

    def _declare(self, text: str, option: Option) -> None:
        known = self._facts.options.get(text, option)
        if len(self._facts.options) < _MAX_NAMES:
            self._facts.options[text] = option if known == option else None

    def _add_declared_variables(self, node: ast.Call) -> None:
        """Add variables that a parser reads: ``envvar="LR"``, ``auto_envvar_prefix="TRAIN"``."""
        for keyword in node.keywords:
            if keyword.arg in _VARIABLE_KEYWORDS:
                listed = isinstance(keyword.value, (ast.List, ast.Tuple))
                for part in keyword.value.elts if listed else [keyword.value]:  # type: ignore[attr-defined]
                    self._add_variable(part, None)
            elif keyword.arg in _PREFIX_KEYWORDS:
                prefix = constant(keyword.value)
                if isinstance(prefix, str) and prefix:
                    joint = "_" if keyword.arg == "auto_envvar_prefix" else ""
                    self._facts.variable_prefixes.add(f"{prefix}{joint}")

    def _add_variable(self, name_node: ast.AST, default_node: Optional[ast.AST]) -> None:
        name = constant(name_node)
        if not isinstance(name, str):
            self._has_computed_variable = True
        else:
            self._facts.add_variable(name, constant(default_node))

    def _add_hydra(self, node: ast.Call) -> None:
        keywords = {keyword.arg: constant(keyword.value) for keyword in node.keywords}
        if "config_path" in keywords or "config_name" in keywords:
            folder, name = keywords.get("config_path"), keywords.get("config_name")
            self._facts.hydra = HydraCall(
                folder if isinstance(folder, str) else None, name if isinstance(name, str) else None
            )

    def _follow_assignments(self) -> None:
        """Follow names through assignments, until nothing changes."""
        assignments = []
        for node in self._nodes:
            for targets, value in _assignments(node):
                assignments.append((targets, _names_in(value)))
                for target in targets:
                    self._texts.setdefault(target, set()).update(_texts_in(value))
        for _ in range(_ROUNDS):
            changed = False
            for targets, value_names in assignments:
                names = self._with_origins(value_names)
                for target in targets:
                    known = self._origins.setdefault(target, set())
                    if not names <= known and len(known) < _MAX_ORIGINS:
                        known |= names
                        changed = True
            if not changed:
                return

    def _with_origins(self, names: Set[str]) -> Set[str]:
        """Return names and the names from which the values of these variables come."""
        return names.union(*(self._origins[name] for name in names if name in self._origins))

    def _add_uses(self, node: ast.AST) -> None:
        beside = path_beside(node)
        if beside is not None:
            names = self._with_origins(_names_in(beside))
            self._facts.inputs.beside |= names
            self._facts.inputs.add_use("beside", names, self._scopes[id(node)])
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            self._add_computed(node, node.slice)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            if not (_is_text(node.left) or _is_text(node.right)):
                self._add_computed(node, node)
        elif isinstance(node, ast.Call):
            self._add_arguments(node)
            if _reads_file(node):
                self._add_read(node)

    def _add_computed(self, node: ast.AST, part: ast.AST) -> None:
        names = self._with_origins(_names_in(part))
        self._facts.computed |= names
        self._facts.inputs.add_use("computed", names, self._scopes[id(node)])

    def _add_read(self, node: ast.Call) -> None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        for part in (owner, *node.args, *(keyword.value for keyword in node.keywords)):
            names = self._with_origins(_names_in(part))
            self._facts.read |= names
            self._facts.read_texts |= self._path_texts(part, names)
            self._facts.inputs.add_use("read", names, self._scopes[id(node)])

    def _add_arguments(self, node: ast.Call) -> None:
        """Add which names and texts a call passes on to a function."""
        for position, keyword, part in arguments_of(node):
            names = self._with_origins(_names_in(part))
            texts = self._path_texts(part, names)
            if names or texts:
                self._facts.inputs.calls.add(
                    Call(
                        _called_name(node),
                        position,
                        keyword,
                        frozenset(names),
                        frozenset(texts),
                        self._scopes[id(node)],
                    )
                )

    def _path_texts(self, part: Optional[ast.AST], names: Set[str]) -> Set[str]:
        texts = _texts_in(part)
        for name in names:
            texts |= self._texts.get(name, set())
        return texts


def _names_in(node: Optional[ast.AST]) -> Set[str]:
    """Return the names from which an expression's value comes: variables, attributes, constant
    keys, and ``env.X``.
    """
    names: Set[str] = set()
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            names.add(inner.attr)
        elif isinstance(inner, ast.Subscript):
            names |= _key_names(inner.slice, is_variable=_is_environ(inner.value))
        elif isinstance(inner, ast.Call) and inner.args:
            is_variable = _called_name(inner) == "getenv" or (
                isinstance(inner.func, ast.Attribute) and _is_environ(inner.func.value)
            )
            if is_variable or _called_name(inner) == "get":
                names |= _key_names(inner.args[0], is_variable=is_variable)
    return names


def _texts_in(node: Optional[ast.AST]) -> Set[str]:
    """Return the constants of an expression that may be (the beginning of) a relative path."""
    return {
        inner.value
        for inner in (ast.walk(node) if node is not None else ())
        if isinstance(inner, ast.Constant)
        and isinstance(inner.value, str)
        and _PATH_TEXT.match(inner.value)
    }


def _called_name(node: ast.Call) -> str:
    return name_of(node.func)


def _is_environ(node: ast.AST) -> bool:
    return name_of(node) == "environ"


def _reads_variable(node: ast.AST, name: str) -> bool:
    """Return whether a variable is read whose name is that of the parameter ``name``."""
    key: Optional[ast.AST] = None
    if isinstance(node, ast.Subscript) and _is_environ(node.value):
        key = node.slice
    elif isinstance(node, ast.Call) and node.args:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        method = _called_name(node)
        if method == "getenv" or (method == "get" and owner is not None and _is_environ(owner)):
            key = node.args[0]
    return isinstance(key, ast.Name) and key.id == name


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _key_names(node: ast.AST, *, is_variable: bool) -> Set[str]:
    key = constant(node)
    if not isinstance(key, str):
        return set()
    return {f"env.{key}"} if is_variable else {key}


def _is_declaration(node: ast.Call, name: str) -> bool:
    """Return whether a helper function declares an option: ``add("--lr", type=float)``."""
    first = constant(node.args[0])
    return (
        name in _DECLARERS
        and isinstance(first, str)
        and first.startswith("-")
        and any(keyword.arg in _ARGUMENT_KEYWORDS for keyword in node.keywords)
    )


def _starts_program(name: str, owner: Optional[ast.AST]) -> bool:
    owner_name = name_of(owner) if owner is not None else ""
    return (owner_name == "subprocess" and name in _STARTERS) or (
        owner_name == "os" and name in _OS_STARTERS
    )


def _is_known_program(node: ast.AST) -> bool:
    """Return whether the started program is a constant, or a constant argument of Python."""
    words: List[ast.AST] = list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else [node]
    if not words or isinstance(words[0], ast.Starred):
        return False
    if name_of(words[0]) == "executable":  # sys.executable
        words = words[1:]
    return bool(words) and isinstance(constant(words[0]), str)


def _reads_file(node: ast.Call) -> bool:
    if not _DATA_READERS.fullmatch(_called_name(node)):
        return False
    if _called_name(node) != "open":
        return True
    position = 0 if isinstance(node.func, ast.Attribute) else 1
    modes = [node.args[position]] if len(node.args) > position else []
    modes += [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    return not any(_WRITE_MODE.match(str(constant(mode))) for mode in modes)


def _single_assignment(node: ast.AST) -> Tuple[Optional[ast.AST], Optional[ast.AST]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0], node.value
    if isinstance(node, ast.AnnAssign):
        return node.target, node.value
    return None, None


def _assignments(node: ast.AST) -> Iterator[Tuple[List[str], Optional[ast.AST]]]:
    """Yield (names, value) of each way in which a variable gets a value."""
    if isinstance(node, ast.Assign):
        yield [name for target in node.targets for name in _targets(target)], node.value
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        yield list(_targets(node.target)), node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield list(_targets(node.target)), node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield list(_targets(node.optional_vars)), node.context_expr


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    else:
        yield from (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
