"""Facts of a run, reduced and masked before they leave this node. Pure apart from user and host
name.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from labcarbon_collect.clock import iso
from labcarbon_collect.command_line import mask_command, reduce_command
from labcarbon_collect.pseudonyms import current_user_name, replace_name
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument

Value = Union[str, int, float, bool, None]
_LITERALS: Mapping[str, Value] = {"true": True, "false": False, "null": None, "none": None}


def run_name(command: Sequence[str]) -> str:
    """Return a name for a run without one: that of the script or module, else of the executable."""
    return [part for part in reduce_command(command) if not part.startswith("-")][-1]


def parse_params(pairs: Sequence[str]) -> Dict[str, Value]:
    """Parse ``k=v`` pairs into typed values. Values that look like secrets are masked. Raises
    ValueError.
    """
    params: Dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--param {pair!r} must have the form name=value")
        is_secret = is_secret_name(name) or is_secret_value(text)
        params[mask_argument(name.strip())[:256]] = MASK if is_secret else _parse_value(text)
    return params


def masked_params(params: Mapping[str, Value]) -> List[str]:
    """Return the names of the masked parameters."""
    return [name for name, value in params.items() if value == MASK]


def start_facts(
    *,
    command: Sequence[str],
    project: Optional[str],
    name: Optional[str],
    params: Mapping[str, Value],
    node: Optional[str],
    started_us: int,
    user: Optional[str] = None,
    full_command: bool = False,
) -> Dict[str, Any]:
    """Return the body of ``PUT runs/<uuid>/``.

    ``user``: pseudonym that replaces the user's name everywhere in the facts (None: the name
    itself). ``full_command``: send the whole command line, masked, instead of executable and script
    name.
    """
    login_name = user_name()
    texts: Dict[str, Any] = {
        "project": project,
        "name": (mask_argument(name)[:200] if name else run_name(command)) or "run",
        "command": mask_command(command) if full_command else reduce_command(command),
        "params": dict(params),
    }
    if user is not None and user != login_name:
        texts = replace_name(texts, login_name, user)
    return {
        **texts,
        "project": project,
        "started_at": iso(started_us),
        "node": node,
        "user": (user or login_name)[:100],
        "host": socket.gethostname()[:255],
    }


def pseudonymise_fingerprint(wire: Mapping[str, Any], user: Optional[str]) -> Dict[str, Any]:
    """Return a fingerprint in which ``user`` replaces the user's name in file names and values."""
    login_name = user_name()
    if user is None or user == login_name:
        return dict(wire)
    replaced_parts = {
        key: replace_name(wire[key], login_name, user)
        for key in ("entry_name", "told", "data", "start")
        if key in wire
    }
    return {**wire, **replaced_parts}


def closing_facts(
    *, exit_code: int, killed: bool, ended_us: int, energy_mj: Optional[int] = None
) -> Dict[str, Any]:
    """Return the body of ``PATCH runs/<uuid>/``. ``energy_mj`` is None if it was not measured."""
    state = "killed" if killed else "failed" if exit_code else "finished"
    return {
        "state": state,
        "ended_at": iso(ended_us),
        "exit_code": exit_code,
        "energy_mj": energy_mj,
        "provisional": True,
    }


def user_name() -> str:
    """Return the login name of the current user."""
    return current_user_name()


def _parse_value(text: str) -> Value:
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", text) and len(text) < 25:
        return float(text)
    return text[:1024]
