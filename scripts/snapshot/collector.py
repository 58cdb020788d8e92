"""Records JSON output, requests and stored data of the collector: a simulated node, a stepped
meter, fixed folders.
"""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from labcarbon_collect.api.transport import Transport
from labcarbon_collect.api.uploader import Uploader
from labcarbon_collect.sources.base import ProcessUse

from scripts.snapshot.fixed_clock import frozen, reseed
from tests.collector.cleanup.support import World
from tests.collector.collector_process import Collector, wait_for
from tests.collector.readings import write_trace
from tests.collector.simulated_node import FakeConsumers, Machine, node_monitor
from tests.fakes import labcarbon_server

NODE = "0e7b9c1a-0000-4000-8000-00000000000a"
RUN, OTHER = "6a1f0f3e-0000-4000-8000-00000000000a", "6a1f0f3e-0000-4000-8000-00000000000b"
FIXED_UUIDS = frozenset({NODE, RUN, OTHER})
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
COMMANDS = (
    "run", "check", "login", "enrol", "daemon", "status", "top", "doctor", "epilog", "scan",
    "apply-plan", "import-sacct", "upload",
)  # fmt: skip
# Keys below which values depend on the machine or the time: only the shape is written.
MACHINE_KEYS = frozenset({
    "environment", "hardware", "host", "hostname", "pid", "user", "started_at", "ended_at",
    "sent_at", "monotonic", "boot", "health", "at_us", "place", "modified_at", "device_facts",
    "python", "uid", "kernel",
})  # fmt: skip
# Keys whose texts are words for programs, also where only the shape is written.
STABLE_KEYS = frozenset(
    {"state", "measurement", "schema", "op", "level", "quality", "kind", "name", "outcome"}
)
MEASURED = ("_mw", "_us", "_pm", "_mib")
SCRIPT = "import argparse\nimport model\n\n# Train.\nprint(model.layers(3))\n"
MODEL = "def layers(number):\n    return [number] * number\n"
GIT = {
    "GIT_AUTHOR_NAME": "ana", "GIT_AUTHOR_EMAIL": "ana@example.org", "GIT_COMMITTER_NAME": "ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org", "GIT_AUTHOR_DATE": "2026-11-02T08:00:00Z",
    "GIT_COMMITTER_DATE": "2026-11-02T08:00:00Z", "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


def shape(value: Any, key: str = "") -> Any:
    """Return the keys and types of a value; of a list the distinct shapes."""
    if isinstance(value, dict):
        return {str(name): shape(part, str(name)) for name, part in value.items()}
    if isinstance(value, list):
        shapes = [shape(part, key) for part in value]
        return [part for number, part in enumerate(shapes) if part not in shapes[:number]]
    if isinstance(value, str) and key in STABLE_KEYS:
        return value
    if value is None and key.endswith(MEASURED):  # nothing read yet
        return "number"
    return (
        "number"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else type(value).__name__
    )


def masked(value: Any, root: Path) -> Any:
    """Return a value whose machine-dependent parts are shapes, and in whose texts the folder is
    named ROOT.
    """
    if isinstance(value, dict):
        return {
            str(name).replace(str(root), "ROOT"): shape(part, str(name))
            if name in MACHINE_KEYS
            else masked(part, root)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [masked(part, root) for part in value]
    return without_chance(value.replace(str(root), "ROOT")) if isinstance(value, str) else value


def without_chance(text: str) -> str:
    """Return a text in which drawn UUIDs are named UUID."""
    return _UUID.sub(lambda match: match[0] if match[0] in FIXED_UUIDS else "UUID", text)


def record_all(folder: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return all facts of the collector."""
    facts = {}
    for name, record in (
        ("options", _options),
        ("daemon", _daemon),
        ("measured", _measured),
        ("check", _check),
        ("run", _run),
        ("scan", _scan),
        ("apply-plan", _apply_plan),
        ("import-sacct", _import_sacct),
    ):
        (folder / name).mkdir()
        facts[name] = record(folder / name)
        progress(f"collector: {name}")
    return facts


def _collector(root: Path, **settings: str) -> Collector:
    return Collector(root, settings, node_id=NODE)


def _requests(server: Any, root: Path, show: Callable[[Any, Path], Any] = masked) -> list[Any]:
    return [
        {
            "method": request.method,
            "path": without_chance(request.path),
            "body": show(request.body, root),
        }
        for request in server.requests
    ]


def _shape_of(value: Any, root: Path) -> Any:
    return shape(value)


def _options(root: Path) -> Any:
    """Return the options of each command."""
    collector = _collector(root)
    options = {}
    for command in COMMANDS:
        text = collector.call(command, "--help").stdout
        options[command] = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))
    return options


def _daemon(root: Path) -> Any:
    """Return the responses of a daemon that replays a trace, and its requests to the server."""
    write_trace(root / "trace", seconds=30, seed=1)
    node = _collector(
        root, LABCARBON_SOURCES="replay,cpu_model", LABCARBON_REPLAY=str(root / "trace")
    )
    with labcarbon_server.running() as server:
        node.start()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        try:
            node.enrol(server.url)
            run = {"run": RUN}
            socket = {}
            for name, request in (
                ("register", {"op": "register", **run, "pid": child.pid}),
                ("register twice", {"op": "register", **run, "pid": child.pid}),
                ("so_far", {"op": "so_far", **run}),
                ("job", {"op": "job", "job": "hpc/1"}),
                ("top", {"op": "top"}),
                ("heard", {"op": "heard", **run}),
                ("status", {"op": "status"}),
                ("tell", {"op": "tell", **run, "facts": {"name": "train.py"}}),
                ("unknown", {"op": "fly"}),
                ("empty", {}),
                ("wrong", {"op": "register", "run": "x", "pid": child.pid}),
                ("end", {"op": "end", **run, "children_cpu_us": 0}),
                ("end twice", {"op": "end", **run, "children_cpu_us": 0}),
            ):
                socket[name] = shape(node.request(request))
            wait_for(lambda: server.sent("POST", "ingest/"), seconds=60)
            commands = {
                name: shape(json.loads(node.call(name, "--json").stdout))
                for name in ("status", "top", "doctor")
            }
        finally:
            child.kill()
            child.wait()
            node.stop()
        sent = {}
        for request in _requests(server, root, _shape_of):
            sent.setdefault(f"{request['method']} {request['path']}", request["body"])
    return {
        "socket": socket,
        "commands": commands,
        "sent": sent,
        "spool": _schema_of(node.home / "spool.db"),
    }


def _measured(root: Path) -> Any:
    """Return the windows of a stepped meter, in the spool and as sent."""
    with frozen(), labcarbon_server.running() as server:
        reseed("collector")
        machine = Machine(processes=(ProcessUse(7, 600), ProcessUse(8, 200), ProcessUse(9)))
        keys = {7: f"run:{RUN}", 8: f"run:{OTHER}", 9: "proc:ana/python"}
        monitor = node_monitor(root, machine, consumers=FakeConsumers(machine, keys), idle_mw=2_000)
        monitor.poll(with_processes=True)
        for second in range(1, 400):
            machine.step(
                30 if second == 200 else 1, gpu_mj=300_000 + 7 * second, cpu_mj=5_000 + second
            )
            machine.work(f"run:{RUN}", 600_000)
            machine.work("proc:ana/python", 200_000)
            if second == 300:
                machine.epoch = "e2"
            monitor.poll(with_processes=second % 5 == 0)
        monitor.flush()
        stored = {"schema": _schema_of(root / "spool.db"), "rows": _rows_of(root / "spool.db")}
        uploader = Uploader(
            monitor.spool,
            Transport(server.url, "t"),
            node=NODE,
            boot="b",
            interval_us=60_000_000,
            now=machine.now,
        )
        while monitor.spool.depth().rows:
            uploader.upload_batch()
        monitor.spool.close()
        return {**stored, "sent": [request.body for request in server.requests]}


def _schema_of(path: Path) -> Any:
    if not path.exists():
        return sorted(file.name for file in path.parent.iterdir())
    with contextlib.closing(sqlite3.connect(path)) as database:
        return dict(
            database.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
            ).fetchall()
        )


def _rows_of(path: Path) -> Any:
    rows = {}
    with contextlib.closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall():
            rows[table] = [
                list(map(_plain, row))
                for row in database.execute(f"SELECT * FROM {table}").fetchall()
            ]
    return rows


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _repository(root: Path) -> Path:
    """Create a git repository with a script, a module and data."""
    folder = root / "work"
    for name, content in {
        "train.py": SCRIPT,
        "model.py": MODEL,
        "data/a.csv": "1,2\n",
        "data/b.csv": "3,4\n",
        "config.yaml": "lr: 0.1\n",
        "start.ckpt": "weights",
        ".gitignore": "data/\n*.ckpt\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, (1_790_000_000, 1_790_000_000))
    environ = {**os.environ, **GIT}
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True)
    return folder


WORK = (
    "python",
    "train.py",
    "--lr",
    "0.1",
    "--epochs=3",
    "--data",
    "data",
    "--resume",
    "start.ckpt",
    "--seed",
    "1",
    "--amp",
)


def _check(root: Path) -> Any:
    """Return the fingerprints of a fixed command: quick, with all data hashed, with changed
    code.
    """
    collector, folder = _collector(root), _repository(root)
    printed = {}
    with labcarbon_server.running() as server:
        collector.log_in(server.url)
        for name, options in (
            ("quick", ()),
            ("digest", ("--hash-data",)),
            ("named", ("--project", "demo", "--intent", "debug")),
        ):
            printed[name] = _checked(collector, folder, root, *options)
        (folder / "model.py").write_text(MODEL + "# Another line.\n")
        printed["changed comment"] = _checked(collector, folder, root)
        (folder / "model.py").write_text(MODEL.replace("* number", "* 2"))
        printed["changed code"] = _checked(collector, folder, root)
        return {"printed": printed, "sent": _requests(server, root)}


def _checked(collector: Collector, folder: Path, root: Path, *options: str) -> Any:
    done = collector.call("check", "--json", *options, "--", *WORK, cwd=folder)
    return masked(json.loads(done.stdout), root) if done.stdout else done.stderr


def _run(root: Path) -> Any:
    """Return the requests of a wrapped command without a daemon."""
    collector, folder = _collector(root), _repository(root)
    with labcarbon_server.running() as server:
        collector.log_in(server.url)
        code = [
            collector.call(
                "run", "--project", "demo", "--", "sh", "-c", f"exit {number}", cwd=folder
            ).returncode
            for number in (0, 3)
        ]
        return {"code": code, "sent": _requests(server, root)}


def _scan(root: Path) -> Any:
    """Return the requests of two scans of fixed files."""
    collector, disk = _collector(root), root / "disk"
    head = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    for name, content in {
        "a.safetensors": len(head).to_bytes(8, "little") + head + b"1",
        "b.npy": b"\x93NUMPY\x01\x00" + bytes(20),
        "c.parquet": b"PAR1" + bytes(8) + b"PAR1",
        "model/config.json": b"{}",
        "model/d.gguf": b"GGUF" + bytes(60),
        "notes.md": b"no artifact",
    }.items():
        path = disk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    time.sleep(2.1)  # a scan does not trust younger modification times
    with labcarbon_server.running() as server:
        collector.log_in(server.url)
        first = collector.call("scan", "--medium", "ssd", str(disk))
        (disk / "b.npy").unlink()
        again = collector.call("scan", "--medium", "ssd", "--include-unknown", str(disk))
        sent = _requests(server, root)
    return {
        "code": [first.returncode, again.returncode],
        "sent": sent,
        "schema": _schema_of(collector.home / "scan.db"),
    }


def _apply_plan(root: Path) -> Any:
    """Return trash, journal and tombstones of a plan that is executed, partly restored, and
    purged.
    """
    world, results = World(root), {}
    for name in ("a.ckpt", "folder/b.bin", "folder/c.bin", "d.ckpt"):
        world.put(name)
    world.plan("a.ckpt", "folder", "d.ckpt")
    steps: Iterable[tuple[str, dict[str, Any], float]] = (
        ("trashed", {}, 0),
        ("restored", {"restore": [3]}, 1),
        ("emptied", {"empty": True}, 20),
    )
    for name, options, days in steps:
        world.days = days
        with contextlib.redirect_stdout(None):
            code = world.carry_out(**options)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        texts = {str(path.relative_to(root)): _content(path, root) for path in files}
        results[name] = {"code": code, "files": texts, "outcomes": world.outcomes()}
    return results


def _content(path: Path, root: Path) -> Any:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return path.read_bytes().hex()
    if path.suffix in (".json", ".jsonl") or text.startswith("{"):
        rows = (
            [json.loads(line) for line in text.splitlines()]
            if "}\n{" in text
            else [json.loads(text)]
        )
        return masked(rows, root)
    return text.replace(str(root), "ROOT")


def _import_sacct(root: Path) -> Any:
    """Return the requests of an import of recorded Slurm jobs."""
    collector = _collector(root)
    text = (
        Path(__file__).resolve().parents[2]
        / "tests"
        / "collector"
        / "fixtures"
        / "slurm"
        / "sacct.txt"
    )
    with labcarbon_server.running() as server:
        collector.log_in(server.url)
        server.faults = [labcarbon_server.respond_with(200, {"results": [["created"]] * 11})]
        done = collector.call("import-sacct", str(text), "--cluster", "hpc", "--time-zone", "UTC")
        return {"code": done.returncode, "sent": [request.body for request in server.requests]}
