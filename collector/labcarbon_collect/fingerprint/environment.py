"""Versions of Python and packages, read from the interpreter's folders without starting it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from labcarbon_collect.fingerprint.launchers import Launch

_REPORTED_PACKAGES = frozenset(
    (
        "torch",
        "tensorflow",
        "jax",
        "jaxlib",
        "numpy",
        "transformers",
        "lightning",
        "keras",
        "scikit_learn",
    )
)
_METADATA = re.compile(r"^([\w.]+)-([\w.+!]+)\.(?:dist-info|egg-info)$")
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*([\d.]+)", re.MULTILINE)


def environment(launch: Launch, cwd: str, environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the versions of ``python`` and the reported packages. Unreadable ones are left out."""
    if launch.family != "python":
        return {}
    interpreter = find_interpreter(launch.interpreter or "python3", cwd, environ)
    if interpreter is None:
        return {}
    prefix = interpreter.parent.parent
    folders = sorted(prefix.glob("lib/python3*/site-packages")) or sorted(
        [
            *prefix.glob("lib/python3*/dist-packages"),
            *prefix.glob("local/lib/python3*/dist-packages"),
        ]
    )
    versions = {"python": _python_version(prefix, interpreter, folders)}
    for folder in folders:
        for name in os.listdir(folder):
            match = _METADATA.match(name)
            if match and match[1].lower().replace("-", "_") in _REPORTED_PACKAGES:
                versions[match[1].lower().replace("_", "-")] = match[2][:100]
    return {name: version for name, version in versions.items() if version}


def find_interpreter(name: str, cwd: str, environ: Mapping[str, str]) -> Optional[Path]:
    """Return the interpreter by path or by name on PATH, or the one beside a launcher. Links are
    not resolved: a venv is one.
    """
    path = (
        os.path.join(cwd, name) if os.sep in name else shutil.which(name, path=environ.get("PATH"))
    )
    if not path or not os.path.isfile(path):
        return None
    executable = Path(path)
    return (
        executable
        if executable.name.startswith(("python", "pypy"))
        else executable.parent / "python"
    )


def _python_version(prefix: Path, interpreter: Path, folders: List[Path]) -> str:
    try:
        match = _VERSION.search(
            (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        match = None
    if match:
        return match[1]
    for text in (os.path.realpath(interpreter), *(str(folder.parent) for folder in folders)):
        match = re.search(r"python(3\.\d+)", os.path.basename(text))
        if match:
            return match[1]
    return ""
