"""The folder in which a probe runs, and the command as it is started there."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.command_line import identify_interpreter, parse_program


def resolve_command(command: Sequence[str], folder: str) -> List[str]:
    """Return a command with each argument that names an existing file or folder relative to
    ``folder`` as an absolute path: ``train.py``, ``data``, ``--config=conf/a.yaml``.

    Other arguments stay as they are.
    """
    resolved = [_resolve_program(command[0], folder)]
    for word in command[1:]:
        option, equals, value = word.partition("=")
        path = _existing_path(word, folder)
        if path is None and equals:
            value_path = _existing_path(value, folder)
            path = f"{option}={value_path}" if value_path else None
        resolved.append(path or word)
    return resolved


def python_path(
    command: Sequence[str], folder: str, environ: Mapping[str, str]
) -> Optional[Tuple[str, str]]:
    """Return the variable with which ``python -m`` and ``python -c`` find the modules of
    ``folder``, None for other commands: Python finds those beside a script itself.
    """
    interpreter = identify_interpreter(os.path.basename(command[0]))
    if interpreter != "python" or parse_program("python", command[1:]).kind == "script":
        return None
    existing = environ.get("PYTHONPATH", "")
    return "PYTHONPATH", f"{folder}{os.pathsep}{existing}" if existing else folder


def _resolve_program(word: str, folder: str) -> str:
    """Return the program. A bare name is found through PATH, as by a shell."""
    return _existing_path(word, folder) or word if os.sep in word else word


def _existing_path(word: str, folder: str) -> Optional[str]:
    if not word or word.startswith("-") or os.path.isabs(word):
        return None
    path = os.path.normpath(os.path.join(folder, word))
    return path if os.path.exists(path) else None
