"""Which node this machine is: what its data folder says, and what the daemon that measures it says."""

from __future__ import annotations

from pathlib import Path
from typing import List, Mapping

from labcarbon_collect.config import client_sockets, is_uuid
from labcarbon_collect.identity import node_identity
from labcarbon_collect.ipc.client import Client, NoDaemon

_PATIENCE_S = 2.0


def nodes_here(home: Path, environ: Mapping[str, str]) -> List[str]:
    """The UUIDs that this machine goes by. The daemon is root's more often than ours, with a data folder of its own.

    Raises Refused.
    """
    found = [node_identity(home, environ).uuid]
    if environ.get("LABCARBON_NODE_ID"):
        return found
    try:
        client = Client(client_sockets(environ), timeout_s=_PATIENCE_S)
    except NoDaemon:
        return found
    try:
        node = client.call({"op": "status"}, timeout_s=_PATIENCE_S).get("node")
    except NoDaemon:
        node = ""
    finally:
        client.close()
    return [*found, *({str(node)} - set(found))] if is_uuid(node) else found
