"""Execute an approved cleanup plan on this machine: move its items to a trash folder beside them.

Every file is verified against its registered hash first. Anything that differs is left in place,
and so are folders with other content, files with several hard links, and anything behind a link.
Of a revision in a cache of the Hugging Face hub, --purge deletes the blobs that no other one uses.
Trashed items can be restored (--restore). --purge deletes them after the plan's retention period.

After an interruption, run the same command to continue. A personal login is required.

exit code: 0; 1 if an item was left in place or not reported
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import List, Mapping

from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.cleanup.client import (
    MAX_RESPONSE_BYTES,
    CleanupPlan,
    PlanClient,
    PlanServerError,
    parse_plan_id,
)
from labcarbon_collect.cleanup.journal import Journal
from labcarbon_collect.cleanup.runner import Action, execute, with_undo
from labcarbon_collect.cleanup.session import Session
from labcarbon_collect.commands import add_alias, thread_count
from labcarbon_collect.config import Login, client_sockets, collector_dir, is_uuid, read_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.locks import AlreadyRunning, lock_cleanup
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.progress import Progress
from labcarbon_collect.runs.preflight_text import plain

_DAEMON_TIMEOUT_S = 2.0


def local_nodes(home: Path, environ: Mapping[str, str]) -> List[str]:
    """Return the UUIDs of this machine: its own, and that of the local daemon, which often runs as
    root with its own data folder.

    Raises ConfigurationError.
    """
    nodes = [node_identity(home, environ).uuid]
    if environ.get("LABCARBON_NODE_ID"):
        return nodes
    try:
        client = Client(client_sockets(environ), timeout_s=_DAEMON_TIMEOUT_S)
    except DaemonUnavailable:
        return nodes
    try:
        node = client.call({"op": "status"}, timeout_s=_DAEMON_TIMEOUT_S).get("node")
    except DaemonUnavailable:
        node = ""
    finally:
        client.close()
    return [*nodes, *({str(node)} - set(nodes))] if is_uuid(node) else nodes


_SERVER_TIMEOUT_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="UUID of the plan, or the URL of its page")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="verify all files and print the actions; change nothing",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--restore",
        nargs="*",
        type=int,
        metavar="ITEM",
        help="restore all items from the trash, or only these",
    )
    purge = action.add_argument(
        "--purge",
        action="store_true",
        help="delete trashed items after the plan's retention period",
    )
    add_alias(action, "--empty", purge)
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="number of items to read in parallel (default: one per core)",
    )
    parser.add_argument("--yes", action="store_true", help="skip the confirmation")


def run(args: argparse.Namespace) -> int:
    try:
        login = _login()
        home = collector_dir(os.environ)
        nodes = local_nodes(home, os.environ)
        plan_id = parse_plan_id(args.plan, login.url)
        transport = Transport(
            login.url,
            login.token,
            deadline_s=_SERVER_TIMEOUT_S,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        server = PlanClient(transport, plan_id, notify=_log)
        plan = server.fetch_plan()
        _check_applicable(plan, nodes)
        lock = lock_cleanup(plan.node)
        journal = Journal(home / "plans", plan.uuid)
    except (
        ConfigurationError,
        InvalidUrlError,
        ValueError,
        PlanServerError,
        AlreadyRunning,
        OSError,
    ) as error:
        raise CommandError(str(error)) from error
    try:
        progress = _ReadProgress()
        threads = args.threads or len(os.sched_getaffinity(0))
        session = Session(
            server,
            plan,
            journal,
            by=_current_user(login),
            now=_now_us,
            on_block=progress,
            dry_run=args.dry_run,
            threads=threads,
        )
        action = Action(restore=args.restore, is_purge=args.purge, is_confirmed=args.yes)
        return execute(with_undo(session), action, on_start=progress.start, on_end=progress.finish)
    finally:
        transport.close()
        journal.close()
        lock.close()


class _ReadProgress:
    """Progress of bytes read, on the terminal."""

    def __init__(self) -> None:
        self._read_bytes, self._total_bytes, self._progress = (
            0,
            0,
            Progress("read", counts_bytes=True),
        )

    def start(self, total_bytes: int) -> None:
        """Start a new progress display."""
        self._total_bytes, self._progress = total_bytes, Progress("read", counts_bytes=True)

    def __call__(self, size: int) -> None:
        self._read_bytes += size
        self._progress.update(
            self._read_bytes, min(1.0, self._read_bytes / max(1, self._total_bytes))
        )

    def finish(self) -> None:
        """Finish the progress display."""
        self._progress.update(self._read_bytes, 1.0, is_final=True)


def _check_applicable(plan: CleanupPlan, nodes: List[str]) -> None:
    if plan.node not in nodes:
        raise ValueError(
            f"this plan is for {plain(plan.hostname, 100)} (node {plain(plan.node, 40)}), this is "
            "node "
            f"{' or '.join(nodes)}: run it there, or set the data folder of that node with "
            "LABCARBON_DATA=FOLDER"
        )
    if plan.state not in ("approved", "applied"):
        raise ValueError(f"this plan is not approved (state: {plan.state}): nothing was moved")


def _login() -> Login:
    login = read_login(os.environ)
    if login is None:
        raise ConfigurationError(
            "not logged in: a node token cannot execute plans. Log in: labcarbon-collect login URL"
        )
    return login


def _current_user(login: Login) -> str:
    try:
        import pwd

        local = pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        local = f"uid {os.geteuid()}"
    return f"{login.name} (as {local})" if login.name else local


def _now_us() -> int:
    return time.time_ns() // 1000


def _log(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
