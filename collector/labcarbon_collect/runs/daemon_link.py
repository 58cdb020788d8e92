"""What ``run`` says to the daemon of its machine: its beginning, its end, and what the server is to be told later."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from labcarbon_collect.config import client_sockets, is_uuid
from labcarbon_collect.ipc.client import Client, NoDaemon, error_text
from labcarbon_collect.timeouts import A_WHILE_S, PATIENCE_S

_MOST_BYTES = 60 * 1024  # what the daemon takes in a line, less what stands around the facts


@dataclass
class Daemon:
    """The daemon of this machine, if it answers, or why it does not."""

    client: Optional[Client] = None
    node: Optional[str] = None
    url: str = ""
    user: Optional[str] = None  # what it tells instead of our name
    why: str = ""
    gpus: Tuple[str, ...] = ()  # names of the GPUs that it measures


def register(run: str, pid: int, *, facts: Optional[Mapping[str, Any]], patience_s: float = PATIENCE_S) -> Daemon:
    """Register a run. ``facts``: what the daemon tells the server, where we have no token of our own."""
    request: Dict[str, Any] = {"op": "register", "run": run, "pid": pid}
    if facts is not None:
        request["facts"] = forwardable(facts)
    deadline_s = time.monotonic() + patience_s
    try:
        client = Client(client_sockets(os.environ), timeout_s=patience_s / 2)
        answer = client.call(request, timeout_s=max(0.1, deadline_s - time.monotonic()))
    except NoDaemon as error:
        return Daemon(why=str(error))
    wrong = error_text(answer)
    if wrong:
        return Daemon(why=f"the daemon did not register this run: {wrong}")
    node, user = answer.get("node"), answer.get("user")
    return Daemon(
        client, node if is_uuid(node) else None, str(answer.get("url") or ""), user if isinstance(user, str) else None
    )


def look_at_gpus(daemon: Daemon, *, patience_s: float) -> None:
    """Ask which GPUs the machine has, over a connection of its own: a late answer must not be taken for another."""
    try:
        with closing(Client(client_sockets(os.environ), timeout_s=patience_s)) as client:
            answer = client.call({"op": "status"}, timeout_s=max(0.05, patience_s))
    except NoDaemon:
        return
    devices = answer.get("devices")
    found = [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    daemon.gpus = tuple(str(each.get("name"))[:100] for each in found if str(each.get("measurement")).startswith("nvml"))


def gpu_names(gpus: Tuple[str, ...], environ: Mapping[str, str]) -> str:
    """``2 × NVIDIA A100``; fewer where the work sees fewer of one kind. "" where there are none, or which is not known."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        seen = [each for each in visible.split(",") if each.strip() not in ("", "-1")]
        if not seen or len(set(gpus)) != 1:
            return ""
        gpus = gpus[: len(seen)]
    return ", ".join(f"{gpus.count(name)} × {name}" for name in sorted(set(gpus)))[:255]


def end(
    daemon: Daemon, run: str, *, cpu_us: int, closing: Optional[Mapping[str, Any]], goes_on: bool = False
) -> Optional[Dict[str, Any]]:
    """Ask for the run's figures; None when nothing was measured. ``closing``: what the daemon is to tell of the end;
    ``goes_on``: its processes stay and are no longer the run's.
    """
    if daemon.client is None:
        return None
    request: Dict[str, Any] = {"op": "end", "run": run, "children_cpu_us": cpu_us, "goes_on": goes_on}
    if closing is not None:
        request["closing"] = dict(closing)
    answer = ask(daemon, request)
    if answer is None:
        # It may have been restarted under us: it knows the runs of before.
        try:
            daemon.client = Client(client_sockets(os.environ), timeout_s=A_WHILE_S)
        except NoDaemon:
            return None
        answer = ask(daemon, request)
    return answer


def ask(daemon: Daemon, request: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """One request; None where it was not carried out, and ``daemon.why`` says why."""
    assert daemon.client is not None
    try:
        answer = daemon.client.call(request, timeout_s=PATIENCE_S)
    except NoDaemon as error:
        daemon.why = str(error)
        return None
    wrong = error_text(answer)
    if wrong:
        daemon.why = wrong
        return None
    return answer


def tell_later(daemon: Daemon, run: str, *, facts: Optional[Mapping[str, Any]], closing: Mapping[str, Any]) -> bool:
    """Leave it to the daemon to tell the server. Returns whether it took it."""
    told = None if facts is None else forwardable(facts)
    return daemon.client is not None and bool(
        ask(daemon, {"op": "tell", "run": run, "facts": told, "closing": dict(closing)})
    )


def tell_apart(run: str, *, closing: Mapping[str, Any]) -> bool:
    """As :func:`tell_later`, of a run that goes on, over a connection of its own: threads do not share one."""
    try:
        client = Client(client_sockets(os.environ), timeout_s=A_WHILE_S)
    except NoDaemon:
        return False
    daemon = Daemon(client)
    told = tell_later(daemon, run, facts=None, closing=closing)
    client.close()
    return told


def heard(daemon: Daemon, run: str, *, wait: Callable[[float], None] = time.sleep) -> str:
    """What the server has to say of a run that ended before it could: a project that it does not know."""
    deadline_s = time.monotonic() + A_WHILE_S
    while time.monotonic() < deadline_s:
        answer = ask(daemon, {"op": "heard", "run": run})
        if answer is None or not answer["wait"]:
            return "" if answer is None else str(answer["warning"])
        wait(0.05)
    return ""


def forwardable(facts: Mapping[str, Any]) -> Dict[str, Any]:
    """Facts as the daemon takes them, in one line: the hashes of code lines, which only tell likeness, are too many."""
    told = dict(facts)
    fingerprint = told.get("fingerprint")
    if isinstance(fingerprint, Mapping) and isinstance(fingerprint.get("code"), Mapping):
        code = {name: value for name, value in fingerprint["code"].items() if name != "shingles"}
        told["fingerprint"] = {**fingerprint, "code": code}
    if len(json.dumps(told)) > _MOST_BYTES:
        told.pop("fingerprint", None)
    return told
