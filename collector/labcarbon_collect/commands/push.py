"""Send what is in the spool now, without a daemon: for runs that measured themselves (run --local)."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys

from labcarbon_collect.api.transport import BadAddress, Transport
from labcarbon_collect.api.uploader import Pusher, forward_runs
from labcarbon_collect.config import collector_home, enrolment
from labcarbon_collect.errors import Failed
from labcarbon_collect.identity import Refused, boot_id, node_identity, read_clock
from labcarbon_collect.locks import AlreadyRunning, take
from labcarbon_collect.pseudonyms import user_names
from labcarbon_collect.spool.pseudonymise import settle_names
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

_INTERVAL_US = 60_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def carry_out(options: argparse.Namespace) -> int:
    try:
        home = collector_home(os.environ)
        node = node_identity(home, os.environ)
        lock = take(node.uuid)
        login = enrolment(home, os.environ, node.uuid)
        if login is None:
            raise Failed("this machine is not enrolled: labcarbon-collect enrol URL")
        users = user_names(os.environ)
        spool, transport = Spool(home), Transport(login.url, login.token)
        settle_names(spool, users)
    except AlreadyRunning as error:
        raise Failed(f"{error}; it pushes by itself") from error
    except (Refused, BadAddress, SpoolFull, OSError, sqlite3.Error) as error:
        raise Failed(str(error)) from error
    try:
        return _empty(spool, transport, node.uuid)
    finally:
        transport.close()
        spool.close()
        lock.close()


def _empty(spool: Spool, transport: Transport, node: str) -> int:
    pusher = Pusher(spool, transport, node=node, boot=boot_id(), interval_us=_INTERVAL_US, now=read_clock)
    complaint = forward_runs(spool, transport)
    sent = 0
    while True:
        state = pusher.push()
        sent += state.windows
        if not state.ok:
            raise Failed(f"{sent} windows sent, {spool.depth().rows} kept. {state.error}")
        if not state.more:
            break
    left = spool.depth().rows
    print(f"{sent} windows sent, {left} kept." + (f" {state.error}" if left else ""), file=sys.stderr)
    if complaint:
        raise Failed(complaint)
    return 0 if not left else 1
