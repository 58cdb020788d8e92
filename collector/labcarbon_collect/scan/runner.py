"""The ``labcarbon-collect scan`` command, from its options to the summary."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import List, Optional, Tuple

from labcarbon_collect.api.bulk_uploader import BulkUploader, UploadError
from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.config import (
    Login,
    client_sockets,
    collector_dir,
    is_uuid,
    read_enrolment,
    read_login,
)
from labcarbon_collect.errors import CommandError
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.locks import AlreadyRunning, lock_scan
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.progress import Progress
from labcarbon_collect.pseudonyms import safe_user_names
from labcarbon_collect.scan.description import printable
from labcarbon_collect.scan.hashed_files import ScanState
from labcarbon_collect.scan.local_files import LocalTree, Tree
from labcarbon_collect.scan.object_store import DependencyMissing, ObjectTree, is_address
from labcarbon_collect.scan.queries import ScanQueries
from labcarbon_collect.scan.scanner import Scan, ScanOptions, outermost_folders
from labcarbon_collect.scan.summary import copy_lines, summary_lines
from labcarbon_collect.scan.uploader import Uploader

_MAX_ERRORS, _MAX_COPIES, _MAX_PATHS = 10, 5, 3
_DAEMON_TIMEOUT_S = 2.0


def run_scan(options: argparse.Namespace) -> int:
    """Run one scan. Returns the exit code. Raises CommandError."""
    roots = _roots(options.dirs)
    lock: Optional[socket.socket] = None
    try:
        home = collector_dir(os.environ)
        lock = lock_scan(home)
        state = ScanState(home, dry_run=options.dry_run)
    except (ConfigurationError, AlreadyRunning) as error:
        if lock is not None:
            lock.close()
        raise CommandError(str(error)) from error
    if state.damaged_name:
        _log(
            f"the scan database was damaged and moved to {state.damaged_name}: all files are "
            "hashed again"
        )
    try:
        return _scan(options, roots, state)
    except KeyboardInterrupt:
        _log("stopped; run the same command to continue")
        raise
    finally:
        state.close()
        lock.close()


def _scan(options: argparse.Namespace, roots: List[Tuple[Tree, bytes]], state: ScanState) -> int:
    scan_options = ScanOptions(
        threads=options.threads or len(os.sched_getaffinity(0)),
        medium=options.medium,
        verify=options.verify,
        limit=options.limit_mb_s * 1e6 if options.limit_mb_s else None,
        include_unknown=options.include_unknown,
        report_line=print if options.dry_run else None,
    )
    if options.dry_run:
        scan = Scan(state, scan_options, None, Progress("files"))
        scan.run(roots)
        tally = scan.tally
        print(
            f"{tally.new:,} new, {tally.changed:,} changed, {tally.missing:,} missing; nothing "
            "was hashed or registered"
        )
        _print_problems(scan)
        return 1 if tally.refused or tally.unreadable else 0
    login, node = _login_and_node(has_paths=any(isinstance(tree, LocalTree) for tree, _ in roots))
    try:
        transport = Transport(login.url, login.token)
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error
    common_fields = {"node": node} if node else {}
    uploads = BulkUploader(
        transport, "artifacts/", key="artifacts", common_fields=common_fields, notify=_log
    )
    copy_uploads = BulkUploader(
        transport, "artifacts/copies/", key="copies", common_fields=common_fields, notify=_log
    )
    space_uploads = BulkUploader(
        transport, "artifacts/copies/space/", key="copies", common_fields=common_fields, notify=_log
    )
    uploader = Uploader(
        ScanQueries(state),
        uploads,
        copy_uploads,
        space_uploads,
        server=f"{transport.url} {login.lab} {node}".strip(),
        project=options.project,
        names=safe_user_names(os.environ),
    )
    if options.resend:
        uploader.resend_all()
    scan = Scan(state, scan_options, uploader, Progress("files"))
    try:
        scan.run(roots)
        return _finish_scan(scan, uploader)
    except UploadError as ended:
        raise CommandError(
            f"{ended}. Hashes are saved: run the same command to continue."
        ) from ended
    finally:
        uploader.close()
        transport.close()


def _finish_scan(scan: Scan, uploader: Uploader) -> int:
    """Upload the rest and print the summary. Returns the exit code."""
    totals, outcome = scan.finish(), uploader.outcome
    lines = summary_lines(
        scan.tally,
        artifacts=totals.artifacts,
        size=totals.size,
        moved=totals.moved,
        corrupt=totals.corrupt,
        unknown_medium=totals.unknown_medium,
    )
    largest = totals.copies[:_MAX_COPIES]
    lines += copy_lines(
        totals.copies,
        totals.copy_bytes,
        [scan.queries.paths_of(each[0], _MAX_PATHS) for each in largest],
    )
    counts = ", ".join(f"{count:,} {result}" for result, count in outcome.counts.items())
    lines.append(
        f"registered: {counts}; {uploader.copy_changes_sent:,} copies missing, corrupt or recovered"
    )
    lines += [
        f"  {printable(source)}: {printable(message)}"
        for source, message in outcome.errors[:_MAX_ERRORS]
    ]
    lines += [f"  {printable(text)} ({count:,} times)" for text, count in outcome.notes.items()]
    print("\n".join(lines))
    tally = scan.tally
    return (
        1 if totals.corrupt or tally.refused or tally.unreadable or outcome.counts["refused"] else 0
    )


def _print_problems(scan: Scan) -> None:
    for path, reason in [*scan.tally.unreadable_folders, *scan.tally.refusals][:_MAX_ERRORS]:
        print(f"  {printable(path)}: {reason}")


def _roots(dirs: List[str]) -> List[Tuple[Tree, bytes]]:
    """Return the folders to scan, each with its tree. Raises CommandError for a folder that cannot
    be scanned.
    """
    paths, roots = [], []
    for folder in dirs:
        if is_address(folder):
            try:
                roots.append(
                    (ObjectTree(folder), folder.rstrip("/").encode("utf-8", "surrogateescape"))
                )
            except (DependencyMissing, OSError) as error:
                raise CommandError(f"{printable(folder)}: {error}") from error
        elif not os.path.isdir(folder):
            problem = (
                "is not a folder: pass the folder that contains it"
                if os.path.exists(folder)
                else "does not exist"
            )
            raise CommandError(f"{printable(os.fsencode(folder))} {problem}")
        else:
            paths.append(os.fsencode(os.path.realpath(folder)))
    outermost = outermost_folders(paths)
    local: Tree = LocalTree(outermost)
    return [*((local, path) for path in outermost), *roots]


def _login_and_node(*, has_paths: bool) -> Tuple[Login, str]:
    """Return the login, and the node of the paths: the enrolled one, else the node of the local
    daemon.
    """
    try:
        home = collector_dir(os.environ)
        node = node_identity(home, os.environ).uuid
        enrolled = read_enrolment(home, os.environ, node)
        login = read_login(os.environ) or enrolled
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    if login is None:
        raise CommandError("not logged in: labcarbon-collect login URL")
    if not has_paths and enrolled is None:
        return login, ""
    if enrolled is not None or os.environ.get("LABCARBON_NODE_ID"):
        return login, node
    return login, _daemon_node() or node


def _daemon_node() -> str:
    try:
        client = Client(client_sockets(os.environ), timeout_s=_DAEMON_TIMEOUT_S)
    except DaemonUnavailable:
        return ""
    try:
        node = client.call({"op": "status"}, timeout_s=_DAEMON_TIMEOUT_S).get("node")
    except DaemonUnavailable:
        return ""
    finally:
        client.close()
    return str(node) if is_uuid(node) else ""


def _log(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
