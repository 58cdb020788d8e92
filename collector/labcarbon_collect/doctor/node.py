"""Checks of this node: processor, processes, clock and data folder."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from labcarbon_collect.config import collector_dir
from labcarbon_collect.doctor.base import Check, register_check
from labcarbon_collect.doctor.data_folder import data_folder
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.sources.base import SourceAbsent
from labcarbon_collect.sources.cpu_model import CpuModel
from labcarbon_collect.spool.capacity import DEFAULT_MAX_BYTES

MIN_PYTHON = (3, 9)


@register_check("python")
def python() -> Check:
    """Check the version of Python."""
    version = platform.python_version()
    if sys.version_info < MIN_PYTHON:
        return Check("python", "bad", f"Python {version} is too old", "install Python 3.9 or newer")
    return Check("python", "ok", f"Python {version}")


@register_check("cpu")
def processor() -> Check:
    """Check the basis of the processor's power model."""
    try:
        devices = CpuModel("doctor").open()
    except SourceAbsent as error:
        return Check("cpu", "bad", error.reason, error.fix or "mount /proc")
    facts = devices[0].facts
    summary = (
        f"{devices[0].name}, {facts['threads']} threads, {int(facts['idle_mw']) / 1000:.1f} to "
        f"{int(facts['max_mw']) / 1000:.1f} W by {facts['model_basis']} (modelled, unless RAPL "
        "measures it)"
    )
    if facts["virtual_machine"] != "no":
        return Check(
            "cpu",
            "warn",
            f"{summary}; virtual machine: host share unknown",
            "measure on the host instead",
        )
    if facts["microarchitecture"] == "unknown":
        return Check(
            "cpu",
            "warn",
            f"{summary}; the processor table has no entry for it",
            "use RAPL if available (see rapl)",
        )
    return Check("cpu", "ok", summary)


@register_check("processes")
def processes() -> Check:
    """Check whether the processes of other users are visible."""
    try:
        options = [
            line.split()[3]
            for line in Path("/proc/mounts").read_text().splitlines()
            if line.split()[1] == "/proc"
        ]
    except OSError as error:
        return Check(
            "processes",
            "bad",
            f"/proc cannot be read ({error.strerror})",
            "mount -t proc proc /proc",
        )
    is_hidden = any(
        "hidepid=" in text and "hidepid=0" not in text and "hidepid=off" not in text
        for text in options
    )
    if is_hidden and os.geteuid() != 0:
        fix = "mount -o remount,hidepid=2,gid=labcarbon /proc"
        return Check(
            "processes",
            "warn",
            "/proc is mounted with hidepid: other users' processes are shown as unknown",
            fix,
        )
    return Check("processes", "ok", "all processes are visible (their environment is never read)")


@register_check("clock")
def clock() -> Check:
    """Check whether a time service synchronises the clock."""
    if Path("/run/systemd/timesync/synchronized").exists() or _is_running(
        "chronyd", "ntpd", "systemd-timesyn", "timesyncd"
    ):
        return Check("clock", "ok", "a time service synchronises the clock")
    return Check(
        "clock",
        "warn",
        "no time service found; windows use this clock if it is within 5 minutes of the server's",
        "timedatectl set-ntp true",
    )


@register_check("data")
def data() -> Check:
    """Check whether the data folder is writable and has space."""
    folder = data_folder()
    if folder.is_inaccessible:
        owner = "another user" if folder.other_owner is None else f"uid {folder.other_owner}"
        return Check(
            "data", "ok", f"{folder.path} belongs to the service's user ({owner}), {folder.origin}"
        )
    try:
        home = collector_dir(folder.environ)
        node = node_identity(home, os.environ)
    except ConfigurationError as error:
        return Check("data", "bad", "the data folder cannot be used", str(error))
    except OSError as error:
        return Check(
            "data",
            "bad",
            f"{folder.path} cannot be used: {error.strerror}",
            "export LABCARBON_DATA=FOLDER",
        )
    free = shutil.disk_usage(home).free
    if free < DEFAULT_MAX_BYTES:
        return Check(
            "data",
            "warn",
            f"{free >> 20} MiB free at {home}; a full spool needs 200 MiB",
            f"free space at {home}",
        )
    return Check("data", "ok", f"{home}, node {node.uuid}, {folder.origin}")


def _is_running(*names: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() in names:
                return True
        except OSError:
            continue
    return False
