"""Requests of ``import-wandb``: facts, fingerprint and end of a run."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.clock import iso
from labcarbon_collect.command_line import reduce_command
from labcarbon_collect.lc1 import VERSION, Value, param_hash, part_hash, sort_params
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument
from labcarbon_collect.wandb.offline_run import OfflineRun

TOOL = "wandb"
_MAX_PARAMS, _MAX_SEEDS, _MAX_NAME, _MAX_VALUE, _MAX_TEXT = 500, 100, 200, 1024, 1000
_MAX_VALUES_CHARS = 60_000
_KEYBOARD_INTERRUPT = 255  # what W&B's client reports for it


def run_facts(run: OfflineRun, *, project: Optional[str], node: Optional[str]) -> Dict[str, Any]:
    """Return the body of ``PUT runs/<uuid>/``."""
    name = str(run.facts.get("display_name") or run.facts["run_id"])
    facts: Dict[str, Any] = {
        "name": mask_argument(name)[:_MAX_NAME] or "run",
        "started_at": iso(run.started_us),
        "project": project,
        "node": node,
        "host": run.host,
        "params": _displayed_params(run.config),
        "external": {"tool": TOOL, "value": run.key[:_MAX_NAME]},
        "fingerprint": _fingerprint(run),
    }
    command = _command(run)
    if command:
        facts["command"] = reduce_command(command)
    tags = {name: text for name, text in _labels(run).items() if text}
    if tags:
        facts["tags"] = tags
    if run.facts.get("sweep_id"):
        facts.update(intent="sweep", sweep=str(run.facts["sweep_id"])[:100])
    return facts


def end_facts(run: OfflineRun, *, is_abandoned: bool) -> Optional[Dict[str, Any]]:
    """Return the body of ``PATCH runs/<uuid>/``, None for a run that may still compute.

    ``is_abandoned``: the log has no end, and nothing was added for a day.
    """
    if run.exit_code is None and not is_abandoned:
        return None
    facts: Dict[str, Any] = {"ended_at": iso(run.last_us)}
    if run.exit_code is None:
        return {**facts, "state": "killed", "tags": {"wandb_end": "last record: no end reported"}}
    is_killed = run.exit_code == _KEYBOARD_INTERRUPT
    state = "killed" if is_killed else "failed" if run.exit_code else "finished"
    return {**facts, "state": state, "exit_code": run.exit_code}


def _fingerprint(run: OfflineRun) -> Dict[str, Any]:
    """Return the fingerprint. Data and start are unknown, code is weak: W&B knows neither."""
    open_config = {name: value for name, value in run.config.items() if not _is_secret(name, value)}
    sorted_params = sort_params({_short_name(name): value for name, value in open_config.items()})
    labels = {**sorted_params.labels, **_labels(run)}
    dropped = _hashes(sorted_params.dropped)
    dropped.update({_short_name(name): "" for name in run.config if name not in open_config})
    wire: Dict[str, Any] = {"version": VERSION, "labels": _hashes(labels), "dropped": dropped}
    if len(sorted_params.params) <= _MAX_PARAMS and len(sorted_params.seeds) <= _MAX_SEEDS:
        wire["params"] = _hashes(sorted_params.params)
        if sorted_params.seeds:  # without one, the program may still set one
            wire["seeds"] = _hashes(sorted_params.seeds)
        values = {**sorted_params.params, **sorted_params.seeds, **labels}
        wire["told"] = _limited({name: _displayed(value) for name, value in values.items()})
    for part in ("labels", "dropped"):
        wire[part] = dict(list(wire[part].items())[:_MAX_PARAMS])
    if run.environment.get("args"):
        wire["not_compared"] = ["the command line"]
    entry = run.entry
    if entry:
        wire["entry"] = part_hash("entry", entry)
        wire["entry_name"] = mask_argument(os.path.basename(entry))[:255]
    code = _code(run)
    if code:
        wire["code"] = code
    wire["environment"] = {
        name: str(text)[:255] for name, text in (("python", run.environment.get("python")),) if text
    }
    gpu = run.environment.get("gpu")
    if isinstance(gpu, str) and gpu:
        wire["hardware"] = {"gpus": f"{run.environment.get('gpu_count', 1)} × {gpu}"[:255]}
    return wire


def _code(run: OfflineRun) -> Dict[str, Any]:
    """Return part C: the commit with the changes that W&B saved, else the saved program."""
    changes = run.saved_file("diff.patch")
    if run.commit:
        content = ("commit", run.commit, "changes", changes) if changes else ("commit", run.commit)
        code = {"state": "weak", "weak": part_hash(*content), "commit": run.commit}
        return {**code, "dirty": True} if changes else code
    program = run.saved_file(os.path.join("code", run.entry)) if run.entry else ""
    if not program:
        return {}
    return {"state": "weak", "weak": part_hash("program", run.entry, program)}


def _labels(run: OfflineRun) -> Dict[str, str]:
    facts = run.facts
    tags = facts.get("tags")
    texts = {
        "wandb_name": facts.get("display_name"),
        "wandb_project": facts.get("project"),
        "wandb_group": facts.get("run_group"),
        "wandb_job_type": facts.get("job_type"),
        "wandb_tags": ", ".join(sorted(map(str, tags))) if isinstance(tags, list) else "",
        "wandb_notes": facts.get("notes"),
    }
    return {name: mask_argument(str(text))[:_MAX_TEXT] for name, text in texts.items() if text}


def _command(run: OfflineRun) -> List[str]:
    executable, program = run.environment.get("executable"), run.environment.get("program")
    if not executable or not program or str(program).startswith("<"):
        return []
    return [str(executable), str(program)]


def _displayed_params(config: Mapping[str, Value]) -> Dict[str, Value]:
    shown = {
        _short_name(name): MASK if _is_secret(name, value) else _displayed(value)
        for name, value in sorted(config.items())
    }
    return dict(list(shown.items())[:_MAX_PARAMS])


def _displayed(value: Value) -> Any:
    if isinstance(value, (list, dict)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and len(value) > _MAX_VALUE:
        return value[: _MAX_VALUE - 1] + "…"
    return value


def _limited(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the values that fit into a request; others are known by their hash only."""
    shown: Dict[str, Any] = {}
    size = 0
    for name, value in values.items():
        size += len(json.dumps([name, value]))
        if size > _MAX_VALUES_CHARS or len(shown) >= _MAX_PARAMS:
            break
        shown[name] = value
    return shown


def _hashes(values: Mapping[str, Any]) -> Dict[str, str]:
    return {name: param_hash(name, value) for name, value in values.items()}


def _is_secret(name: str, value: Any) -> bool:
    text = json.dumps(value) if isinstance(value, (list, dict)) else value
    return any(is_secret_name(part) for part in name.split(".")) or (
        isinstance(text, str) and is_secret_value(text)
    )


def _short_name(name: str) -> str:
    """Return a name of limited length. Long names end in the hash of the full name."""
    plain = mask_argument(name)
    if len(plain) <= _MAX_NAME:
        return plain
    return f"{plain[:_MAX_NAME]}-{part_hash('name', name)[:8]}"
