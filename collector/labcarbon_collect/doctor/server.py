"""Checks of the connection to the server: daemon, enrolment, login, address and certificate."""

from __future__ import annotations

import os
import time
from typing import Optional
from urllib.parse import urlsplit

from labcarbon_collect.api.transport import (
    InvalidUrlError,
    ServerUnavailable,
    Transport,
    is_loopback,
)
from labcarbon_collect.api.uploader import WAITING_FOR_APPROVAL
from labcarbon_collect.config import (
    Login,
    client_sockets,
    collector_dir,
    read_enrolment,
    read_login,
)
from labcarbon_collect.doctor.base import Check, register_check
from labcarbon_collect.doctor.data_folder import daemon_status, data_folder
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, SocketDenied
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.pseudonyms import HASH, KEEP, user_names

_SKEW_S = 5.0


@register_check("daemon")
def daemon() -> Check:
    """Check whether a daemon measures this node."""
    try:
        client = Client(client_sockets(os.environ), timeout_s=2.0)
        status = client.call({"op": "status"}, timeout_s=3.0)
        client.close()
    except SocketDenied as error:
        return Check("daemon", "bad", str(error), "namei -l SOCKET shows the permissions")
    except DaemonUnavailable as error:
        return Check(
            "daemon",
            "warn",
            str(error),
            "labcarbon-collect daemon  (or: systemctl enable --now labcarbon-collect)",
        )
    if status.get("full"):
        return Check("daemon", "bad", str(status["full"]), "free disk space, or restore the server")
    push = status.get("push") or {}
    if push.get("error"):
        return Check(
            "daemon",
            "warn",
            f"measuring at {client.path}; upload: {push['error']}",
            "see the server line below",
        )
    return Check("daemon", "ok", f"measuring and uploading, at {client.path}")


@register_check("users")
def users() -> Check:
    """Check how user names are sent."""
    daemon_stamp = str((daemon_status() or {}).get("users") or "")
    try:
        mode, _, fingerprint = (daemon_stamp or user_names(os.environ).stamp).partition(" ")
    except ConfigurationError as error:
        return Check("users", "bad", "the setting for user names cannot be applied", str(error))
    source = " (reported by the daemon)" if daemon_stamp else ""
    if mode == HASH:
        summary = (
            f"user names are hashed with the key {fingerprint}, the same on every node of the "
            f"lab{source}"
        )
        return Check("users", "ok", summary)
    return Check(
        "users", "ok", f"user names are {'sent unchanged' if mode == KEEP else 'dropped'}{source}"
    )


@register_check("enrolment")
def enrolment_check() -> Check:
    """Check whether this node is enrolled."""
    status = daemon_status()
    if status is not None and status.get("enrolled"):
        return Check(
            "enrolment",
            "ok",
            f"enrolled in lab {status.get('lab')} at {status.get('url')} (reported by the daemon)",
        )
    try:
        login = _node_login()
    except (ConfigurationError, OSError) as error:
        return Check("enrolment", "bad", "the node's token is rejected", str(error))
    if login is None:
        return Check(
            "enrolment",
            "warn",
            "this node is not enrolled: it measures and stores",
            "labcarbon-collect enrol URL",
        )
    return Check("enrolment", "ok", f"enrolled in lab {login.lab or '?'} at {login.url}")


@register_check("login")
def login_check() -> Check:
    """Check whether the user is logged in."""
    try:
        login = read_login(os.environ)
    except ConfigurationError as error:
        return Check("login", "bad", "your token is rejected", str(error))
    if login is None:
        summary = "you are not logged in: runs are registered under your system user"
        return Check("login", "warn", summary, "labcarbon-collect login URL")
    return Check("login", "ok", f"logged in as {login.name or 'LABCARBON_TOKEN'} at {login.url}")


@register_check("server")
def server() -> Check:
    """Check whether the server responds, over a connection that may carry a token."""
    try:
        login = _node_login() or read_login(os.environ)
    except (ConfigurationError, OSError) as error:
        return Check("server", "bad", "no token is available", str(error))
    url = (
        login.url
        if login
        else os.environ.get("LABCARBON_URL") or str((daemon_status() or {}).get("url") or "")
    )
    if not url:
        return Check("server", "absent", "no server is configured", "labcarbon-collect enrol URL")
    started_s = time.time()
    try:
        transport = Transport(url, login.token if login else None, deadline_s=10.0)
        reply = transport.call("GET", "config/")
        transport.close()
    except InvalidUrlError as error:
        return Check("server", "bad", str(error), "export LABCARBON_URL=https://…")
    except ServerUnavailable as error:
        return Check("server", "bad", str(error), f"curl -v {url}/")
    if reply.status == 401 and login is not None:
        return Check(
            "server",
            "bad",
            f"{url} rejected the token: {reply.message}",
            f"labcarbon-collect enrol {url}",
        )
    if reply.error_code == WAITING_FOR_APPROVAL:
        return Check("server", "warn", f"{url}: {reply.message}", "labcarbon-collect status")
    if reply.status not in (200, 401, 403):
        return Check(
            "server", "bad", f"{url} responded {reply.status}: {reply.message}", f"curl -v {url}/"
        )
    server_time_us = reply.body.get("server_time") if isinstance(reply.body, dict) else None
    return _clock_check(url, server_time_us, started_s)


def _clock_check(url: str, server_time_us: object, started_s: float) -> Check:
    channel = (
        "http on this machine" if is_loopback(urlsplit(url).hostname or "") else "verified TLS"
    )
    if isinstance(server_time_us, int):
        skew_s = (started_s + time.time()) / 2 - server_time_us / 1e6
        if abs(skew_s) > _SKEW_S:
            return Check(
                "server",
                "warn",
                f"{url} responds; this clock is off by {skew_s:+.1f} s",
                "timedatectl set-ntp true",
            )
    return Check("server", "ok", f"{url} responds, {channel}")


def _node_login() -> Optional[Login]:
    folder = data_folder()
    if folder.is_inaccessible:
        return None  # the service's own user stores it, so the daemon is queried instead
    home = collector_dir(folder.environ)
    return read_enrolment(home, os.environ, node_identity(home, os.environ).uuid)
