"""Requests of a run to the daemon of its node: registration, end, and facts to forward to the
server.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from labcarbon_collect.config import client_sockets, is_uuid
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.startup_timeout import PART_TIMEOUT_S, STARTUP_TIMEOUT_S

_MAX_BYTES = 60 * 1024  # the daemon's limit of a line, less the rest of the request


@dataclass
class DaemonLink:
    """The connection to this node's daemon, or the reason why there is none."""

    client: Optional[Client] = None
    node: Optional[str] = None
    url: str = ""
    user: Optional[str] = None  # pseudonym of the user
    error: str = ""
    gpus: Tuple[str, ...] = ()  # names of the measured GPUs
    lab: str = ""
    pid: int = 0
    data: str = ""  # its data folder


def register(
    run: str, pid: int, *, facts: Optional[Mapping[str, Any]], timeout_s: float = STARTUP_TIMEOUT_S
) -> DaemonLink:
    """Register a run. ``facts``: sent to the server by the daemon, for users without a token."""
    request: Dict[str, Any] = {"op": "register", "run": run, "pid": pid}
    if facts is not None:
        request["facts"] = trim_facts(facts)
    deadline_s = time.monotonic() + timeout_s
    try:
        client = Client(client_sockets(os.environ), timeout_s=timeout_s / 2)
        response = client.call(request, timeout_s=max(0.1, deadline_s - time.monotonic()))
    except DaemonUnavailable as error:
        return DaemonLink(error=str(error))
    error_message = response_error(response)
    if error_message:
        return DaemonLink(error=f"the daemon did not register this run: {error_message}")
    node, user, process = (response.get("node"), response.get("user"), response.get("pid"))
    return DaemonLink(
        client,
        node if is_uuid(node) else None,
        str(response.get("url") or ""),
        user if isinstance(user, str) else None,
        lab=str(response.get("lab") or ""),
        pid=process if isinstance(process, int) else 0,
        data=str(response.get("data") or ""),
    )


def query_node(*, timeout_s: float) -> Optional[str]:
    """Return the UUID of this node, None without a daemon."""
    try:
        with closing(Client(client_sockets(os.environ), timeout_s=timeout_s)) as client:
            node = client.call({"op": "status"}, timeout_s=timeout_s).get("node")
    except DaemonUnavailable:
        return None
    return node if is_uuid(node) else None


def query_gpus(daemon: DaemonLink, *, timeout_s: float) -> None:
    """Query the names of this node's GPUs over a separate connection, so that a late response is
    not mistaken for another.
    """
    try:
        with closing(Client(client_sockets(os.environ), timeout_s=timeout_s)) as client:
            response = client.call({"op": "status"}, timeout_s=max(0.05, timeout_s))
    except DaemonUnavailable:
        return
    devices = response.get("devices")
    device_rows = (
        [device for device in devices if isinstance(device, dict)]
        if isinstance(devices, list)
        else []
    )
    daemon.gpus = tuple(
        str(device.get("name"))[:100]
        for device in device_rows
        if str(device.get("measurement")).startswith("nvml")
    )


def describe_gpus(gpus: Tuple[str, ...], environ: Mapping[str, str]) -> str:
    """Return text like ``2 × NVIDIA A100``.

    The count is lower if the command sees fewer GPUs of one kind. Returns "" without GPUs, or if
    the visible ones are unknown.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        visible_gpus = [index for index in visible.split(",") if index.strip() not in ("", "-1")]
        if not visible_gpus or len(set(gpus)) != 1:
            return ""
        gpus = gpus[: len(visible_gpus)]
    return ", ".join(f"{gpus.count(name)} × {name}" for name in sorted(set(gpus)))[:255]


def end_run(
    daemon: DaemonLink,
    run: str,
    *,
    cpu_us: int,
    closing: Optional[Mapping[str, Any]],
    process_continues: bool = False,
) -> Optional[Dict[str, Any]]:
    """End the run and return its figures, or None if nothing was measured.

    ``closing``: facts of the end for the daemon to forward. ``process_continues``: the processes
    outlive the run.
    """
    if daemon.client is None:
        return None
    request: Dict[str, Any] = {
        "op": "end",
        "run": run,
        "children_cpu_us": cpu_us,
        "goes_on": process_continues,
    }
    if closing is not None:
        request["closing"] = dict(closing)
    response = call(daemon, request)
    if response is None:
        # The daemon may have been restarted. It still knows earlier runs.
        try:
            daemon.client = Client(client_sockets(os.environ), timeout_s=PART_TIMEOUT_S)
        except DaemonUnavailable:
            return None
        response = call(daemon, request)
    return response


def call(daemon: DaemonLink, request: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Send one request. Returns None if it failed, with the reason in ``daemon.error``."""
    assert daemon.client is not None
    try:
        response = daemon.client.call(request, timeout_s=STARTUP_TIMEOUT_S)
    except DaemonUnavailable as error:
        daemon.error = str(error)
        return None
    error_message = response_error(response)
    if error_message:
        daemon.error = error_message
        return None
    return response


def forward_later(
    daemon: DaemonLink, run: str, *, facts: Optional[Mapping[str, Any]], closing: Mapping[str, Any]
) -> bool:
    """Ask the daemon to forward facts to the server. Returns whether it accepted them."""
    trimmed_facts = None if facts is None else trim_facts(facts)
    return daemon.client is not None and bool(
        call(daemon, {"op": "tell", "run": run, "facts": trimmed_facts, "closing": dict(closing)})
    )


def forward_detached(run: str, *, closing: Mapping[str, Any]) -> bool:
    """Forward facts of an active run over a separate connection, because threads do not share
    one.
    """
    try:
        client = Client(client_sockets(os.environ), timeout_s=PART_TIMEOUT_S)
    except DaemonUnavailable:
        return False
    daemon = DaemonLink(client)
    is_accepted = forward_later(daemon, run, facts=None, closing=closing)
    client.close()
    return is_accepted


def await_warning(
    daemon: DaemonLink, run: str, *, sleep: Callable[[float], None] = time.sleep
) -> str:
    """Return the server's warning about a run that has ended, such as an unknown project, or ""."""
    deadline_s = time.monotonic() + PART_TIMEOUT_S
    while time.monotonic() < deadline_s:
        response = call(daemon, {"op": "heard", "run": run})
        if response is None or not response["wait"]:
            return "" if response is None else str(response["warning"])
        sleep(0.05)
    return ""


def trim_facts(facts: Mapping[str, Any]) -> Dict[str, Any]:
    """Return facts that fit the daemon's line limit. The hashes of code lines are left out, because
    they only measure similarity.
    """
    trimmed = dict(facts)
    fingerprint = trimmed.get("fingerprint")
    if isinstance(fingerprint, Mapping) and isinstance(fingerprint.get("code"), Mapping):
        code = {name: value for name, value in fingerprint["code"].items() if name != "shingles"}
        trimmed["fingerprint"] = {**fingerprint, "code": code}
    if len(json.dumps(trimmed)) > _MAX_BYTES:
        trimmed.pop("fingerprint", None)
    return trimmed
