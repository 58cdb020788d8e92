"""Configuration files as parameters: JSON, TOML and YAML by their values, anything else by its content."""

from __future__ import annotations

import hashlib
import importlib
import json
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.files.budget import read_plain
from labcarbon_collect.lc1 import flat

_MOST_BYTES, _MOST_VALUES, _DEEPEST = 256 * 1024, 2000, 20
_HASHED_BYTES = 16 * 1024 * 1024


def config_params(path: str, role: str) -> Dict[str, Any]:
    """The parameters that a configuration file gives, flat; what cannot be read as values is ``config:<role>``, its hash.

    Raises OSError when the file cannot be read, OutOfBudget when it is larger than 16 MiB.
    """
    content = read_plain(path, _HASHED_BYTES)
    values = _values(path, content) if len(content) <= _MOST_BYTES else None
    if values is None or not _moderate(values):
        return {f"config:{role}": hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()}
    return flat(values)


def _values(path: str, content: bytes) -> Optional[Mapping[str, Any]]:
    try:
        text = content.decode("utf-8-sig")
        if path.endswith(".json"):
            found: Any = json.loads(text)
        elif path.endswith(".toml"):
            found = importlib.import_module("tomllib").loads(text)
        elif path.endswith((".yaml", ".yml")):
            yaml = importlib.import_module("yaml")
            found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        else:
            return None
    except Exception:  # noqa: BLE001 - a file that is not what its name says counts by its content
        return None
    return found if isinstance(found, dict) else None


def _moderate(values: Mapping[str, Any]) -> bool:
    """Whether values are few and shallow: a YAML file of a kilobyte can stand for a thousand million of them."""
    waiting, count = [(values, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if count > _MOST_VALUES or depth > _DEEPEST:
            return False
        if isinstance(value, Mapping):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(each, depth + 1) for each in value]
    return True
