"""A fake /proc: processes that start, work, have children and end. Times are in ticks."""

from __future__ import annotations

import shutil
from pathlib import Path


class ProcTree:
    """A folder that imitates /proc for the collector."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(exist_ok=True)
        self._facts: dict[int, dict[str, object]] = {}

    def put(self, pid: int, **facts: object) -> None:
        """Add or change a process: ppid, comm, start, uid, cgroup, cpu, children, group, session,
        kernel.
        """
        plain = {
            "ppid": 1,
            "comm": "python3",
            "start": pid * 10,
            "uid": 1000,
            "cgroup": "0::/user.slice",
            "cpu": 0,
            "children": 0,
            "group": pid,
            "session": pid,
            "kernel": False,
        }
        now = self._facts[pid] = {**plain, **self._facts.get(pid, {}), **facts}
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        flags = 0x200040 if now["kernel"] else 0x400100
        (folder / "stat").write_text(
            f"{pid} ({now['comm']}) S {now['ppid']} {now['group']} {now['session']} 0 -1 {flags} "
            "1 2 3 4 "
            f"{now['cpu']} 0 {now['children']} 0 20 0 1 0 {now['start']} 1 2 3\n"
        )
        (folder / "status").write_text(f"Name:\t{now['comm']}\nUid:\t{now['uid']}\t0\t0\t0\n")
        (folder / "cgroup").write_text(f"{now['cgroup']}\n")

    def drop(self, pid: int) -> None:
        """Remove the process (ended, or hidden by hidepid=2)."""
        del self._facts[pid]
        shutil.rmtree(self.root / str(pid))
