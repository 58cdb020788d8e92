"""Real collector processes for tests: a daemon, a run, each with its own folder and socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labcarbon_collect.ipc.client import Client, DaemonUnavailable

# For tests that do not measure delays: a busy machine may be slower than the default timeout.
LONG_TIMEOUT = {"LABCARBON_STARTUP_TIMEOUT_S": "30"}
DEFAULT_TIMEOUT = {"LABCARBON_STARTUP_TIMEOUT_S": ""}
COMMAND = [sys.executable, "-m", "labcarbon_collect"]


def wait_for(condition: Callable[[], Any], *, seconds: float = 20) -> Any:
    """Wait until ``condition`` is true and return its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {condition}")


@dataclass
class Collector:
    """One simulated node: its environment, and its daemon if it is started."""

    root: Path
    settings: dict[str, str] = field(default_factory=dict)
    daemon: subprocess.Popen[bytes] | None = None
    node_id: str = field(
        default_factory=lambda: str(uuid.uuid4())
    )  # a simulated node: several run on this machine

    @property
    def socket(self) -> Path:
        return self.root / "collect.sock"

    @property
    def home(self) -> Path:
        return self.root / "data" / "collector"

    @property
    def environ(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
        }
        return {
            **inherited,
            "HOME": str(self.root / "home"),
            "XDG_CONFIG_HOME": str(self.root / "home" / ".config"),
            "LABCARBON_DATA": str(self.root / "data"),
            "LABCARBON_SOCKET": str(self.socket),
            "LABCARBON_SOURCES": "cpu_model",
            "LABCARBON_NODE_ID": self.node_id,
            **LONG_TIMEOUT,
            **self.settings,
        }

    def start(self, *arguments: str, until_ready: bool = True) -> subprocess.Popen[bytes]:
        log = (self.root / "daemon.log").open("ab")
        with log:
            self.daemon = subprocess.Popen(
                [*COMMAND, "daemon", "--interval", "10", *arguments], env=self.environ, stderr=log
            )
        if until_ready:
            wait_for(self.status)
        return self.daemon

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.daemon is not None
        self.daemon.send_signal(number)
        return self.daemon.wait(20)

    def status(self) -> dict[str, Any] | None:
        return self.request({"op": "status"})

    def request(self, request: Any) -> dict[str, Any] | None:
        try:
            client = Client([self.socket], timeout_s=2)
        except DaemonUnavailable:
            return None
        try:
            return client.call(request, timeout_s=5)
        except DaemonUnavailable:
            return None  # it is stopping
        finally:
            client.close()

    def call(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*COMMAND, *arguments], env=self.environ, text=True, **options)

    def log(self) -> str:
        return (self.root / "daemon.log").read_text()

    def enrol(self, url: str) -> None:
        assert self.call("enrol", url, input="code\n").returncode == 0

    def log_in(self, url: str) -> None:
        folder = self.root / "home" / ".config" / "labcarbon"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "login.json"
        path.write_text(
            json.dumps({"url": url, "token": "lc_user_fake", "lab": "cells", "user": "ana"})
        )
        path.chmod(0o600)


def shell(*script: str) -> Sequence[str]:
    """Return a small command."""
    return ["sh", "-c", "; ".join(script)]
