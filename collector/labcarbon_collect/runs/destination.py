"""The server for which a run is measured. One collector measures a machine, so it may be that of
another installation than the one that the command's own configuration names.
"""

from __future__ import annotations

from typing import Mapping, Optional, Tuple
from urllib.parse import urlsplit

from labcarbon_collect.api.transport import is_loopback
from labcarbon_collect.config import Login, configured_server
from labcarbon_collect.runs.daemon_link import DaemonLink


def destination_line(daemon: DaemonLink, login: Optional[Login]) -> str:
    """Return the line that names the server and lab of a measured run, "" if there is none."""
    if daemon.client is None:
        return ""
    measured = _with_lab(daemon.url, daemon.lab)
    if login is None or _is_same(login.url, daemon.url):
        return f"Measuring for {measured}" if daemon.url else ""
    line = f"Measuring for {_with_lab(login.url, login.lab)}"
    return f"{line}; the collector of this machine uploads to {measured}" if daemon.url else line


def mismatch_warning(daemon: DaemonLink, environ: Mapping[str, str]) -> str:
    """Return a warning if the daemon uploads to another server than the one that the configuration
    of this command names, else "".
    """
    configured = configured_server(environ)
    if daemon.client is None or not daemon.url or configured is None:
        return ""
    url, source = configured
    if _is_same(url, daemon.url):
        return ""
    known = [
        f"process {daemon.pid}" if daemon.pid else "",
        f"data in {daemon.data}" if daemon.data else "",
    ]
    details = ", ".join(text for text in known if text)
    command = "labcarbon-collect daemon"
    if source != "LABCARBON_URL":
        command = f"LABCARBON_DATA={source} {command}"
    return (
        f"{source} names the server {url}, but this machine is measured by the collector of "
        f"{daemon.url}{f' ({details})' if details else ''}: to measure for {url}, stop that "
        f"collector and start yours with {command}"
    )


def _with_lab(url: str, lab: str) -> str:
    return f"{url}, lab {lab}" if lab else url


def _is_same(first: str, second: str) -> bool:
    return _address(first) == _address(second)


def _address(url: str) -> Tuple[str, str, str]:
    """Return scheme, host and path. All names of this machine are one host."""
    try:
        parts = urlsplit(url.strip())
        host = "localhost" if is_loopback(parts.hostname or "") else parts.hostname
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "", url, ""
    return parts.scheme, f"{host}:{port}", parts.path.rstrip("/")
