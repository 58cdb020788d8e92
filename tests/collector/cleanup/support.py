"""A node with files, a cleanup plan of some of them, and a fake server as strict as the real one.

All state is on disk, so that it survives a killed process."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labcarbon_collect.api.transport import Response, ServerUnavailable
from labcarbon_collect.cleanup.client import PlanClient
from labcarbon_collect.cleanup.journal import Journal
from labcarbon_collect.cleanup.runner import Action, execute, with_undo
from labcarbon_collect.cleanup.session import Session
from labcarbon_collect.cleanup.trash import TRASH
from labcarbon_collect.lc1 import manifest_hash

PLAN = "5e1c2f6a-0f5e-4b1c-9a54-0d2a7e3b9c11"
NODE = str(uuid.uuid4())  # unique to this process: a plan lock exists once per node id on a machine
DAY_US = 86_400_000_000
BEGIN_US = 1_790_000_000_000_000


def read_digest(path: Path) -> tuple[str, str, int, int]:
    """Return (form, digest, bytes, files) of the content at a path, as in docs/artifacts.md."""
    if path.is_file():
        content = path.read_bytes()
        return "file", hashlib.sha256(content).hexdigest(), len(content), 1
    rows = sorted(
        (
            os.fsencode(str(file.relative_to(path))),
            file.stat().st_size,
            hashlib.sha256(file.read_bytes()).digest(),
        )
        for file in path.rglob("*")
        if file.is_file()
    )
    return "folder", manifest_hash(rows), sum(size for _, size, _ in rows), len(rows)


def snapshot(root: Path) -> dict[str, bytes | str | None]:
    """Return {path: content}: bytes of a file, target of a link, None for a folder."""
    found: dict[str, bytes | str | None] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            shown = str(path.relative_to(root))
            found[shown] = (
                str(path.readlink())
                if path.is_symlink()
                else path.read_bytes()
                if path.is_file()
                else None
            )
    return found


def two_days_ago(journal: Path) -> None:
    """Move all entries of the journal two days into the past, because a test cannot wait."""
    entries = [json.loads(row) for row in journal.read_text().splitlines()]
    journal.write_text(
        "".join(
            json.dumps({**entry, "at_us": entry["at_us"] - 2 * DAY_US}) + "\n" for entry in entries
        )
    )


class FakeTransport:
    """The two endpoints of a plan, with the state in a file.

    Each request consumes one of ``faults``: a response or an exception.
    """

    url = "https://lab.example.org"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Any] = []
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda method: None

    def read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.path.read_text())
        return state

    def write(self, state: dict[str, Any]) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(state))
        fresh.replace(self.path)

    def call(self, method: str, path: str, body: Any = None) -> Response:
        self.calls.append(method)
        self.before(method)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return Response(*fault)
        state = self.read()
        if method == "GET":
            return Response(200, {key: value for key, value in state.items() if key != "objected"})
        lines = {line["line"]: line for line in state["lines"]}
        told = {row["line"]: row for row in body["lines"]}
        assert len(body["lines"]) <= 1000
        if state["state"] not in ("approved", "applied"):
            return Response(409, {"error": {"message": "This plan is withdrawn."}})
        if any(
            n not in lines or (n in state["objected"] and not lines[n]["outcome"]) for n in told
        ):
            return Response(
                400, {"error": {"message": "A line is not of this plan, or is not to go."}}
            )
        changed = sum(lines[n]["outcome"] != row["outcome"] for n, row in told.items())
        for number, row in told.items():
            lines[number]["outcome"] = row["outcome"]
            _along(lines[number], lines.values())
        left = [line for line in lines.values() if not line["outcome"]]
        if all(line["stays"] for line in left) and state["state"] == "approved":
            state["state"], state["objected"] = (
                "applied",
                [*state["objected"], *(line["line"] for line in left)],
            )
        self.write(state)
        return Response(200, {"changed": changed})


def _along(folder: dict[str, Any], lines: Iterable[dict[str, Any]]) -> None:
    """Copy the outcome of a folder to the items inside it."""
    for line in lines:
        is_inside = folder["form"] == "folder" and line["path"].startswith(folder["path"] + "/")
        if not is_inside or folder["outcome"] == "refused":
            continue
        if line.get("went_with") == folder["line"] or (
            folder["outcome"] == "trashed" and line["outcome"] in ("", "refused")
        ):
            line["outcome"], line["went_with"] = folder["outcome"], folder["line"]


@dataclass
class World:
    """The node. ``days``: days since the start."""

    root: Path
    days: float = 0
    faults: list[Any] = field(default_factory=list)
    before: Callable[[str], None] = lambda method: None
    on_block: Callable[[int], None] = lambda size: None
    threads: int = 2

    def __post_init__(self) -> None:
        self.disk = self.root / "disk"
        self.disk.mkdir(parents=True)

    @property
    def transport(self) -> FakeTransport:
        return FakeTransport(self.root / "server.json")

    def put(self, name: str, content: bytes | str | None = None) -> Path:
        """Put a file below the disk."""
        path = self.disk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = name if content is None else content
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def plan(
        self, *names: str, stays: dict[str, str] | None = None, state: str = "approved", **more: Any
    ) -> None:
        """Write a plan of paths below the disk with their current content, as lines 1, 2, …"""
        lines = []
        for number, name in enumerate(names, 1):
            form, digest, size, files = read_digest(self.disk / name)
            why = (stays or {}).get(name, "")
            lines.append(
                {
                    "line": number,
                    "path": str(self.disk / name),
                    "digest": digest,
                    "form": form,
                    "bytes": size,
                    "files": files,
                    "name": Path(name).name,
                    "kept": "intermediate",
                    "goes": not why,
                    "stays": why,
                    "outcome": "",
                }
            )
        self.transport.write(
            {
                "plan": PLAN,
                "lab": "cells",
                "node": NODE,
                "hostname": "gpu1",
                "state": state,
                "trash_days": 14,
                "approved_at": "2026-11-01T00:00:00+00:00",
                "approved_by": "pi",
                "lines": lines,
                "objected": [line["line"] for line in lines if line["stays"]],
                **more,
            }
        )

    def change(self, number: int, **facts: Any) -> None:
        """Change a line of the plan on the server."""
        state = self.transport.read()
        state["lines"][number - 1].update(facts)
        self.transport.write(state)

    def pin(self, number: int) -> None:
        self.change(number, goes=False, stays="pinned")

    def object_to(self, number: int) -> None:
        state = self.transport.read()
        state["objected"].append(number)
        self.transport.write(state)
        self.change(number, goes=False, stays="my thesis")

    def outcomes(self) -> list[str]:
        return [line["outcome"] for line in self.transport.read()["lines"]]

    def slot(self, name: str, number: int) -> Path:
        return (self.disk / name).parent / TRASH / PLAN / str(number)

    def tombstone(self, name: str) -> dict[str, Any]:
        path = self.disk / f"{name}.labcarbon-tombstone.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def carry_out(
        self,
        *,
        restore: list[int] | None = None,
        empty: bool = False,
        dry: bool = False,
        sure: bool = True,
    ) -> int:
        """Run the command once; return its exit code."""
        transport = self.transport
        transport.faults, transport.before = self.faults, self.before
        server = PlanClient(transport, PLAN, notify=lambda text: None, sleep=lambda seconds: None)  # type: ignore[arg-type]
        journal = Journal(self.root / "data" / "plans", PLAN)
        now_us = BEGIN_US + int(self.days * DAY_US)
        session = Session(
            server,
            server.fetch_plan(),
            journal,
            by="ana",
            now=lambda: now_us,
            on_block=self.on_block,
            dry_run=dry,
            threads=self.threads,
        )
        try:
            asked = Action(restore=restore, is_purge=empty, is_confirmed=sure)
            return execute(
                with_undo(session), asked, on_start=lambda size: None, on_end=lambda: None
            )
        finally:
            journal.close()


AWAY = ServerUnavailable("nothing answers there", sent=False)
