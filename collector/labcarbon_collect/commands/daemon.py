"""Measure this machine, store the energy windows, and upload them to the server.

It works without a server: windows wait in the spool until the machine is enrolled and the server
responds. SIGTERM or Ctrl-C stops it after all windows are stored.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Optional

from labcarbon_collect import config
from labcarbon_collect.api.start_problem import report_start_problem
from labcarbon_collect.commands import add_alias
from labcarbon_collect.daemon.daemon import Daemon, DaemonSettings
from labcarbon_collect.errors import CommandError
from labcarbon_collect.locks import AlreadyRunning
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.processes.consumers import ConsumerResolver
from labcarbon_collect.pseudonyms import user_names
from labcarbon_collect.sources.base import Reading
from labcarbon_collect.sources.replay import TraceWriter
from labcarbon_collect.spool.schema import SpoolFull


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=_interval,
        metavar="S",
        help=f"seconds per window, {config.MIN_INTERVAL_S} to {config.MAX_INTERVAL_S} "
        f"(default: LABCARBON_INTERVAL_S, else {config.DEFAULT_INTERVAL_S})",
    )
    no_upload = parser.add_argument(
        "--no-upload", action="store_true", help="measure and store only"
    )
    add_alias(parser, "--no-push", no_upload)
    parser.add_argument(
        "--until-idle", action="store_true", help="end after all runs registered with it have ended"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="also write all readings to FILE as a trace for replay"
    )


def run(args: argparse.Namespace) -> int:
    with ExitStack() as stack:
        on_reading = _recorder(args.record, stack) if args.record else None
        daemon = _open_daemon(args, on_reading)
        devices = daemon.monitor.sources.devices
        print(
            f"labcarbon-collect: node {daemon.node.uuid}, socket {daemon.server.path}",
            file=sys.stderr,
        )
        for key, info in devices.items():
            print(
                f"labcarbon-collect: measuring {key} ({info.name}, {info.measurement})",
                file=sys.stderr,
            )
        if not devices:
            print(
                (
                    "labcarbon-collect: nothing can be measured; diagnose with: labcarbon-collect "
                    "doctor"
                ),
                file=sys.stderr,
            )
            if not args.no_upload:
                report_start_problem(
                    os.environ, "nothing can be measured: no meter was found", is_locked=True
                )
        sys.stderr.flush()
        daemon.run()
    return 0


def _open_daemon(
    args: argparse.Namespace, on_reading: Optional[Callable[[Reading], None]]
) -> Daemon:
    """Return the daemon with all its resources. Raises CommandError, after a report to the server
    unless another daemon is running.
    """
    try:
        interval_s = args.interval or config.daemon_interval_s(os.environ)
        users = user_names(os.environ)
        settings = DaemonSettings(
            interval_s, not args.no_upload, args.until_idle, on_reading, users
        )
        return Daemon(os.environ, settings, consumers=ConsumerResolver(users=users))
    except AlreadyRunning as error:
        raise CommandError(str(error)) from error
    except (ConfigurationError, SpoolFull, ValueError, OSError, sqlite3.Error) as error:
        reason = str(error)
        if not args.no_upload:
            report_start_problem(os.environ, reason)
        raise CommandError(reason) from error
    except Exception as error:
        if not args.no_upload:
            report_start_problem(os.environ, f"unexpected error: {type(error).__name__}")
        raise


def _recorder(path: str, stack: ExitStack) -> Callable[[Reading], None]:
    try:
        out = stack.enter_context(Path(path).open("w", encoding="utf-8"))  # noqa: SIM115 - closed by the stack
    except OSError as error:
        raise CommandError(f"cannot write the trace {path}: {error.strerror}") from error
    return TraceWriter(out).write


def _interval(text: str) -> int:
    try:
        return config.interval_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
