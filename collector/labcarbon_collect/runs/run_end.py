"""End of a run: query its figures, report them to the server, print them."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.figure_text import summary_line
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.runs import daemon_link
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.child_process import ExitStatus
from labcarbon_collect.runs.failure import OomKillCounter, classify_exit
from labcarbon_collect.runs.payload import RunPayload
from labcarbon_collect.runs.startup import RunStartup

Notify = Callable[[str], None]


def close_run(
    payload: RunPayload,
    startup: RunStartup,
    reporter: Optional[RunReporter],
    exit_status: ExitStatus,
    oom_kills: OomKillCounter,
    *,
    server: str,
    budget: Budget,
    notify: Notify,
    command: str = "run",
) -> Optional[Dict[str, Any]]:
    """Query the figures, report the end to the server, print the result. Returns the figures, None
    if nothing was measured. ``command``: the command of ours that started the run.
    """
    daemon = startup.daemon
    closing = run_facts.closing_facts(
        exit_code=exit_status.exit_code,
        killed=bool(exit_status.killed_by),
        ended_us=time.time_ns() // 1000,
    )
    failure_class = classify_exit(exit_status.killed_by, exit_status.exit_code, oom_kills)
    if failure_class:
        closing["failure"] = {"class": failure_class}
    figures = daemon_link.end_run(
        daemon,
        payload.run,
        cpu_us=exit_status.cpu_us,
        closing=closing if reporter is None else None,
    )
    if figures is not None:
        closing["energy_mj"] = int(figures["energy_mj"])
    _report_end(reporter, startup, payload, closing, budget, notify)
    if figures is not None and reporter is None and payload.spec.project and daemon.url:
        figures["warning"] = figures.get("warning") or daemon_link.await_warning(
            daemon, payload.run
        )
    if figures is None:
        notify(
            f"The energy of this run was not measured: {daemon.error} (to measure without a "
            f"daemon: {command} --standalone)"
        )
    else:
        _print_figures(server, payload.run, figures, notify)
    return figures


def _report_end(
    reporter: Optional[RunReporter],
    startup: RunStartup,
    payload: RunPayload,
    closing: Mapping[str, Any],
    budget: Budget,
    notify: Notify,
) -> None:
    """Report the end to the server. If it is not accepted, the daemon forwards it later."""
    if reporter is None:
        return
    facts = payload.facts(startup.daemon, startup.survey.wire)
    if reporter.finish(facts, closing, budget):
        return
    if daemon_link.forward_later(startup.daemon, payload.run, facts=facts, closing=closing):
        if not startup.error:  # the unavailable server was already reported at the start
            notify(
                f"The server is unavailable. The daemon forwards the run later. ({reporter.error})"
            )
    else:
        notify(f"The server does not know this run: {reporter.error}")


def _print_figures(server: str, run: str, figures: Mapping[str, Any], notify: Notify) -> None:
    if figures.get("warning"):
        notify(str(figures["warning"]))
    print(
        summary_line(figures, link=f"{server}/runs/{run}/" if server else "", server=server),
        file=sys.stderr,
    )
