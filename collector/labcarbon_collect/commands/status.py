"""Show the daemon's meters, spool and last upload."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any, Dict, Iterator, Mapping

from labcarbon_collect.config import client_sockets
from labcarbon_collect.errors import CommandError
from labcarbon_collect.figure_text import energy_text
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error

_TIMEOUT_S = 5.0
_MAX_SKEW_US = 5_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    status = query_status()
    if args.json:
        print(json.dumps(status, indent=2, sort_keys=True))
    else:
        print("\n".join(format_lines(status, now_us=time.time_ns() // 1000)))
    return 0 if not status["full"] else 1


def query_status() -> Dict[str, Any]:
    """Query the daemon. Raises CommandError."""
    try:
        client = Client(client_sockets(os.environ), timeout_s=_TIMEOUT_S)
        response = client.call({"op": "status"}, timeout_s=_TIMEOUT_S)
        client.close()
    except DaemonUnavailable as error:
        raise CommandError(str(error)) from error
    message = response_error(response)
    if message:
        raise CommandError(message)
    return {**response, "socket": str(client.path)}


def format_lines(status: Mapping[str, Any], *, now_us: int) -> Iterator[str]:
    """Yield the status as text."""
    yield (
        f"node      {status['node']}  (collector {status['version']}, pid {status['pid']}, "
        f"{status['socket']})"
    )
    server = f"{status['url']} (lab {status['lab']})" if status["enrolled"] else "not enrolled"
    yield f"server    {server}"
    yield f"users     {status['users']}"
    for name, source in status["sources"].items():
        reason = f": {source['why']}" if source["why"] else ""
        fix = f"  → {source['mend']}" if source["mend"] else ""
        yield f"source    {name} {source['state']}{reason}{fix}"
    for device in status["devices"]:
        age = _format_age(device["last_reading_us"], now_us)
        yield f"device    {device['device']}  {device['name']}  {device['measurement']}, read {age}"
    for problem in status.get("device_problems", ()):
        yield (
            f"device    {problem['device'] or problem['name']}  {problem['name']}  "
            f"{problem['state']}, since {_format_age(problem['since_us'], now_us)}: "
            f"{problem['reason']}"
        )
    spool, results = status["spool"], status["answered"]
    yield (
        f"spool     {spool['rows']} windows waiting, {spool['bytes'] // 1024} KiB, "
        f"{spool['dead']} rejected"
    )
    for result, total in sorted(results.items()):
        yield (f"server    {result}: {total['windows']} windows, {energy_text(total['energy_mj'])}")
    upload = status["push"]
    yield f"upload    last success {_format_age(upload['at_us'], now_us)}" + (
        f"; {upload['error']}" if upload["error"] else ""
    )
    if status["skew_us"] is not None:
        warning = (
            " (more than 5 s: set this machine's clock)"
            if abs(status["skew_us"]) > _MAX_SKEW_US
            else ""
        )
        yield f"clock     {status['skew_us'] / 1e6:+.3f} s against the server{warning}"
    jobs = status.get("jobs")
    if jobs:
        yield f"slurm     {jobs['watched']} jobs watched" + (
            f"; {jobs['error']}" if jobs["error"] else ""
        )
    refused = status.get("refused_messages") or {"count": 0}
    if refused["count"]:
        yield f"runs      {refused['count']} messages refused and kept: {refused['reason']}"
    for text in (*status["notes"], status["full"], status["complaint"]):
        if text:
            yield f"note      {text}"


def _format_age(moment_us: Any, now_us: int) -> str:
    return "never" if moment_us is None else f"{max(0, now_us - int(moment_us)) // 1_000_000} s ago"
