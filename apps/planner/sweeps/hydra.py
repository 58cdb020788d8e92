"""Overrides of a Hydra multirun, such as ``lr=0.1,0.01 model=a,b``. Pure.

Simple sweeps, ``choice`` and ``range`` are supported. Other functions are errors, since they need
Hydra's configuration or a sampler.
"""

import re
from typing import Any

from apps.core.errors import InvalidInput
from apps.planner.sweeps.steps import numbers_between, parse_number
from apps.planner.sweeps.sweep import FIELD, Sweep, grid_sweep

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_FUNCTION = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,15}")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_FORM = "Write overrides as Hydra does: lr=0.1,0.01 model=choice(a,b) depth=range(1,8,2)."
_OPTIONS = ("-m", "--multirun")


def parse_hydra(text: str) -> Sweep:
    """Return the sweep of the overrides in ``text``, separated by spaces."""
    axes: dict[str, list[Any]] = {}
    for override in _split(text, None, "the overrides"):
        if override in _OPTIONS:
            continue
        override = _unquoted_word(override)
        name, equals, value = override.partition("=")
        if not equals or name.startswith("~"):
            problem = "removes a parameter" if name.startswith("~") else "has no ="
            raise InvalidInput(f"Override {override[:60]!r} {problem}.", field=FIELD, hint=_FORM)
        name = name.strip().lstrip("+")
        if name in axes:
            raise InvalidInput(f"Parameter {name!r} occurs twice.", field=FIELD)
        axes[name] = _values(name, value.strip())
    return grid_sweep(axes)


def _values(name: str, text: str) -> list[Any]:
    function = _FUNCTION.fullmatch(text)
    if function is None:
        return [_value(name, part) for part in _split(text, ",", f"parameter {name!r}")]
    if function[1] == "choice":
        return [_value(name, part) for part in _split(function[2], ",", f"parameter {name!r}")]
    if function[1] == "range":
        return _range(name, _split(function[2], ",", f"parameter {name!r}"))
    return [_value(name, text)]


def _value(name: str, text: str) -> Any:
    """Return a number, or text. Text in quotes has no quotes any more."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(f"\\{text[0]}", text[0])
    if not text:
        raise InvalidInput(
            f"Parameter {name!r} has an empty value.", field=FIELD, hint="Write '' for empty text."
        )
    if function := _FUNCTION.fullmatch(text):
        raise InvalidInput(
            f"Parameter {name!r}: the function {function[1]} is not supported.",
            field=FIELD,
            hint="Supported are choice and range.",
        )
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _range(name: str, parts: list[str]) -> list[Any]:
    """Return the values of ``range(start, stop, step)``, without ``stop``."""
    arguments: dict[str, str] = {}
    order = ("stop",) if len(parts) == 1 and "=" not in parts[0] else ("start", "stop", "step")
    for index, part in enumerate(parts):
        key, equals, value = part.partition("=")
        key, value = (key.strip(), value.strip()) if equals else (order[min(index, 2)], part)
        if key not in ("start", "stop", "step") or key in arguments or index > 2:
            raise _range_error(name, f"{part!r} is not expected")
        arguments[key] = value
    if "stop" not in arguments:
        raise _range_error(name, "the stop is missing")
    start, stop, step = (
        parse_number(name, key, arguments.get(key, default))
        for key, default in (("start", "0"), ("stop", ""), ("step", "1"))
    )
    if step == 0:
        raise _range_error(name, "the step is 0")
    is_whole = all(_INTEGER.fullmatch(text) for text in arguments.values())
    return [
        int(number) if is_whole else float(number) for number in numbers_between(start, stop, step)
    ]


def _range_error(name: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"Parameter {name!r}: {problem}.", field=FIELD, hint="Write range(1,8,2) or range(5)."
    )


def _unquoted_word(word: str) -> str:
    """Return an override without the quotes that a shell would remove."""
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if is_quoted else word


def _split(text: str, separator: str | None, what: str) -> list[str]:
    """Divide a text at a separator (None: white space) outside of quotes and brackets."""
    parts, part, quote, closing, index = list[str](), "", "", list[str](), 0
    while index < len(text):
        char = text[index]
        index += 1
        if quote:
            if char == "\\" and text[index : index + 1] in ("\\", quote):
                char, index = char + text[index], index + 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif closing and char == closing[-1]:
            closing.pop()
        elif char in ")]}":
            raise InvalidInput(f"In {what}, {char} has no opening.", field=FIELD, hint=_FORM)
        elif not closing and (char.isspace() if separator is None else char == separator):
            parts.append(part.strip())
            part = ""
            continue
        part += char
    if quote or closing:
        raise InvalidInput(
            f"In {what}, {quote or closing[-1]} is missing.", field=FIELD, hint=_FORM
        )
    parts.append(part.strip())
    return [part for part in parts if part] if separator is None else parts
