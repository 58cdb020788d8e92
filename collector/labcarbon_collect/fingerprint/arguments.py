"""The arguments of a program as names and values, without its parser. Pure."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from labcarbon_collect.files.read_limits import BudgetExceeded, read_regular_file
from labcarbon_collect.fingerprint.syntax.options import Option
from labcarbon_collect.lc1 import flatten

Text = Union[str, bool]
_NUMBER = re.compile(r"^-(\d|\.\d)")
_OVERRIDE = re.compile(
    r"^(\+{0,2})([A-Za-z_][\w./@-]*)=(.*)$", re.DOTALL
)  # Hydra: a.b=c, +a=c, ++a=c
_JOINED = re.compile(r"^-([A-Za-z])(\d.*)$")  # -j8
_MAX_ARGUMENTS = 2000


def name_arguments(
    words: Sequence[str], options: Optional[Mapping[str, Optional[Option]]] = None
) -> List[Tuple[str, Text]]:
    """Return ``(name, text)`` of each argument. A flag is True, and positional arguments are
    ``arg0``, ``arg1`` …

    ``options``: declared in the code, with name and number of words. Any other option takes the
    next word, unless that starts an option (a negative number does not). Hydra's multirun takes
    none.
    """
    declared = options or {}
    pairs: List[Tuple[str, Text]] = []
    index, position, positional_only = 0, 0, False
    while index < len(words) and len(pairs) < _MAX_ARGUMENTS:
        word = words[index]
        index += 1
        override = _OVERRIDE.match(word)
        if word == "--" and not positional_only:
            positional_only = True
        elif not positional_only and _is_option(word):
            found, used = _read_option(word, words[index:], declared)
            index += used
            for option, _, _ in found:
                if option is not None and not option.repeats:  # the last value counts
                    pairs = [pair for pair in pairs if pair[0] != option.name]
            pairs += [(name, text) for _, name, text in found]
        elif override:
            pairs.append((override.group(2), override.group(3)))
        else:
            pairs.append((f"arg{position}", word))
            position += 1
    return pairs


def _read_option(
    word: str, following: Sequence[str], declared: Mapping[str, Optional[Option]]
) -> Tuple[List[Tuple[Optional[Option], str, Text]], int]:
    """Return (declaration, name, value) of the options in a word, and how many of the following
    words are values.
    """
    name, equals, text = word.partition("=")
    option = declared.get(name) or _abbreviated(name, declared)
    if option is not None:
        values = _values_of(option, equals, text, following)
        used = 0 if equals else _word_count(option, following)
        return [(option, option.name, value) for value in values], used
    if name not in declared and not word.startswith("--"):
        short = declared.get(word[:2])
        flags = [declared.get(f"-{letter}") for letter in word[1:]]
        if short is not None and short.values != 0:
            return [(short, short.name, short.as_text(word[2:].removeprefix("=")))], 0
        if all(flag is not None and flag.values == 0 for flag in flags):
            return [(flag, flag.name, flag.flag) for flag in flags if flag is not None], 0
    joined = _JOINED.match(word)
    if equals:
        return [(None, name, text)], 0
    if joined:
        return [(None, joined.group(1), joined.group(2))], 0
    if following and not _ends_value(word, following[0]):
        return [(None, name, following[0])], 1
    return [(None, name, True)], 0


def _abbreviated(name: str, declared: Mapping[str, Optional[Option]]) -> Optional[Option]:
    """Return the only long option that begins with ``name``, as argparse does."""
    if name in declared or not name.startswith("--") or len(name) < 4:
        return None
    found = {text: option for text, option in declared.items() if text.startswith(name)}
    (only,) = found.values() if len(found) == 1 else (None,)
    return only


def _values_of(option: Option, equals: str, text: str, following: Sequence[str]) -> List[Text]:
    """Return the values of a declared option. Without a word it is a flag."""
    if equals:
        return [option.as_text(text)]
    words = following[: _word_count(option, following)]
    return [option.as_text(word) for word in words] or [option.flag]


def _word_count(option: Option, following: Sequence[str]) -> int:
    """Return how many of the following words a declared option takes."""
    available = next(
        (place for place, word in enumerate(following) if _is_option(word) or word == "--"),
        len(following),
    )
    if isinstance(option.values, int):
        return min(option.values, available)
    return min(1, available) if option.values == "?" else available


def group_arguments(pairs: Sequence[Tuple[str, Text]]) -> Dict[str, Union[Text, List[Text]]]:
    """Return pairs as one mapping. A repeated name has a list, in the given order."""
    texts_by_name: Dict[str, List[Text]] = {}
    for name, text in pairs:
        texts_by_name.setdefault(name, []).append(text)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in texts_by_name.items()}


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _ends_value(option: str, word: str) -> bool:
    """Return whether a word cannot be the value of the option before it."""
    return (
        _is_option(word)
        or word == "--"
        or option == "--multirun"
        or (option == "-m" and _OVERRIDE.match(word) is not None)
    )


def is_multirun(words: Sequence[str]) -> bool:
    """Return whether Hydra is to start a grid of runs: `--multirun`, or `-m` beside overrides."""
    if "--multirun" in words:
        return True
    pairs = name_arguments(words)
    return ("-m", True) in pairs and any(_OVERRIDE.match(word) for word in words)


_MAX_PARSED_BYTES, _MAX_VALUES, _MAX_DEPTH = 256 * 1024, 2000, 20
_MAX_BRACKETS = 2000
_MAX_HASHED_BYTES = 16 * 1024 * 1024
# Keys with which a configuration file extends others, whose values it replaces.
_EXTENDING_KEYS = ("extends", "_base_", "base", "base_config", "inherits", "inherit_from", "parent")
_MAX_EXTENDED, _MAX_EXTENDED_FILES = 10, 100


def config_params(
    path: str, role: str, *, depth: int = 0, read: Optional[List[str]] = None
) -> Dict[str, Any]:
    """Return the parameters of a configuration file, flat, over those of the files that it extends.
    A file without readable values is ``config:<role>`` with its hash.

    Raises OSError if the file cannot be read, BudgetExceeded if it is larger than 16 MiB.
    """
    read = [] if read is None else read
    read.append(path)
    if len(read) > _MAX_EXTENDED_FILES:
        raise BudgetExceeded(f"a configuration extends more than {_MAX_EXTENDED_FILES} files")
    content = read_regular_file(path, _MAX_HASHED_BYTES)
    values = _parse_values(path, content) if len(content) <= _MAX_PARSED_BYTES else None
    if values is None or not _is_moderate(values):
        return {f"config:{role}": hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()}
    merged: Dict[str, Any] = {}
    own = dict(values)
    for key in [key for key in values if str(key).lower() in _EXTENDING_KEYS]:
        bases = own[key] if isinstance(own.get(key), list) else [own.get(key)]
        paths = [os.path.join(os.path.dirname(path), str(base)) for base in bases if base]
        if paths and depth < _MAX_EXTENDED and all(map(os.path.isfile, paths)):
            del own[key]
            for base_path in paths:
                merged.update(config_params(base_path, role, depth=depth + 1, read=read))
    return {**merged, **flatten(own)}


def _parse_values(path: str, content: bytes) -> Optional[Mapping[str, Any]]:
    try:
        text = content.decode("utf-8-sig")
        if path.endswith(".json"):
            content_values: Any = json.loads(text)
        elif path.endswith(".toml"):
            content_values = importlib.import_module("tomllib").loads(text)
        elif path.endswith((".yaml", ".yml")):
            if text.count("[") + text.count("{") > _MAX_BRACKETS:
                return None  # the time of PyYAML is quadratic in the depth
            yaml = importlib.import_module("yaml")
            content_values = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        else:
            return None
    except Exception:  # noqa: BLE001 - a file that does not match its name counts by its content
        return None
    return content_values if isinstance(content_values, dict) else None


def _is_moderate(values: Mapping[str, Any]) -> bool:
    """Return whether values are few and shallow. A YAML file of a kilobyte can expand to 10^9
    values.
    """
    waiting, count = [(values, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if count > _MAX_VALUES or depth > _MAX_DEPTH:
            return False
        if isinstance(value, Mapping):
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(inner, depth + 1) for inner in value]
    return True
