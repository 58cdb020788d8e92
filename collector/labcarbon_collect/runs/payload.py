"""Payloads of runs that this node reports: for ``run`` and for runs started by a tracker."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.pseudonyms import current_user_name, safe_user_names
from labcarbon_collect.runs import daemon_link
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.background_hash import BackgroundHash
from labcarbon_collect.runs.daemon_link import DaemonLink
from labcarbon_collect.runs.options import RunSpec
from labcarbon_collect.runs.startup import RunStartup
from labcarbon_collect.slurm.jobs import current_job

_LATE_SURVEY_S = 60.0


@dataclass(frozen=True)
class RunPayload:
    """A run's identity and description."""

    run: str
    spec: RunSpec
    started_us: int

    def facts(self, daemon: DaemonLink, wire: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the body of PUT. The user's name is as the daemon sends it, else as this node's
        setting requires.
        """
        user = (
            safe_user_names(os.environ).public_name(current_user_name())
            if daemon.user is None
            else daemon.user
        )
        facts = run_facts.start_facts(
            command=self.spec.command,
            project=self.spec.project,
            name=self.spec.name,
            params=self.spec.params,
            node=daemon.node,
            started_us=self.started_us,
            user=user,
            full_command=self.spec.full_command,
        )
        facts.update(self.spec.extra_facts())
        if wire:
            facts["fingerprint"] = run_facts.pseudonymise_fingerprint(wire, user)
        job = current_job(os.environ)
        return {**facts, "job": job} if job else facts


def start_background_hash(
    payload: RunPayload,
    startup: RunStartup,
    reporter: Optional[RunReporter],
    *,
    is_detached: bool = False,
) -> Optional[BackgroundHash]:
    """Hash large data in the background. Returns None without such data, or if neither server nor
    daemon is available.

    ``is_detached``: this process is the user's own.
    """
    if not startup.survey.data and not startup.survey.start:
        return None
    if reporter is None and startup.daemon.client is None:
        return None

    def update(fingerprint_parts: Dict[str, Any]) -> None:
        _update_fingerprint(payload, startup, reporter, fingerprint_parts)

    try:
        return BackgroundHash(startup.survey, os.environ, update, is_detached=is_detached)
    except OSError:
        return None


def start_late_survey(
    payload: RunPayload, startup: RunStartup, reporter: Optional[RunReporter]
) -> None:
    """Survey the command again while it runs, if the first survey had too little time, and send
    the improved fingerprint.
    """
    if not startup.survey.is_late or (reporter is None and startup.daemon.client is None):
        return

    def survey_again() -> None:
        survey = payload.spec.survey(_LATE_SURVEY_S)
        if not survey.is_late:
            _update_fingerprint(payload, startup, reporter, survey.wire)

    threading.Thread(target=survey_again, name="late-survey", daemon=True).start()


def _update_fingerprint(
    payload: RunPayload,
    startup: RunStartup,
    reporter: Optional[RunReporter],
    fingerprint_parts: Dict[str, Any],
) -> None:
    fingerprint = run_facts.pseudonymise_fingerprint(fingerprint_parts, startup.daemon.user)
    if reporter is not None:
        reporter.update_fingerprint(fingerprint)
    else:
        daemon_link.forward_detached(payload.run, closing={"fingerprint": fingerprint})
