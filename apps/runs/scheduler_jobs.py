"""Runs that are jobs of a scheduler: their UUIDs and the merge of reports from several sources.
Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from apps.ingest.window_rules import job_run

IMPORTED = "import"
MAX_NODES_OF_JOB = 1024
_BETWEEN_NAMES = re.compile(r",(?![^\[\]]*\])")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
# What of a job's facts a later word replaces; the others are set once.
_LATEST = ("state", "exit", "consumed_energy_j")


@dataclass(frozen=True)
class JobIn:
    """The scheduler's job of a run, as reported by a client."""

    scheduler: str
    cluster: str
    job_id: str
    account: str = ""
    partition: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run_uuid(self) -> UUID:
        """The UUID of the run that this job is; a run registered inside the job has another."""
        return job_run(f"{self.cluster}/{self.job_id}")


def merge_job_facts(before: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's facts after an update: GPUs are added by node, state and end are replaced,
    the rest is set once.
    """
    after = dict(before)
    for name, value in update.items():
        if name == "gpus":
            after["gpus"] = dict(
                list({**after.get("gpus", {}), **value}.items())[:MAX_NODES_OF_JOB]
            )
        elif name in _LATEST or name not in after:
            after[name] = value
    return after


def record_reporter(facts: Mapping[str, Any], reporter: str) -> dict[str, Any]:
    """Return facts that record every reporter of the job, the first one first."""
    reporters = list(facts.get("told_by", []))
    if reporter not in reporters and len(reporters) < MAX_NODES_OF_JOB:
        reporters.append(reporter)
    return {**facts, "told_by": reporters}


def count_nodes(nodes: str) -> int:
    """Return the number of nodes in Slurm's notation: 4 for ``gpu[1-3],login``; 1 if unknown.

    https://slurm.schedmd.com/scontrol.html (hostlist expressions)
    """
    names = [name for name in _BETWEEN_NAMES.split(nodes) if name]
    return min(sum(_count_names(name) for name in names) or 1, MAX_NODES_OF_JOB)


def _count_names(name: str) -> int:
    count = 1
    for ranges in _BRACKETS.findall(name):
        ends = [part.partition("-") for part in ranges.split(",")]
        count *= sum(
            max(1, int(last) - int(first) + 1) if first.isdecimal() and last.isdecimal() else 1
            for first, _, last in ends
        )
    return count


def can_join(facts: Mapping[str, Any], reporter: str) -> bool:
    """Return whether a node may report a job that others reported before: it did so before, or
    the job has more nodes than have reported it.
    """
    nodes = [name for name in facts.get("told_by", []) if name != IMPORTED]
    return reporter in nodes or len(nodes) < count_nodes(str(facts.get("nodes", "")))


def can_change_owner(facts: Mapping[str, Any], reporter: str) -> bool:
    """Return whether ``reporter`` may change the owner of a job: its first reporter, and a
    person's import.
    """
    reporters = facts.get("told_by", [])
    return reporter == IMPORTED or not reporters or reporters[0] == reporter


def first_contradiction(before: Mapping[str, str], update: Mapping[str, str]) -> str:
    """Return the name of the first value of ``update`` that differs from ``before``; '' where
    one is empty.
    """
    return next(
        (
            name
            for name, value in update.items()
            if value and before.get(name) and before[name] != value
        ),
        "",
    )
