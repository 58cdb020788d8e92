"""What the server is told of a machine at enrolment: hardware and software, no person's name."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Dict

from labcarbon_collect import __version__


def machine_facts(proc: Path = Path("/proc")) -> Dict[str, str]:
    """Short texts by name; what cannot be found out is left out."""
    facts = {
        "collector": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "system": _system_name(),
        "architecture": platform.machine(),
        "threads": str(os.cpu_count() or ""),
        "cpu": _first_value(proc / "cpuinfo", "model name"),
        "memory_mib": _memory_mib(proc),
        "virtual_machine": "yes" if "hypervisor" in _first_value(proc / "cpuinfo", "flags").split() else "no",
    }
    return {name: value[:256] for name, value in facts.items() if value}


def _system_name() -> str:
    return _first_value(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"') or platform.system()


def _memory_mib(proc: Path) -> str:
    words = _first_value(proc / "meminfo", "MemTotal").split()
    return str(int(words[0]) // 1024) if words and words[0].isdigit() else ""


def _first_value(path: Path, key: str, separator: str = ":") -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, found, value = line.partition(separator)
        if found and name.strip() == key:
            return value.strip()
    return ""
