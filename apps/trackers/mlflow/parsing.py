"""Runs of an MLflow server, parsed and in LabCarbon units. Pure.

Format: MLflow 3, REST API 2.0 (``mlflow/protos/service.proto``). 64-bit numbers are numbers or
text. Non-finite values are text. Any field may be missing.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from apps.core.errors import InvalidInput
from apps.core.text import replace_unstorable
from apps.runs.choices import RunState

US_PER_MS = 1_000
LATEST_MS = 4_102_444_800_000  # 2100
STATES = {
    "RUNNING": RunState.RUNNING,
    "FINISHED": RunState.FINISHED,
    "FAILED": RunState.FAILED,
    "KILLED": RunState.KILLED,
}
RUN_UUID, PART_OF, NODE, HOST = (
    "labcarbon.run_uuid",
    "labcarbon.part_of",
    "labcarbon.node",
    "labcarbon.host",
)
VERDICT, LINK = "labcarbon.verdict", "labcarbon.link"
MAX_PARAMS, MAX_TAGS, MAX_TEXT = 500, 80, 1000
_RUN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
# Names of parameters with the initial weights or checkpoint of a run.
_START = re.compile(
    r"(^|[_./-])(checkpoints?|ckpt|resume\w*|pretrained\w*|weights|init(ial)?_?(from|ckpt|"
    r"checkpoint|weights|model)|restore|"
    r"load|warm_?start\w*|finetune\w*|model_name_or_path|base_model)([_./-]\w+)?$",
    re.IGNORECASE,
)
_NO_START = frozenset({"", "none", "null", "false", "0", "scratch", "random"})


@dataclass(frozen=True)
class Latest:
    """The newest value of a metric: time (ms), step, value as written."""

    at_ms: int
    step: int
    value: str

    def __str__(self) -> str:
        return f"{self.at_ms}:{self.step}:{self.value}"[:100]


@dataclass(frozen=True)
class TrackedRun:
    """A run of MLflow. ``state`` None: scheduled, not started. ``facts_digest``: of all but the
    metrics, ``digest``: of all.

    ``datasets``: (role, name, digest). ``parent``: id of the parent run, or ''.
    """

    run_id: str
    experiment: str
    name: str
    user: str
    state: RunState | None
    start_ms: int
    end_ms: int | None
    params: Mapping[str, str]
    tags: Mapping[str, str]
    latest: Mapping[str, Latest]
    datasets: tuple[tuple[str, str, str], ...]
    facts_digest: str
    digest: str

    @property
    def parent(self) -> str:
        parent = self.tags.get("mlflow.parentRunId", "")
        return parent if _RUN_ID.fullmatch(parent) and parent != self.run_id else ""

    @property
    def last_activity_us(self) -> int:
        """Return the time of the last sign of life. MLflow has no heartbeat, so it is the start
        or a metric.
        """
        return max([self.start_ms, *(value.at_ms for value in self.latest.values())]) * US_PER_MS

    @property
    def is_over(self) -> bool:
        return self.state is not None and self.state != RunState.RUNNING

    @property
    def run_uuid(self) -> UUID | None:
        """Return the UUID that its process set, or None."""
        return self._uuid(RUN_UUID)

    @property
    def part_of(self) -> UUID | None:
        """Return the UUID of the parent that its process set, or None."""
        return self._uuid(PART_OF)

    @property
    def node_uuid(self) -> UUID | None:
        """Return the UUID of the node that its process set, or None."""
        return self._uuid(NODE)

    def _uuid(self, tag: str) -> UUID | None:
        try:
            return UUID(self.tags[tag])
        except (KeyError, ValueError):
            return None

    @property
    def counted_params(self) -> Mapping[str, str]:
        """Return the parameters of the recipe: all or none: a subset would match other runs."""
        return self.params if len(self.params) <= MAX_PARAMS else {}

    @property
    def is_quiet(self) -> bool:
        """Return whether it is part of another run. Only that run gets a verdict."""
        return bool(self.parent) or self.part_of is not None


def read_run(content: Any) -> TrackedRun:
    """Return a run of ``runs/search``. Raises InvalidInput for an invalid one."""
    content = replace_unstorable(content)
    info, data = _part(content, "info"), _part(content, "data", needed=False)
    run_id = str(info.get("run_id") or info.get("run_uuid") or "")
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidInput(f"Invalid run id: {run_id[:40]!r}.")
    tags = {
        name: text for name, text in _pairs(data, "tags").items() if name not in (VERDICT, LINK)
    }
    fields: dict[str, Any] = {
        "run_id": run_id,
        "experiment": str(info.get("experiment_id", "")),
        "name": str(info.get("run_name") or tags.get("mlflow.runName") or run_id)[:200],
        "user": str(tags.get("mlflow.user") or info.get("user_id") or "")[:100],
        "state": STATES.get(str(info.get("status"))),
        "start_ms": _ms(info.get("start_time")) or 0,
        "end_ms": _ms(info.get("end_time")),
        "params": _pairs(data, "params"),
        "tags": tags,
        "latest": _latest(data),
        "datasets": _datasets(_part(content, "inputs", needed=False)),
    }
    facts = _digest({name: value for name, value in fields.items() if name != "latest"})
    return TrackedRun(**fields, facts_digest=facts, digest=_digest(fields))


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, default=str, sort_keys=True).encode()).hexdigest()


def _part(content: Any, name: str, *, needed: bool = True) -> dict[str, Any]:
    part = content.get(name) if isinstance(content, dict) else None
    if not isinstance(part, dict):
        if needed:
            raise InvalidInput(f"The run has no {name!r}.")
        return {}
    return part


def _rows(part: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = part.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _pairs(data: Mapping[str, Any], name: str) -> dict[str, str]:
    return {
        str(row["key"]): str(row.get("value", "")) for row in _rows(data, name) if row.get("key")
    }


def whole(value: Any) -> int | None:
    """Return a 64-bit number as MLflow writes it, or None."""
    try:
        number = (
            int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
        )
    except ValueError:
        return None
    return number if number is not None and abs(number) < 2**63 else None


def _ms(value: Any) -> int | None:
    number = whole(value)
    return number if number is not None and 0 < number < LATEST_MS else None


def _latest(data: Mapping[str, Any]) -> dict[str, Latest]:
    latest: dict[str, Latest] = {}
    for row in _rows(data, "metrics"):
        value = Latest(
            _ms(row.get("timestamp")) or 0, whole(row.get("step")) or 0, str(row.get("value"))
        )
        name = str(row.get("key") or "")
        if name and (
            name not in latest
            or (value.at_ms, value.step) >= (latest[name].at_ms, latest[name].step)
        ):
            latest[name] = value
    return latest


def _datasets(inputs: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    datasets = set()
    for row in _rows(inputs, "dataset_inputs"):
        dataset, role = (
            _part(row, "dataset", needed=False),
            _pairs(row, "tags").get("mlflow.data.context", ""),
        )
        if dataset.get("digest"):
            datasets.add(
                (role[:32], str(dataset.get("name", ""))[:255], str(dataset["digest"])[:100])
            )
    return tuple(sorted(datasets))


def read_points(rows: Any) -> list[tuple[int, int, float | str]]:
    """Return (step, µs UTC, value) of a page of a metric's history. Invalid points are omitted."""
    points: list[tuple[int, int, float | str]] = []
    for row in rows if isinstance(rows, list) else []:
        at_ms = _ms(row.get("timestamp")) if isinstance(row, dict) else None
        if at_ms is None:
            continue
        value = row.get("value")
        if isinstance(value, int | float) and not isinstance(value, bool):
            points.append((whole(row.get("step")) or 0, at_ms * US_PER_MS, float(value)))
        elif isinstance(value, str) and value.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
            points.append((whole(row.get("step")) or 0, at_ms * US_PER_MS, value))
    return points


def numbered(
    points: Sequence[tuple[int, int, float | str]], before: int
) -> list[tuple[int, int, float | str]]:
    """Return points with distinct steps if their client gave none (all are 0): their number in
    order of time.

    ``before``: number of points on earlier pages.
    """
    if any(step for step, _, _ in points) or len(points) + before < 2:
        return list(points)
    return [(before + i, at_us, value) for i, (_, at_us, value) in enumerate(points)]


def project_for(
    name: str, patterns: Iterable[tuple[str, int]], otherwise: int | None
) -> int | None:
    """Return the project of an experiment by the first matching pattern, or None."""
    return next((project for pattern, project in patterns if fnmatchcase(name, pattern)), otherwise)


def select_params(params: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters to store: those that the API accepts as well."""
    fitting = {
        name: text for name, text in params.items() if len(name) <= 256 and len(text) <= 1024
    }
    return dict(sorted(fitting.items())[:MAX_PARAMS])


def select_tags(tags: Mapping[str, str], experiment: str) -> dict[str, str]:
    """Return the tags to store: those of users, and the location of the run in MLflow."""
    own = {
        name: text for name, text in tags.items() if not name.startswith(("mlflow.", "labcarbon."))
    }
    fitting = {
        name: text for name, text in own.items() if len(name) <= 200 and len(text) <= MAX_TEXT
    }
    selected = dict(sorted(fitting.items())[:MAX_TAGS])
    selected["mlflow.experiment"] = experiment[:MAX_TEXT]
    return selected


def from_scratch(params: Mapping[str, str]) -> bool:
    """Return whether no parameter names initial weights."""
    return not any(
        _START.search(name) and text.strip().lower() not in _NO_START
        for name, text in params.items()
    )
