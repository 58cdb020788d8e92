"""Versions of what a job computes with, read from its interpreter's folders without starting it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from labcarbon_collect.fingerprint.launchers import Launched

_SHOWN = frozenset(("torch", "tensorflow", "jax", "jaxlib", "numpy", "transformers", "lightning", "keras", "scikit_learn"))
_METADATA = re.compile(r"^([\w.]+)-([\w.+!]+)\.(?:dist-info|egg-info)$")
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*([\d.]+)", re.MULTILINE)


def environment(what: Launched, cwd: str, environ: Mapping[str, str]) -> Dict[str, str]:
    """``python`` and the packages worth showing, with their versions; what cannot be read is left out."""
    if what.family != "python":
        return {}
    interpreter = _interpreter(what.interpreter or "python3", cwd, environ)
    if interpreter is None:
        return {}
    prefix = interpreter.parent.parent
    folders = sorted(prefix.glob("lib/python3*/site-packages")) or sorted(
        [*prefix.glob("lib/python3*/dist-packages"), *prefix.glob("local/lib/python3*/dist-packages")]
    )
    found = {"python": _python(prefix, interpreter, folders)}
    for folder in folders:
        for name in os.listdir(folder):
            told = _METADATA.match(name)
            if told and told[1].lower().replace("-", "_") in _SHOWN:
                found[told[1].lower().replace("_", "-")] = told[2][:100]
    return {name: version for name, version in found.items() if version}


def _interpreter(name: str, cwd: str, environ: Mapping[str, str]) -> Optional[Path]:
    """The interpreter by its path or its name on PATH; of a launcher, the one beside it. Links are kept: a venv is one."""
    path = os.path.join(cwd, name) if os.sep in name else shutil.which(name, path=environ.get("PATH"))
    if not path or not os.path.isfile(path):
        return None
    found = Path(path)
    return found if found.name.startswith(("python", "pypy")) else found.parent / "python"


def _python(prefix: Path, interpreter: Path, folders: List[Path]) -> str:
    try:
        told = _VERSION.search((prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        told = None
    if told:
        return told[1]
    for text in (os.path.realpath(interpreter), *(str(folder.parent) for folder in folders)):
        named = re.search(r"python(3\.\d+)", os.path.basename(text))
        if named:
            return named[1]
    return ""
