"""One W&B run, from the records of its offline folders."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.lc1 import flatten
from labcarbon_collect.wandb.power import Sample, gpu_powers
from labcarbon_collect.wandb.reader import OfflineFolder, UnreadableFolder, read_records

_INTERNAL = "_wandb"  # W&B's own entry of the configuration
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z")
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
_PROCESS_GPU = re.compile(r"gpu\.process\.(\d+)\.\w+")
MAX_NAME_LENGTH = 200
Point = Tuple[str, int, Any, int]  # metric, step, number or text of a non-finite one, µs UTC


@dataclass
class OfflineRun:
    """What the records of a run contain. Times are µs UTC.

    ``last_us``: the latest moment of any record. ``exit_code`` None: the run did not report its
    end. ``process_gpus``: the GPUs on which W&B saw the run's processes.
    """

    folders: List[OfflineFolder] = field(default_factory=list)
    facts: Dict[str, Any] = field(default_factory=dict)
    environment: Dict[str, Any] = field(default_factory=dict)
    config: Dict[str, Any] = field(default_factory=dict)
    points: List[Point] = field(default_factory=list)
    left_out: List[str] = field(default_factory=list)
    samples: List[Sample] = field(default_factory=list)
    process_gpus: List[int] = field(default_factory=list)
    started_us: int = 0
    last_us: int = 0
    exit_code: Optional[int] = None

    @property
    def key(self) -> str:
        """The id of the run in W&B: unique in its project."""
        names = (self.facts.get("entity"), self.facts.get("project"), self.facts["run_id"])
        return "/".join(str(name) for name in names if name)

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"wandb:{self.key}"))

    @property
    def host(self) -> str:
        return str(self.facts.get("host") or self.environment.get("host") or "")[:255]

    @property
    def commit(self) -> str:
        git = self.environment.get("git")
        commit = str(git.get("commit", "")) if isinstance(git, Mapping) else ""
        return commit if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit) else ""

    @property
    def entry(self) -> str:
        """The path of the program below the root of its code, '' if there was no script."""
        path = str(self.environment.get("code_path") or "")
        if not path:
            path = Path(str(self.environment.get("program") or "")).name
        return "" if path.startswith("<") else path

    def saved_file(self, name: str) -> str:
        """Return the SHA-256 of a file that W&B saved with the run, '' without one."""
        for folder in reversed(self.folders):
            path = folder.path / "files" / name
            if path.is_file() and path.resolve().is_relative_to(folder.path.resolve()):
                return hashlib.sha256(path.read_bytes()).hexdigest()
        return ""

    def gpu_samples(self) -> List[Sample]:
        """Return the samples of the GPUs that the run used: those with its processes, and all of
        the machine if W&B saw its processes on none.
        """
        used = set(self.process_gpus)
        chosen = [
            (moment, {gpu: watts for gpu, watts in powers.items() if not used or gpu in used})
            for moment, powers in self.samples
        ]
        return [(moment, powers) for moment, powers in chosen if powers]


def read_run(folders: Sequence[OfflineFolder]) -> OfflineRun:
    """Return the run of all its folders (W&B writes one for each resumption), oldest first.

    Raises UnreadableFolder.
    """
    run = OfflineRun()
    for folder in folders:
        _Reading(run, folder).add_records(read_records(folder))
    return run


class _Reading:
    """Adds the records of one folder to a run."""

    def __init__(self, run: OfflineRun, folder: OfflineFolder) -> None:
        self._run, self._folder = run, folder
        self._is_known = False
        run.folders.append(folder)
        run.exit_code = None

    def add_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            content = record.get(record["type"])
            add = getattr(self, f"_add_{record['type']}", None)
            if add is not None and isinstance(content, Mapping):
                add(content)
        if not self._is_known:
            raise UnreadableFolder("the log has no record of a run: it is damaged or not W&B's")

    def _add_run(self, content: Mapping[str, Any]) -> None:
        run, run_id = self._run, str(content.get("run_id", ""))
        if run_id != self._folder.run_id:
            raise UnreadableFolder(f"the log is of run {run_id!r}, not of {self._folder.run_id!r}")
        for name in ("entity", "project"):
            if run.facts and run.facts.get(name, "") != content.get(name, ""):
                raise UnreadableFolder(f"two {name} names have a run {run_id!r}")
        started_us = _moment_us(str(content.get("start_time", "")))
        if started_us is None:
            raise UnreadableFolder("the run has no start")
        self._is_known = True
        run.started_us = min(run.started_us or started_us, started_us)
        self._see(started_us)
        run.facts.update(content)
        self._add_config(content.get("config") or {})

    def _add_config(self, content: Mapping[str, Any]) -> None:
        config = self._run.config
        for name in content.get("remove") or ():
            self._remove(str(name))
        for name, value in (content.get("update") or {}).items():
            if name == _INTERNAL or name.startswith(f"{_INTERNAL}."):
                continue
            self._remove(name)
            config.update(flatten({name: value}))

    def _remove(self, name: str) -> None:
        for known in list(self._run.config):
            if known == name or known.startswith(f"{name}."):
                del self._run.config[known]

    def _add_environment(self, content: Mapping[str, Any]) -> None:
        self._run.environment.update(content)

    def _add_history(self, content: Mapping[str, Any]) -> None:
        item = content.get("item") or {}
        step = item.get("_step", (content.get("step") or {}).get("num"))
        at_s = item.get("_timestamp")
        if not isinstance(step, int) or not isinstance(at_s, (int, float)):
            self._leave_out("points without a step or a time")
            return
        at_us = round(at_s * 1_000_000)
        self._see(at_us)
        media = tuple(name[: -len("_type")] for name in item if name.endswith("._type"))
        for name, value in item.items():
            if name.startswith("_") or name.startswith(media):
                continue
            if len(name) > MAX_NAME_LENGTH:
                self._leave_out(f"metrics whose name has more than {MAX_NAME_LENGTH} characters")
            elif _is_number(value) or value in _NON_FINITE:
                self._run.points.append((name, step, value, at_us))

    def _add_stats(self, content: Mapping[str, Any]) -> None:
        moment = _moment_us(str(content.get("timestamp", "")))
        item = content.get("item") or {}
        if moment is None:
            return
        self._see(moment)
        powers: Dict[int, Fraction] = gpu_powers(item)
        if powers:
            self._run.samples.append((moment, powers))
        for name in item:
            match = _PROCESS_GPU.fullmatch(name)
            if match and int(match[1]) not in self._run.process_gpus:
                self._run.process_gpus.append(int(match[1]))

    def _add_output_raw(self, content: Mapping[str, Any]) -> None:
        moment = _moment_us(str(content.get("timestamp", "")))
        if moment is not None:
            self._see(moment)

    def _add_exit(self, content: Mapping[str, Any]) -> None:
        self._run.exit_code = int(content.get("exit_code", 0))
        self._see(self._started_us() + int(content.get("runtime", 0)) * 1_000_000)

    def _started_us(self) -> int:
        return _moment_us(str(self._run.facts.get("start_time", ""))) or 0

    def _see(self, moment_us: int) -> None:
        self._run.last_us = max(self._run.last_us, moment_us)

    def _leave_out(self, text: str) -> None:
        if text not in self._run.left_out:
            self._run.left_out.append(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _moment_us(text: str) -> Optional[int]:
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    seconds = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return int(seconds.timestamp()) * 1_000_000 + int((match[2] or "0")[:6].ljust(6, "0"))
