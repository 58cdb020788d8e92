"""What ``labcarbon-collect scan`` does, from its options to its last line."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import List, Optional, Tuple

from labcarbon_collect.api.bulk_uploader import BulkUploader, UploadError
from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.config import Login, client_sockets, collector_home, enrolment, is_uuid, read_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.identity import ConfigurationError, node_identity
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.locks import AlreadyRunning, lock_scan
from labcarbon_collect.progress import Progress
from labcarbon_collect.pseudonyms import safe_user_names
from labcarbon_collect.scan.description import shown
from labcarbon_collect.scan.local_files import Local, Tree
from labcarbon_collect.scan.object_store import NotInstalled, Objects, is_address
from labcarbon_collect.scan.queries import Asked
from labcarbon_collect.scan.scanner import Scan, Wanted, outermost
from labcarbon_collect.scan.state import State
from labcarbon_collect.scan.summary import copies_lines, summary
from labcarbon_collect.scan.uploader import Teller

_SHOWN_ERRORS, _SHOWN_COPIES, _SHOWN_PATHS = 10, 5, 3
_PATIENCE_S = 2.0


def scan(options: argparse.Namespace) -> int:
    """Carry out one scan; returns the exit code. Raises Failed."""
    tops = _tops(options.dirs)
    lock: Optional[socket.socket] = None
    try:
        home = collector_home(os.environ)
        lock = lock_scan(home)
        state = State(home, is_dry=options.dry_run)
    except (ConfigurationError, AlreadyRunning) as error:
        if lock is not None:
            lock.close()
        raise CommandError(str(error)) from error
    if state.set_aside:
        _say(f"what scans knew was damaged and is set aside as {state.set_aside}: everything is hashed anew")
    try:
        return _scan(options, tops, state)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on from here")
        raise
    finally:
        state.close()
        lock.close()


def _scan(options: argparse.Namespace, tops: List[Tuple[Tree, bytes]], state: State) -> int:
    wanted = Wanted(
        threads=options.threads or len(os.sched_getaffinity(0)), medium=options.medium, verify=options.verify,
        limit=options.limit_mb_s * 1e6 if options.limit_mb_s else None, take_all=options.take_all,
        say=print if options.dry_run else None,
    )  # fmt: skip
    if options.dry_run:
        going = Scan(state, wanted, None, Progress("files"))
        going.run(tops)
        tally = going.tally
        print(f"{tally.new:,} new, {tally.changed:,} changed, {tally.went:,} missing; nothing was hashed or told")
        _complain(going)
        return 1 if tally.refused or tally.unreadable else 0
    login, node = _whose(has_paths=any(isinstance(tree, Local) for tree, _ in tops))
    try:
        transport = Transport(login.url, login.token)
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error
    beside = {"node": node} if node else {}
    push = BulkUploader(transport, "artifacts/", key="artifacts", beside=beside, say=_say)
    news = BulkUploader(transport, "artifacts/copies/", key="copies", beside=beside, say=_say)
    teller = Teller(
        Asked(state), push, news, server=f"{transport.url} {login.lab} {node}".strip(), project=options.project,
        names=safe_user_names(os.environ),
    )  # fmt: skip
    if options.tell_again:
        teller.forget()
    going = Scan(state, wanted, teller, Progress("files"))
    try:
        going.run(tops)
        return _close(going, teller)
    except UploadError as ended:
        raise CommandError(f"{ended}. What was hashed is kept: the same command goes on from there.") from ended
    finally:
        teller.close()
        transport.close()


def _close(going: Scan, teller: Teller) -> int:
    """Tell the rest, and say what came of it."""
    whole, outcome = going.finish(), teller.outcome
    lines = summary(
        going.tally, artifacts=whole.artifacts, size=whole.size, moved=whole.moved, corrupt=whole.corrupt,
        unknown_medium=whole.unknown_medium,
    )  # fmt: skip
    largest = whole.copies[:_SHOWN_COPIES]
    lines += copies_lines(whole.copies, whole.copy_bytes, [going.asked.paths_of(each[0], _SHOWN_PATHS) for each in largest])
    told = ", ".join(f"{count:,} {result}" for result, count in outcome.counts.items())
    lines.append(f"told the server: {told}; {teller.told_gone:,} copies missing, corrupt or well again")
    lines += [f"  {shown(where)}: {shown(why)}" for where, why in outcome.errors[:_SHOWN_ERRORS]]
    lines += [f"  {shown(text)} ({count:,} times)" for text, count in outcome.notes.items()]
    print("\n".join(lines))
    tally = going.tally
    return 1 if whole.corrupt or tally.refused or tally.unreadable or outcome.counts["refused"] else 0


def _complain(going: Scan) -> None:
    for path, why in [*going.tally.unread, *going.tally.refusals][:_SHOWN_ERRORS]:
        print(f"  {shown(path)}: {why}")


def _tops(dirs: List[str]) -> List[Tuple[Tree, bytes]]:
    """The folders to scan, each with its tree. Raises Failed for one that cannot be scanned at all."""
    paths, tops = [], []
    for each in dirs:
        if is_address(each):
            try:
                tops.append((Objects(each), each.rstrip("/").encode("utf-8", "surrogateescape")))
            except (NotInstalled, OSError) as error:
                raise CommandError(f"{shown(each)}: {error}") from error
        elif not os.path.isdir(each):
            what = "is no folder: name the folder it lies in" if os.path.exists(each) else "is not there"
            raise CommandError(f"{shown(os.fsencode(each))} {what}")
        else:
            paths.append(os.fsencode(os.path.realpath(each)))
    kept = outermost(paths)
    local: Tree = Local(kept)
    return [*((local, path) for path in kept), *tops]


def _whose(*, has_paths: bool) -> Tuple[Login, str]:
    """Whose token, and which node the paths lie on: the enrolled one, else that of the daemon here."""
    try:
        home = collector_home(os.environ)
        own = node_identity(home, os.environ).uuid
        enrolled = enrolment(home, os.environ, own)
        login = read_login(os.environ) or enrolled
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    if login is None:
        raise CommandError("nobody is logged in here: labcarbon-collect login URL")
    if not has_paths and enrolled is None:
        return login, ""
    if enrolled is not None or os.environ.get("LABCARBON_NODE_ID"):
        return login, own
    return login, _daemons_node() or own


def _daemons_node() -> str:
    try:
        client = Client(client_sockets(os.environ), timeout_s=_PATIENCE_S)
    except DaemonUnavailable:
        return ""
    try:
        node = client.call({"op": "status"}, timeout_s=_PATIENCE_S).get("node")
    except DaemonUnavailable:
        return ""
    finally:
        client.close()
    return str(node) if is_uuid(node) else ""


def _say(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
