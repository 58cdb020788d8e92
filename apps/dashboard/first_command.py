"""The command that pages offer for a first run: it works when it is pasted."""

import shlex
import sys
from ipaddress import ip_address
from pathlib import Path

from django.http import HttpRequest

COLLECTOR = "labcarbon-collect"
# About ten seconds of one core, with nothing but Python: no file and no package is needed.
WORKLOAD = 'python3 -c "print(sum(i * i for i in range(150_000_000)))"'


def compose_first_command(request: HttpRequest, project: str = "demo") -> str:
    """Return a command that measures a run of ``project``. On the machine of the server the
    collector is called by its path: the environment of ``make run`` is not in PATH.
    """
    path = Path(sys.prefix) / "bin" / COLLECTOR
    is_local = _is_loopback(request.META.get("REMOTE_ADDR", ""))
    collector = shlex.quote(str(path)) if is_local and path.is_file() else COLLECTOR
    return f"{collector} run --project {shlex.quote(project)} -- {WORKLOAD}"


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
