"""What `labcarbon-collect scan` costs against plain reading and plain hashing of the same files
with as many threads.

200 000 generated files, sparse, 50 GB by default: loose checkpoints, folders of models, images,
shards of datasets. The scan talks to a small server in this process. Each pass begins with none of
the files in memory, as it is with terabytes. Then: a second pass over unchanged files; killed
half-way and gone on with; all of it once more from memory, no disk waited for.
"""

import argparse
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labcarbon_collect.files.sequential_reader import SETTLED_S, SequentialReader

from tests.fakes import labcarbon_server as fakes

ROOT = Path(__file__).resolve().parent.parent
BLOCK = 1 << 20
MARK_SHARE, MARK_RSS_MB, MARK_SECOND = 0.80, 150, 0.05


@dataclass
class Disk:
    """The generated files. ``again``: bytes that a scan hashes twice (after a safetensors
    header).
    """

    root: Path
    files: list[tuple[Path, int]] = field(default_factory=list)
    again: int = 0

    def put(self, name: str, head: bytes, size: int, tail: bytes = b"") -> None:
        """Write a sparse file with ``head`` and ``tail``. Its number follows ``head``: no
        duplicates.
        """
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = max(size, len(head) + 8 + len(tail))
        with path.open("wb") as file:
            file.write(head + len(self.files).to_bytes(8, "little"))
            file.truncate(size)
            file.seek(size - len(tail))
            file.write(tail)
        self.files.append((path, size))

    def weights(self, name: str, size: int) -> None:
        """Write a safetensors file with one tensor."""
        shape = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
        header = json.dumps({"weight": shape}).encode()
        header += b" " * (-len(header) % 8)
        self.put(name, len(header).to_bytes(8, "little") + header, 8 + len(header) + size)
        self.again += size


ZIP = b"PK\x03\x04" + bytes(22) + (16).to_bytes(2, "little") + bytes(2) + b"archive/data.pkl"
ZIP_END = b"PK\x05\x06" + bytes(18)


def generate(root: Path, files: int, total: int) -> Disk:
    """Write half of the bytes as few large files and half as many small ones."""
    disk = Disk(root)
    large = max(8, files // 400)
    small = files - large - 2 * (large // 8)
    for number in range(large):
        size = total // 2 // large
        if number % 8 == 0:
            disk.weights(f"models/m{number}/model.safetensors", size)
            disk.put(f"models/m{number}/config.json", b'{"model_type": "bert"}', 0)
            disk.put(f"models/m{number}/README.md", b"---\nlicense: mit\n---\n", 0)
        elif number % 8 == 1:
            disk.weights(f"runs/r{number % 50}/best-{number}.safetensors", size)
        else:
            disk.put(f"runs/r{number % 50}/epoch={number}.ckpt", ZIP, size, ZIP_END)
    for number in range(small):
        size = total // 2 // small
        if number % 4 == 0:
            disk.put(f"shards/s{number // 4000}/part-{number:06}.parquet", b"PAR1", size, b"PAR1")
        elif number % 4 == 1:
            disk.put(f"loose/l{number // 4000}/step-{number}.pt", ZIP, size, ZIP_END)
        else:
            disk.put(f"arrays/a{number // 4000}/{number}.npy", b"\x93NUMPY", size)
    return disk


def in_threads(
    work: Callable[[Iterator[tuple[Path, int]]], None], disk: Disk, threads: int
) -> tuple[float, float]:
    """Return (wall-clock seconds, CPU seconds) of ``work`` on all files."""
    waiting, lock = iter(disk.files), threading.Lock()

    def some() -> Iterator[tuple[Path, int]]:
        while True:
            with lock:
                each = next(waiting, None)
            if each is None:
                return
            yield each

    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, some()) for _ in range(threads)]:
            done.result()
    return time.perf_counter() - started_s, time.process_time() - cpu_started_s


def plain(*, hashing: bool, stays: bool = False) -> Callable[[Iterator[tuple[Path, int]]], None]:
    """Return a function that reads files in blocks without their holes, as a scan does.

    ``hashing``: it hashes each file, and a safetensors file twice, because a scan also hashes the
    bytes after the header. ``stays``: the pages stay in the page cache.
    """

    def work(files: Iterator[tuple[Path, int]]) -> None:
        view = memoryview(bytearray(BLOCK))
        for path, _ in files:
            digests = [hashlib.sha256()] * hashing + [hashlib.sha256()] * (
                hashing and path.suffix == ".safetensors"
            )
            with path.open("rb", buffering=0) as file:
                reader = SequentialReader(file.fileno(), os.fstat(file.fileno()))
                while count := reader.read_into(view):
                    for digest in digests:
                        digest.update(view[:count])
                if not stays:
                    reader.finish()

    return work


def put_out_of_memory(disk: Disk) -> None:
    """Drop the files from the page cache."""
    os.sync()  # dirty pages cannot be dropped
    for path, _ in disk.files:
        opened = os.open(path, os.O_RDONLY)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(opened)


@dataclass
class Done:
    """Resources and output of one scan."""

    seconds: float
    cpu_s: float
    rss_mb: float
    output: str


def scan(
    disk: Disk, environ: dict[str, str], threads: int, *, kill_after_s: float | None = None
) -> Done:
    """Run a scan. ``kill_after_s``: kill it after this time."""
    command = [
        sys.executable,
        "-m",
        "labcarbon_collect",
        "scan",
        "--threads",
        str(threads),
        str(disk.root),
    ]
    started_s = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.DEVNULL)
        rss_mb = 0.0
        while True:
            pid, _, used = os.wait4(process.pid, os.WNOHANG)
            seconds = time.perf_counter() - started_s
            if pid:
                break
            rss_mb = max(rss_mb, highest_rss_mb(process.pid))
            if kill_after_s is not None and seconds >= kill_after_s:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.02)
        process.returncode = 0
        out.seek(0)
        return Done(seconds, used.ru_utime + used.ru_stime, rss_mb, out.read())


def highest_rss_mb(pid: int) -> float:
    """Return the peak memory of a process.

    The value of wait4 includes memory of the parent, because it counts from before exec.
    """
    try:
        lines = (
            Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        )
    except OSError:
        return 0.0
    return next(
        (int(each.split()[1]) * 1024 / 1e6 for each in lines if each.startswith("VmHWM:")), 0.0
    )


def hashed(data: Path) -> tuple[int, int]:
    """Return (files, bytes) with a digest in the scan state."""
    with sqlite3.connect(data / "collector" / "scan.db") as database:
        query = (
            "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM entry WHERE digest IS NOT NULL AND "
            "what < 3"
        )
        files, size = database.execute(query).fetchone()
    return files, size


def line(what: str, seconds: float, size: int, more: str = "") -> None:
    """Print one row."""
    print(f"{what:34}{seconds:8.1f} s{size / seconds / 1e6:9.0f} MB/s  {more}", flush=True)


def mark(is_met: bool, text: str) -> str:
    """Return a result with its mark, and whether the mark is met."""
    return f"{text}: {'kept' if is_met else 'NOT KEPT'}"


def read_of(output: str) -> str:
    """Return the summary line with the number of checked files."""
    return next((each for each in output.splitlines() if "files checked" in each), "(no summary)")


def measure(options: argparse.Namespace, folder: Path, server: fakes.FakeServer) -> None:
    """Generate, measure, print."""
    disk = generate(folder / "disk", options.files, int(options.gb * 1e9))
    size = sum(each for _, each in disk.files)
    print(f"{len(disk.files):,} files, {size / 1e9:.1f} GB, {options.threads} threads", flush=True)
    environ = {
        **os.environ,
        "LABCARBON_URL": server.url,
        "LABCARBON_TOKEN": "bench",
        "LABCARBON_NODE_ID": str(uuid.uuid4()),
        "PYTHONPATH": str(ROOT / "collector"),
        "LABCARBON_DATA": str(folder / "first"),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    time.sleep(SETTLED_S + 1)  # a scan trusts holes only after this time

    def measured(what: str, *, hashing: bool = True, from_memory: bool = False) -> float:
        if not from_memory:
            put_out_of_memory(disk)
        seconds, cpu_s = in_threads(
            plain(hashing=hashing, stays=from_memory), disk, options.threads
        )
        line(what, seconds, size, f"{cpu_s:.1f} CPU s")
        return seconds

    measured("plain read", hashing=False)
    before = measured("plain hash (the limit)")
    put_out_of_memory(disk)
    first = scan(disk, environ, options.threads)
    requests = len(server.requests)
    server.requests.clear()
    limit = (before + measured("plain hash again")) / 2
    share = limit / first.seconds
    line(
        "first scan",
        first.seconds,
        size,
        mark(share >= MARK_SHARE, f"{share:.0%} of the limit, mark {MARK_SHARE:.0%}"),
    )
    print(f"{'':34}{first.cpu_s:.1f} CPU s; {requests} requests")
    print(
        f"{'':34}"
        f"{mark(first.rss_mb <= MARK_RSS_MB, f'{first.rss_mb:.0f} MB RSS, mark {MARK_RSS_MB}')}"
    )
    print(first.output)
    second = scan(disk, environ, options.threads)
    part = second.seconds / first.seconds
    line(
        "second scan",
        second.seconds,
        size,
        mark(part <= MARK_SECOND, f"{part:.1%} of the first, mark {MARK_SECOND:.0%}"),
    )
    used = f"{len(server.requests)} requests, {second.cpu_s:.1f} CPU s, {second.rss_mb:.0f} MB RSS"
    print(f"{'':34}{read_of(second.output)}; {used}")
    put_out_of_memory(disk)
    environ["LABCARBON_DATA"] = str(folder / "killed")
    killed = scan(disk, environ, options.threads, kill_after_s=first.seconds / 2)
    files, hashed_bytes = hashed(folder / "killed")
    line(
        "killed half-way",
        killed.seconds,
        max(1, hashed_bytes),
        f"{files:,} files, {hashed_bytes / 1e9:.1f} GB kept",
    )
    rest = scan(disk, environ, options.threads)
    line("gone on with", rest.seconds, size - hashed_bytes, read_of(rest.output))
    all_files, all_bytes = hashed(folder / "killed")
    result = (
        f"{all_files - files:,} files, {(all_bytes - hashed_bytes) / 1e9:.1f} GB came to the state"
    )
    print(f"{'':34}{result}; what was read, less that: hashed twice")
    environ["LABCARBON_DATA"] = str(folder / "memory")
    in_threads(plain(hashing=False, stays=True), disk, options.threads)
    plainly = measured("plain hash, from memory", from_memory=True)
    again = scan(disk, environ, options.threads)
    line(
        "scan, from memory",
        again.seconds,
        size,
        f"{plainly / again.seconds:.0%} of plain hashing; {again.cpu_s:.1f} CPU s",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--gb", type=float, default=50.0)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to write the files (sparse; a temporary folder by default)",
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="labcarbon-bench-", dir=options.folder) as folder,
        fakes.running() as server,
    ):
        measure(options, Path(folder), server)


if __name__ == "__main__":
    main()
