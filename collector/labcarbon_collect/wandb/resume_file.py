"""What earlier imports uploaded: the state of each run's files, and which GPUs it measured when."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.wandb.power import Sample

Spans = Dict[str, Tuple[int, int]]  # GPU → first and last sample, µs UTC


def gpu_spans(samples: Sequence[Sample]) -> Spans:
    """Return for each GPU the time between its first and last sample."""
    spans: Spans = {}
    for moment, powers in samples:
        for gpu in map(str, powers):
            first, last = spans.get(gpu, (moment, moment))
            spans[gpu] = min(first, moment), max(last, moment)
    return spans


class ResumeFile:
    """``runs``: W&B's key → files, node and spans of a run. Another server has its own entries."""

    def __init__(self, path: Path, url: str) -> None:
        self._path, self._url = path, url
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        self._content: Dict[str, Any] = content if isinstance(content, dict) else {}
        runs = self._content.get(url)
        self._runs: Dict[str, Any] = runs if isinstance(runs, dict) else {}

    def is_unchanged(self, files: Sequence[Any], settings: Sequence[Any]) -> bool:
        """Whether a run of these files was uploaded as a whole with the same settings."""
        state = [list(files), list(settings)]
        return any(
            isinstance(run, dict) and run.get("state") == state for run in self._runs.values()
        )

    def shared_with(self, key: str, node: str, spans: Mapping[str, Sequence[int]]) -> Optional[str]:
        """Return the key of another run that measured one of these GPUs at the same time."""
        for other, run in self._runs.items():
            if other == key or not isinstance(run, dict) or run.get("node") != node:
                continue
            for gpu, (first, last) in (run.get("gpus") or {}).items():
                if gpu in spans and spans[gpu][0] < last and first < spans[gpu][1]:
                    return other
        return None

    def add(
        self, key: str, *, state: Optional[List[Any]], node: Optional[str], spans: Spans
    ) -> None:
        """Store an uploaded run. ``state`` None: it has no end yet and is read again next time.
        Raises OSError.
        """
        self._runs[key] = {"state": state, "node": node, "gpus": spans}
        self._content[self._url] = self._runs
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(self._content), encoding="utf-8")
        temporary.replace(self._path)
