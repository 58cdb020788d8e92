"""Upload the spool one time, without a daemon, for example after run --standalone."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys

from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.api.uploader import Uploader, forward_runs
from labcarbon_collect.config import collector_dir, read_enrolment
from labcarbon_collect.errors import CommandError
from labcarbon_collect.locks import AlreadyRunning, lock_node
from labcarbon_collect.node_identity import ConfigurationError, boot_id, node_identity, read_clock
from labcarbon_collect.pseudonyms import user_names
from labcarbon_collect.spool.pseudonymise import pseudonymise_spool
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

_INTERVAL_US = 60_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run(args: argparse.Namespace) -> int:
    try:
        home = collector_dir(os.environ)
        node = node_identity(home, os.environ)
        lock = lock_node(node.uuid)
        login = read_enrolment(home, os.environ, node.uuid)
        if login is None:
            raise CommandError("this machine is not enrolled: labcarbon-collect enrol URL")
        users = user_names(os.environ)
        spool, transport = Spool(home), Transport(login.url, login.token)
        pseudonymise_spool(spool, users)
    except AlreadyRunning as error:
        raise CommandError(f"{error}; the daemon uploads by itself") from error
    except (ConfigurationError, InvalidUrlError, SpoolFull, OSError, sqlite3.Error) as error:
        raise CommandError(str(error)) from error
    try:
        return _upload_all(spool, transport, node.uuid)
    finally:
        transport.close()
        spool.close()
        lock.close()


def _upload_all(spool: Spool, transport: Transport, node: str) -> int:
    uploader = Uploader(
        spool, transport, node=node, boot=boot_id(), interval_us=_INTERVAL_US, now=read_clock
    )
    problem = forward_runs(spool, transport, now_us=read_clock().wall_us)
    uploaded = 0
    while True:
        state = uploader.upload_batch()
        uploaded += state.windows
        if not state.ok:
            raise CommandError(
                f"{uploaded} windows uploaded, {spool.depth().rows} kept. {state.error}"
            )
        if not state.more:
            break
    remaining = spool.depth().rows
    print(
        f"{uploaded} windows uploaded, {remaining} kept."
        + (f" {state.error}" if remaining else ""),
        file=sys.stderr,
    )
    if problem:
        raise CommandError(problem)
    return 0 if not remaining else 1
