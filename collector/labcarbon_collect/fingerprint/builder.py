"""The fingerprint of a command on its node, in the wire format of docs/fingerprint.md. Never
raises, bounded in time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.config import collector_dir
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.files.read_limits import Budget, Deadline
from labcarbon_collect.fingerprint.code import (
    Code,
    add_normal,
    hash_code,
    omit_files,
    read_code,
)
from labcarbon_collect.fingerprint.digests import (
    FileChanged,
    can_hash_inline,
    content_hashes,
    open_digest_cache,
    within_budget,
)
from labcarbon_collect.fingerprint.environment import environment
from labcarbon_collect.fingerprint.launcher_files import apply_launcher_file
from labcarbon_collect.fingerprint.launchers import Launch, parse_launch
from labcarbon_collect.fingerprint.parameters import (
    CommandParams,
    Surroundings,
    sort_command_params,
    unique_roles,
)
from labcarbon_collect.fingerprint.payload import data_part, scratch_part, start_part
from labcarbon_collect.lc1 import VERSION, param_hash
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.startup_timeout import PART_TIMEOUT_S, STARTUP_TIMEOUT_S

INLINE_HASH_BYTES, INLINE_HASH_FILES, INLINE_HASH_S = (
    64 * 1024 * 1024,
    5000,
    0.15 * STARTUP_TIMEOUT_S,
)
_CODE_SHARE = 0.6  # of the time: parameters need facts of the code
_MAX_DROPPED, _MAX_NOT_COMPARED, _MAX_TEXT = 500, 20, 100
TRAIN = "train"
Paths = List[Tuple[str, str]]


@dataclass
class Survey:
    """A fingerprint and its unverified parts.

    ``data``, ``start``: (role, path) of contents that are not hashed yet. ``notes``: what is
    unknown or weak, and why. ``is_late``: a later survey with more time knows more parameters.
    ``local_values``: values of parameters, seeds and labels for this terminal. They are never sent.
    """

    wire: Dict[str, Any]
    data: Paths = field(default_factory=list)
    start: Paths = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    is_late: bool = False
    local_values: Dict[str, Any] = field(default_factory=dict)


def gather(
    command: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    declared_params: Optional[Mapping[str, Any]] = None,
    intent: str = TRAIN,
    sweep: str = "",
    full_command: bool = False,
    seconds: float = PART_TIMEOUT_S,
) -> Dict[str, Any]:
    """Return the wire object alone: see :func:`survey`."""
    return survey(
        command,
        cwd=cwd,
        environ=environ,
        declared_params=declared_params,
        intent=intent,
        sweep=sweep,
        full_command=full_command,
        seconds=seconds,
    ).wire


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
    full_command: bool = False,
    seconds: float = PART_TIMEOUT_S,
) -> Survey:
    """Examine a command before it starts, within ``seconds``. Parts that take longer are unknown,
    with a note.

    ``declared_params`` take precedence over the command line. ``declared_data`` (role → path) and
    ``declared_start`` (a path) are not named by the command line. ``full_command``: values of the
    command line may be sent.
    """
    budget = Budget(seconds)
    result = Survey({"version": VERSION, "intent": intent, "sweep": sweep[:100]})
    launch = parse_launch(command, environ)
    home = _home(environ)
    code_call = Deadline("code", lambda: read_code(launch, cwd, environ, budget))
    environment_call = Deadline("environment", lambda: environment(launch, cwd, environ))
    code = code_call.wait(Budget(_CODE_SHARE * budget.remaining_s))
    params_call = Deadline(
        "parameters",
        lambda: sort_command_params(
            apply_launcher_file(launch, cwd, environ),
            _surroundings(code, cwd, environ, budget),
            declared=declared_params or {},
            data=declared_data or {},
            start=declared_start,
            full_command=full_command,
        ),
    )
    params = params_call.wait(budget)
    file_parts = None
    if params is None:
        result.notes.append(f"Parameters, data and start unknown: {params_call.error}")
    else:
        if code is None:
            params.not_compared.append("settings that the code reads")
        elif code.program:
            params.not_compared.append("settings that a compiled program reads")
        _add_params(result, params)
        file_parts = _FileParts(params, home, budget)
        unexamined_call = Deadline("unexamined inputs", params.find_unexamined)
    _add_code(result, code_call, params.parsed_files if params else (), home, budget)
    if file_parts is not None:
        file_parts.add_to(result, budget)
        unexamined = unexamined_call.wait(budget)
        if unexamined is None:
            unexamined = ["files that the code names"]
        result.wire["not_compared"] = _limit_texts([*result.wire["not_compared"], *unexamined])
    versions = environment_call.wait(budget)
    if versions:
        result.wire["environment"] = versions
    return result


def _surroundings(
    code: Optional[Code], cwd: str, environ: Mapping[str, str], budget: Budget
) -> Surroundings:
    if code is None or code.files is None:
        return Surroundings(cwd, environ)
    return Surroundings(
        cwd,
        environ,
        code.facts,
        code.files.config_files,
        list(code.files.paths.values()),
        code.path,
        os.path.realpath(code.state.root) if code.state else "",
        code.state.files.keys() if code.state else frozenset(),
        budget,
    )


class _FileParts:
    """Data and start, each examined in its own thread."""

    def __init__(self, params: CommandParams, home: Optional[Path], budget: Budget) -> None:
        self._data_paths, self._start_paths = unique_roles(params.data), unique_roles(params.start)
        self._home = home
        self._manifests: Dict[str, Deadline[List[Manifest]]] = {}
        self._hashes: Dict[str, Deadline[Optional[List[Tuple[str, str]]]]] = {}
        for part, paths in (("data", self._data_paths), ("start", self._start_paths)):
            if paths:
                self._start(part, paths, budget)

    def _start(self, part: str, paths: Paths, budget: Budget) -> None:
        listing = Deadline(part, lambda: [manifest(role, path, budget) for role, path in paths])
        self._manifests[part] = listing
        self._hashes[part] = Deadline(f"{part}-contents", lambda: self._hash(listing, budget))

    def _hash(
        self, listing: Deadline[List[Manifest]], budget: Budget
    ) -> Optional[List[Tuple[str, str]]]:
        """Hash small files. Large ones are left to the background worker."""
        manifests = listing.wait(budget)
        if manifests is None:
            return None
        cache = open_digest_cache(self._home)
        try:
            if not can_hash_inline(
                manifests, cache, max_bytes=INLINE_HASH_BYTES, max_files=INLINE_HASH_FILES
            ):
                return None
            return content_hashes(
                manifests,
                cache,
                on_hashed=within_budget(Budget(min(INLINE_HASH_S, budget.remaining_s))),
            )
        except FileChanged:
            return None
        finally:
            cache.close()

    def add_to(self, result: Survey, budget: Budget) -> None:
        if not self._start_paths:
            result.wire["start"] = scratch_part()
        for part, paths in (("data", self._data_paths), ("start", self._start_paths)):
            if not paths:
                continue
            manifests = self._manifests[part].wait(budget)
            hashes = self._hashes[part].wait(budget)
            if manifests is None:
                result.notes.append(f"The {part} cannot be listed: {self._manifests[part].error}")
            else:
                result.wire[part] = (data_part if part == "data" else start_part)(manifests, hashes)
            if hashes is None:
                (result.data if part == "data" else result.start).extend(paths)


def _add_params(result: Survey, params: CommandParams) -> None:
    wire, sorted_ = result.wire, params.sorted_params
    wire["params"] = {name: param_hash(name, value) for name, value in sorted_.params.items()}
    wire["seeds"] = {name: param_hash(name, value) for name, value in sorted_.seeds.items()}
    wire["told"] = params.values
    wire["labels"] = _hash_values(sorted_.labels)
    wire["dropped"] = _hash_values(sorted_.dropped)
    wire["not_compared"] = _limit_texts(params.not_compared)
    result.notes.extend(params.notes)
    result.is_late = params.is_late
    result.local_values = params.local_values


def _limit_texts(texts: Sequence[str]) -> List[str]:
    return [text[:_MAX_TEXT] for text in dict.fromkeys(texts)][:_MAX_NOT_COMPARED]


def _hash_values(values: Mapping[str, Any]) -> Dict[str, str]:
    """Return the hash of each value, "" for a secret."""
    names = sorted(values)[:_MAX_DROPPED]
    return {name: "" if values[name] is None else param_hash(name, values[name]) for name in names}


def _add_code(
    result: Survey,
    code_call: Deadline[Code],
    parsed_files: Collection[str],
    home: Optional[Path],
    budget: Budget,
) -> None:
    code = code_call.wait(budget)
    if code is None:
        result.notes.append(f"Code unknown: {code_call.error}")
        result.wire["code"] = {"state": "unknown"}
        return
    if code.error:
        result.notes.append(f"Code unknown: {code.error}")
    omit_files(code, parsed_files)
    part = hash_code(code)
    result.wire.update(entry=code.entry, entry_name=code.entry_name, code=part)
    if code.files is None:
        return
    normal_call = Deadline("normal form", lambda: _normalise(code, home, budget))
    normal_form = normal_call.wait(budget)
    if normal_form is None:
        result.notes.append(
            f"Code that differs only in comments counts as different: {normal_call.error}"
        )
    else:
        part.update(normal_form)


def _normalise(code: Code, home: Optional[Path], budget: Budget) -> Dict[str, Any]:
    cache = DigestCache(home)
    try:
        return add_normal(code, cache, budget)
    finally:
        cache.close()


def _home(environ: Mapping[str, str]) -> Optional[Path]:
    """Return the folder of stored digests, or None if it is not writable."""
    try:
        return collector_dir(environ)
    except (ConfigurationError, OSError):
        return None


def home_text(environ: Mapping[str, str]) -> str:
    """Return the same as text for a child process, or ""."""
    return os.fspath(_home(environ) or "")


def kind_of(command: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """Return what a command starts."""
    return parse_launch(command, environ)


def format_fingerprint(wire: Mapping[str, Any]) -> str:
    """Return the states as in the MLflow tag: ``lc2 code=verified params=command data=weak
    start=verified seeds=known``.
    """
    states = {
        "code": str(wire.get("code", {}).get("state", "unknown")),
        "params": "command" if "params" in wire else "unknown",
        "data": _state(wire.get("data")),
        "start": _state(wire.get("start")),
        "seeds": "unknown" if "seeds" not in wire else "known" if wire["seeds"] else "unset",
    }
    return " ".join(
        [str(wire.get("version", VERSION)), *(f"{part}={state}" for part, state in states.items())]
    )


def _state(part: object) -> str:
    if not isinstance(part, Mapping):
        return "unknown"
    return next((state for state in ("verified", "weak") if part.get(state)), "unknown")
