"""A daemon that is started for one run and ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Callable

from labcarbon_collect.config import client_sockets, collector_dir, daemon_socket
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.startup_timeout import STARTUP_TIMEOUT_S

_DAEMON_START_S = 8.0


def start_own_daemon(notify: Callable[[str], None]) -> None:
    """Start a daemon for this run unless one is running. Two daemons would measure the same
    meters.
    """
    try:
        Client(client_sockets(os.environ), timeout_s=STARTUP_TIMEOUT_S).close()
        return
    except DaemonUnavailable:
        pass
    try:
        log = (collector_dir(os.environ) / "local.log").open("ab")
    except (ConfigurationError, OSError) as error:
        notify(f"Cannot measure: {error}")
        return
    command = [sys.executable, "-m", "labcarbon_collect", "daemon", "--until-idle"]
    with log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline_s = time.monotonic() + _DAEMON_START_S
    while time.monotonic() < deadline_s and child.poll() is None:
        try:
            Client([daemon_socket(os.environ)], timeout_s=STARTUP_TIMEOUT_S).close()
            return
        except DaemonUnavailable:
            time.sleep(0.02)
    notify(f"The daemon did not start. See {log.name}")
