"""What is told of a run: reduced and masked before anything leaves this machine. Pure apart from user and host name."""

from __future__ import annotations

import os
import pwd
import re
import socket
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

Value = Union[str, int, float, bool, None]
_INTERPRETER = re.compile(
    r"^(python[\d.]*|pypy[\d.]*|bash|sh|zsh|dash|perl|ruby|node|julia|Rscript|torchrun|deepspeed|accelerate)$"
)
_SECRET_NAME = re.compile(r"passw|secret|token|credential|api[-_]?key|private[-_]?key|auth", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^(lc_[a-z]+_|gh[pousr]_|github_pat_|sk-|hf_|xox[abprs]-|AKIA|eyJ[\w-]+\.|-----BEGIN)|://[^/\s]*:[^/\s]*@"
)
MASK = "(masked)"
_LITERALS: Mapping[str, Value] = {"true": True, "false": False, "null": None, "none": None}


def reduced_command(command: Sequence[str]) -> List[str]:
    """Executable and script name only: paths and arguments stay on this machine.

    ``/opt/py/bin/python -u train.py --key k`` → ``python train.py``; ``python -m pkg.train x`` → ``python -m pkg.train``;
    ``python -c "…"`` → ``python -c``.
    """
    executable = os.path.basename(command[0])
    if not _INTERPRETER.match(executable):
        return [executable]
    for index, argument in enumerate(command[1:], start=1):
        if argument == "-m" and index + 1 < len(command):
            return [executable, "-m", _shortened(command[index + 1])]
        if argument in ("-c", "-e"):
            return [executable, argument]
        if not argument.startswith("-") and re.search(r"\.\w{1,5}$", argument):
            return [executable, _shortened(os.path.basename(argument))]
    return [executable]


def run_name(command: Sequence[str]) -> str:
    """A name for a run without one: the script's or module's, else the executable's."""
    named = [part for part in reduced_command(command) if not part.startswith("-")]
    return _shortened(named[-1] if named else command[0])


def parse_params(given: Sequence[str]) -> Dict[str, Value]:
    """``k=v`` pairs with typed values; values that look like secrets are masked. Raises ValueError."""
    params: Dict[str, Value] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--param {item!r} is not of the form name=value")
        secret = _SECRET_NAME.search(name) or _SECRET_VALUE.search(text)
        params[name.strip()[:256]] = MASK if secret else _typed(text)
    return params


def facts(
    *,
    command: Sequence[str],
    project: Optional[str],
    name: Optional[str],
    params: Mapping[str, Value],
    node: Optional[str],
    started_us: int,
) -> Dict[str, Any]:
    """The body of ``PUT runs/<uuid>/``."""
    return {
        "project": project, "name": (name or run_name(command))[:200], "command": reduced_command(command),
        "params": dict(params), "started_at": iso(started_us), "node": node, "user": user_name()[:100],
        "host": socket.gethostname()[:255],
    }  # fmt: skip


def closing(*, exit_code: int, killed: bool, ended_us: int, energy_mj: Optional[int]) -> Dict[str, Any]:
    """The body of ``PATCH runs/<uuid>/``. ``energy_mj`` None: not measured."""
    state = "killed" if killed else "failed" if exit_code else "finished"
    return {
        "state": state, "ended_at": iso(ended_us), "exit_code": exit_code, "energy_mj": energy_mj, "provisional": True
    }  # fmt: skip


def iso(moment_us: int) -> str:
    """UTC microseconds as ISO 8601."""
    seconds, micros = divmod(moment_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc).replace(microsecond=micros)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def user_name() -> str:
    """The login name of who runs this."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _typed(text: str) -> Value:
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", text) and len(text) < 25:
        return float(text)
    return text[:1024]


def _shortened(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:200] or "run"
