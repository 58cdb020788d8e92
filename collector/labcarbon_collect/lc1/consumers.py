"""The mark of system processes in consumer keys: the one text that collector and server share."""

from __future__ import annotations

# Longer than the 15 characters of a command in the kernel: no process can give itself this mark.
SYSTEM_MARK = " [system account]"


def is_system(key: str) -> bool:
    """Return whether a consumer key is that of a process of a system account."""
    return key.startswith("proc:") and key.endswith(SYSTEM_MARK)
