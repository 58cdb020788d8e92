"""The fingerprint of a command where it runs, as docs/fingerprint.md sends it: never raises, bounded in time."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.config import collector_home
from labcarbon_collect.files.budget import Budget, Deadline
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.fingerprint.code import add_normal, code_of_command
from labcarbon_collect.fingerprint.digests import Changed, in_time, known_digests, small_enough, verified
from labcarbon_collect.fingerprint.environment import environment
from labcarbon_collect.fingerprint.launchers import Launched, launched
from labcarbon_collect.fingerprint.parameters import Words, roles, sort_words
from labcarbon_collect.fingerprint.payload import data_part, from_scratch, start_part
from labcarbon_collect.identity import ConfigurationError
from labcarbon_collect.lc1 import VERSION, param_hash
from labcarbon_collect.timeouts import PART_TIMEOUT_S, STARTUP_TIMEOUT_S

AT_ONCE_BYTES, AT_ONCE_FILES, AT_ONCE_S = 64 * 1024 * 1024, 5000, 0.15 * STARTUP_TIMEOUT_S
TRAIN = "train"
Paths = List[Tuple[str, str]]


@dataclass
class Survey:
    """A fingerprint, and what is left to be known of it.

    ``data``, ``start``: (role, path) whose contents are not hashed yet; ``notes``: what is unknown or weak, and why.
    """

    wire: Dict[str, Any]
    data: Paths = field(default_factory=list)
    start: Paths = field(default_factory=list)
    notes: List[str] = field(default_factory=list)


def gather(
    command: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    declared_params: Optional[Mapping[str, Any]] = None,
    intent: str = TRAIN,
    sweep: str = "",
    tell_all: bool = False,
    seconds: float = PART_TIMEOUT_S,
) -> Dict[str, Any]:
    """The wire object alone: see :func:`survey`."""
    return survey(
        command, cwd=cwd, environ=environ, declared_params=declared_params, intent=intent, sweep=sweep, tell_all=tell_all,
        seconds=seconds,
    ).wire  # fmt: skip


def survey(
    command: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    declared_params: Optional[Mapping[str, Any]] = None,
    declared_data: Optional[Mapping[str, str]] = None,
    declared_start: str = "",
    intent: str = TRAIN,
    sweep: str = "",
    tell_all: bool = False,
    seconds: float = PART_TIMEOUT_S,
) -> Survey:
    """Look at a command before it runs, for ``seconds`` at most; what is not known by then is unknown, and said.

    ``declared_params`` go before those of the command line; ``declared_data``: role → path, ``declared_start``: a path that
    the command line does not name; ``tell_all``: the values on the command line may be told.
    """
    budget = Budget(seconds)
    found = Survey({"version": VERSION, "intent": intent, "sweep": sweep[:100]})
    what = launched(command, environ)
    words = Deadline(
        "parameters",
        lambda: sort_words(
            what, cwd=cwd, declared=declared_params or {}, data=declared_data or {}, start=declared_start, tell_all=tell_all
        ),
    )  # fmt: skip
    home = _home(environ)
    code = Deadline("code", lambda: code_of_command(what, cwd, environ, budget))
    around = Deadline("environment", lambda: environment(what, cwd, environ))
    sorted_words = words.wait(budget)
    contents = None
    if sorted_words is None:
        found.notes.append(f"parameters, data and start are unknown: {words.why}")
    else:
        _tell_words(found, sorted_words)
        contents = _Contents(sorted_words, home, budget)
    _tell_code(found, code, home, budget)
    if contents is not None:
        contents.tell(found, budget)
    told = around.wait(budget)
    if told:
        found.wire["environment"] = told
    return found


class _Contents:
    """Data and start, each looked at in its own thread."""

    def __init__(self, words: Words, home: Optional[Path], budget: Budget) -> None:
        self._data, self._start = roles(words.data), roles(words.start)
        self._home = home
        self._listed: Dict[str, Deadline[List[Manifest]]] = {}
        self._hashed: Dict[str, Deadline[Optional[List[Tuple[str, str]]]]] = {}
        for part, paths in (("data", self._data), ("start", self._start)):
            if paths:
                self._look(part, paths, budget)

    def _look(self, part: str, paths: Paths, budget: Budget) -> None:
        listed = Deadline(part, lambda: [manifest(role, path, budget) for role, path in paths])
        self._listed[part] = listed
        self._hashed[part] = Deadline(f"{part}-contents", lambda: self._hash(listed, budget))

    def _hash(self, listed: Deadline[List[Manifest]], budget: Budget) -> Optional[List[Tuple[str, str]]]:
        """Hash what is small; what is not is left to the child that takes its time."""
        manifests = listed.wait(budget)
        if manifests is None:
            return None
        cache = known_digests(self._home)
        try:
            if not small_enough(manifests, cache, most_bytes=AT_ONCE_BYTES, max_files=AT_ONCE_FILES):
                return None
            return verified(manifests, cache, hashed=in_time(Budget(min(AT_ONCE_S, budget.left_s))))
        except Changed:
            return None
        finally:
            cache.close()

    def tell(self, found: Survey, budget: Budget) -> None:
        if not self._start:
            found.wire["start"] = from_scratch()
        for part, paths in (("data", self._data), ("start", self._start)):
            if not paths:
                continue
            manifests = self._listed[part].wait(budget)
            hashes = self._hashed[part].wait(budget)
            if manifests is None:
                found.notes.append(f"the {part} cannot be listed now: {self._listed[part].why}")
            else:
                found.wire[part] = (data_part if part == "data" else start_part)(manifests, hashes)
            if hashes is None:
                (found.data if part == "data" else found.start).extend(paths)


def _tell_words(found: Survey, words: Words) -> None:
    wire, sorted_ = found.wire, words.found
    wire["params"] = {name: param_hash(name, value) for name, value in sorted_.params.items()}
    wire["seeds"] = {name: param_hash(name, value) for name, value in sorted_.seeds.items()}
    wire["told"] = words.told
    wire["dropped"] = sorted(sorted_.dropped)[:500]
    found.notes.extend(words.notes)


def _tell_code(found: Survey, looking: Deadline[Any], home: Optional[Path], budget: Budget) -> None:
    code = looking.wait(budget)
    if code is None:
        found.notes.append(f"the code is unknown: {looking.why}")
        found.wire["code"] = {"state": "unknown"}
        return
    if code.why:
        found.notes.append(f"the code is unknown: {code.why}")
    found.wire.update(entry=code.entry, entry_name=code.entry_name, code=code.code)
    if code.files is None:
        return
    normal = Deadline("normal form", lambda: _normal(code, home, budget))
    told = normal.wait(budget)
    if told is None:
        found.notes.append(f"code that differs in comments alone is not noticed: {normal.why}")
    else:
        code.code.update(told)


def _normal(code: Any, home: Optional[Path], budget: Budget) -> Dict[str, Any]:
    cache = DigestCache(home)
    try:
        return add_normal(code, cache, budget)
    finally:
        cache.close()


def _home(environ: Mapping[str, str]) -> Optional[Path]:
    """Where digests are remembered; None where we may not write."""
    try:
        return collector_home(environ)
    except (ConfigurationError, OSError):
        return None


def home_text(environ: Mapping[str, str]) -> str:
    """The same as text, for a child process; "" where there is none."""
    return os.fspath(_home(environ) or "")


def kind_of(command: Sequence[str], environ: Mapping[str, str]) -> Launched:
    """What a command starts."""
    return launched(command, environ)


def shown(wire: Mapping[str, Any]) -> str:
    """As a tag of MLflow shows it: ``lc1 code=verified params=command data=weak start=verified seeds=known``."""
    told = {
        "code": str(wire.get("code", {}).get("state", "unknown")), "params": "command" if "params" in wire else "unknown",
        "data": _state(wire.get("data")), "start": _state(wire.get("start")),
        "seeds": "unknown" if "seeds" not in wire else "known" if wire["seeds"] else "unset",
    }  # fmt: skip
    return " ".join([str(wire.get("version", "lc1")), *(f"{part}={state}" for part, state in told.items())])


def _state(part: object) -> str:
    if not isinstance(part, Mapping):
        return "unknown"
    return next((state for state in ("verified", "weak") if part.get(state)), "unknown")
