"""What the server is told of a run that this machine begins: by ``run``, and by what a tracker of experiments starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.api.run_client import Reporter
from labcarbon_collect.pseudonyms import own_name, own_names
from labcarbon_collect.runs import daemon_link
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.background_hash import DigestJob
from labcarbon_collect.runs.daemon_link import Daemon
from labcarbon_collect.runs.options import Work
from labcarbon_collect.runs.startup import Beginning
from labcarbon_collect.slurm.jobs import job_of_environment


@dataclass(frozen=True)
class ToldRun:
    """A run's identity, and what was said of it."""

    run: str
    work: Work
    started_us: int

    def facts(self, daemon: Daemon, wire: Mapping[str, Any]) -> Dict[str, Any]:
        """The body of PUT. As the daemon names us; as this machine's setting says where it does not."""
        user = own_names(os.environ).told(own_name()) if daemon.user is None else daemon.user
        told = run_facts.facts(
            command=self.work.command, project=self.work.project, name=self.work.name, params=self.work.params,
            node=daemon.node, started_us=self.started_us, user=user, whole=self.work.tell_all,
        )  # fmt: skip
        told.update(self.work.beside())
        if wire:
            told["fingerprint"] = run_facts.fingerprint(wire, user)
        job = job_of_environment(os.environ)
        return {**told, "job": job} if job else told


def hash_the_rest(
    told: ToldRun, begun: Beginning, reporter: Optional[Reporter], *, apart: bool = False
) -> Optional[DigestJob]:
    """Hash what is too large to wait for, beside the work; None where there is nothing, or nobody to hear of it.

    ``apart``: this very process is the work.
    """
    if not begun.survey.data and not begun.survey.start:
        return None
    if reporter is None and begun.daemon.client is None:
        return None

    def ready(better: Dict[str, Any]) -> None:
        told_so = run_facts.fingerprint(better, begun.daemon.user)
        if reporter is not None:
            reporter.better(told_so)
        else:
            daemon_link.tell_apart(told.run, closing={"fingerprint": told_so})

    try:
        return DigestJob(begun.survey, os.environ, ready, apart=apart)
    except OSError:
        return None
