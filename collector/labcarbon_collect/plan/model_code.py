"""The researcher's own code: the function that builds the model, and the one that builds its
inputs.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.errors import CommandError

_FORM = "Write it as package.module:function or file.py:function"


@dataclass(frozen=True)
class ModelCode:
    """The functions of the researcher's module."""

    name: str
    build: Callable[..., Any]
    arguments: Dict[str, Any]
    inputs: Optional[Callable[[int], Any]]  # inputs(batch), None without one


def load_model_code(text: str, arguments: Dict[str, Any]) -> ModelCode:
    """Import the module of ``package.module:function``. Raises CommandError."""
    path, colon, name = text.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise CommandError(f"--model {text!r} names no function. {_FORM}")
    module = _import(path)
    build = getattr(module, name, None)
    if build is None:
        raise CommandError(f"{path} has no function {name}.{_similar_functions(module)}")
    if not callable(build):
        raise CommandError(
            f"{path}:{name} is no function. Write a function that returns the model: "
            f"def build(): return …"
        )
    _check_arguments(text, build, arguments)
    inputs = getattr(module, "inputs", None)
    return ModelCode(text, build, arguments, inputs if callable(inputs) else None)


def parse_arguments(texts: Sequence[str]) -> Dict[str, Any]:
    """Parse ``--arg NAME=VALUE``: a Python literal, else a text. Raises CommandError."""
    arguments: Dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(f"--arg {text!r} must have the form NAME=VALUE, as in width=64")
        try:
            arguments[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            arguments[name] = value
    return arguments


def call_inputs(code: ModelCode, batch: int) -> Tuple[List[Any], Dict[str, Any]]:
    """Return the positional and the keyword arguments that ``inputs(batch)`` gives."""
    assert code.inputs is not None
    value = code.inputs(batch)
    if isinstance(value, dict):
        return [], value
    if isinstance(value, (tuple, list)):
        return list(value), {}
    return [value], {}


def _import(path: str) -> ModuleType:
    folder = os.path.dirname(os.path.abspath(path)) if path.endswith(".py") else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        if path.endswith(".py"):
            return _import_file(path)
        return importlib.import_module(path)
    except CommandError:
        raise
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{path} cannot be imported: no module {error.name}. Run this command in the folder "
            f"and the Python environment of the training"
        ) from error
    except Exception as error:
        raise CommandError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error


def _import_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise CommandError(f"{path} does not exist. {_FORM}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _check_arguments(text: str, build: Callable[..., Any], arguments: Dict[str, Any]) -> None:
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):
        return  # a compiled function does not state its arguments
    try:
        signature.bind(**arguments)
    except TypeError as error:
        needed = [
            name
            for name, parameter in signature.parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and name not in arguments
        ]
        advice = (
            f"Give each with --arg, as in --arg {needed[0]}=64"
            if needed
            else "Its arguments: " + (", ".join(signature.parameters) or "none")
        )
        raise CommandError(f"{text} cannot be called: {error}. {advice}") from error


def _similar_functions(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
    ]
    return f" It has: {', '.join(sorted(names)[:10])}" if names else ""
