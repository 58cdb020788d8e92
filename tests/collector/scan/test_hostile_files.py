"""Whatever lies in a folder: nothing is opened that should not be, nothing hangs, the rest is
done, and it is said.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.scan import safetensors as header
from labcarbon_collect.scan.description import printable

from tests.collector.scan.support import NPY, PARQUET, Disk, gguf, safetensors, torch, zipped
from tests.fakes.labcarbon_server import FakeServer

DEEP = b'{"a":' * 100_000
LYING = {"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 1 << 62]}}
BROKEN = [
    ("a.safetensors", struct.pack("<Q", 2**63) + b"{}", "9223372036854775808 bytes"),
    ("a.safetensors", struct.pack("<Q", 10**8 + 1) + b"{}", "the maximum is 100000000"),
    ("a.safetensors", struct.pack("<Q", 5000) + b"{}", "in a file of 10 bytes"),
    ("a.safetensors", b"\x01", "truncated"),
    ("a.safetensors", struct.pack("<Q", 4) + b"nope", "not a JSON object"),
    ("a.safetensors", struct.pack("<Q", len(DEEP)) + DEEP, "not JSON"),
    ("a.safetensors", safetensors(header=LYING), "4611686018427387904 bytes of tensors"),
    ("a.safetensors", safetensors(header={"a": 1}), "malformed tensor"),
    ("a.safetensors", safetensors(cut=10), "bytes of tensors"),
    ("a.pt", torch()[:200], "truncated"),
    ("a.npz", zipped("a.npy")[:-30], "truncated"),
    ("a.parquet", PARQUET[:-3], "truncated"),
    ("a.gguf", gguf(tensors=2**60), "GGUF header"),
    ("a.onnx", b"<html>", "named as ONNX"),
]


@pytest.mark.parametrize(("name", "content", "why"), BROKEN)
def test_broken_files_are_refused_and_the_rest_is_done(
    disk: Disk, here: Any, server: FakeServer, name: str, content: bytes, why: str
) -> None:
    disk.put(name, content)
    good = disk.put("good.npy", NPY)
    code, out, _ = here()
    assert code == 1
    assert "1 refused" in out
    assert why in out
    assert list(server.present()) == [str(good)]


def test_a_file_that_broke_is_missing_as_what_it_was(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    path = disk.put("a.pt", torch())
    here()
    path.write_bytes(torch()[:100])
    assert here()[0] == 1
    assert server.present() == {}


def test_a_pickle_is_never_run(disk: Disk, here: Any, tmp_path: Path) -> None:
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % os.fsencode(tmp_path / "owned")
    disk.put("a.pt", zipped("archive/data.pkl", content=evil))
    disk.put("a.pkl", evil)
    disk.put("b.ckpt", evil)
    assert here("--include-unknown")[0] == 0
    assert not (tmp_path / "owned").exists()


def test_a_zip_bomb_is_not_unpacked(disk: Disk, here: Any, server: FakeServer) -> None:
    content = bytearray(zipped("archive/data.pkl"))
    content[18:26] = b"\xff" * 8  # both sizes in its header
    disk.put("bomb.pt", bytes(content))
    assert here()[0] == 0
    assert [row["bytes"] for row in server.artifacts.values()] == [len(content)]


def test_names_are_printed_without_control_characters(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    name = "a\n\x1b[2J\u202eevil\x07.onnx"
    disk.put(name, b"x")
    disk.put("ok\nnew.npy", NPY)
    code, out, err = here()
    assert code == 1
    assert not any(letter in out + err for letter in ("\x1b", "\x07", "\u202e"))
    assert "\\x0a" in out
    assert list(server.present()) == [str(disk.root / "ok\nnew.npy")], (
        "as it is: the path is what it is known by"
    )


def test_names_that_are_not_utf8_are_refused(disk: Disk, here: Any, server: FakeServer) -> None:
    bad = os.fsencode(disk.root) + b"/\xff\xfe.npy"
    Path(os.fsdecode(bad)).write_bytes(NPY)
    disk.put("model/config.json", b"{}")
    disk.put("model/model.safetensors", safetensors())
    Path(os.fsdecode(os.fsencode(disk.root) + b"/model/\xff.txt")).write_bytes(b"x")
    code, out, _ = here()
    assert (code, "not UTF-8" in out) == (1, True)
    assert list(server.present()) == [str(disk.root / "model")], (
        "in a folder that is one artifact it is only hashed"
    )


def test_links_are_not_followed_nor_loops_nor_out_of_a_folder(
    disk: Disk, here: Any, server: FakeServer, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.npy"
    secret.write_bytes(NPY + b"secret")
    inside = disk.put("data/in.npy", NPY)
    (disk.root / "loop").symlink_to(".")
    (disk.root / "out.npy").symlink_to(secret)
    (disk.root / "all").symlink_to("/")
    for name in ("model", "leads-out"):
        disk.put(f"{name}/config.json", b"{}")
    (disk.root / "model/model.safetensors").symlink_to(disk.put("blobs/x", safetensors()))
    disk.put("leads-out/model.safetensors", safetensors(2))
    (disk.root / "leads-out/more.npy").symlink_to(secret)
    code, out, _ = here()
    assert code == 1
    assert "more.npy in it is a link to a path outside of the scan" in out
    assert "links (not followed)" in out
    assert set(server.present()) == {
        str(inside),
        str(disk.root / "model"),
        str(disk.root / "blobs/x"),
    }


def test_a_cache_of_the_hub_is_its_snapshots(disk: Disk, here: Any, server: FakeServer) -> None:
    hub = "hub/models--org--m"
    disk.put(f"{hub}/refs/main", b"abc")
    blob = disk.put(f"{hub}/blobs/123", safetensors())
    disk.put(f"{hub}/snapshots/abc/config.json", b"{}")
    (disk.root / hub / "snapshots/abc/model.safetensors").symlink_to(blob)
    assert here()[0] == 0
    assert list(server.present()) == [str(disk.root / hub / "snapshots/abc")]


def test_pipes_sockets_and_devices_are_passed_over(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    os.mkfifo(disk.root / "pipe.pt")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(disk.root)
        listening.bind("a.sock")
        disk.put("a.npy", NPY)
        code, out, _ = here()
    assert (code, "2 pipes, devices and sockets" in out, len(server.present())) == (0, True, 1)


def test_unreadable_folders_and_files_are_counted_and_what_was_known_of_them_stays(
    disk: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.put("a/x.npy", NPY)
    disk.put("b.npy", NPY + b"b")
    assert here()[0] == 0
    known, real_list, real_open = dict(server.present()), os.scandir, os.open

    def refused(path: Any, *more: Any) -> Any:
        if os.fsencode(path).endswith((b"/a", b"c.npy")):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *more) if more else real_list(path)

    monkeypatch.setattr("labcarbon_collect.scan.local_files.os.scandir", refused)
    monkeypatch.setattr("labcarbon_collect.scan.local_files.os.open", refused)
    disk.put("c.npy", NPY)
    code, out, _ = here()
    assert code == 1
    assert "unreadable folders" in out
    assert "it cannot be read: Permission denied" in out
    assert server.present() == known


def test_a_file_changed_or_deleted_during_reading(
    disk: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labcarbon_collect.scan.local_files import LocalReader

    grows, goes = disk.put("grows.npy", NPY), disk.put("goes.npy", NPY)
    disk.put("model/config.json", b"{}")
    member = disk.put("model/model.safetensors", safetensors())
    real = LocalReader.read_into

    def meddled(self: LocalReader, buffer: memoryview) -> int:
        for path in (grows, member):
            with path.open("ab") as file:
                file.write(b"more")
        return real(self, buffer)

    with monkeypatch.context() as patch:
        patch.setattr(LocalReader, "read_into", meddled)
        goes.unlink()
        code, out, _ = here()
    assert (code, out.count("it changed while it was read")) == (1, 2), out
    assert server.present() == {}
    assert here()[0] == 0
    assert len(server.present()) == 2


def test_a_path_longer_than_the_system_limit(disk: Disk, here: Any, server: FakeServer) -> None:
    good = disk.put("a.npy", NPY)
    script = (
        "import os,sys\nos.chdir(sys.argv[1])\nfor _ in range(20):\n    os.mkdir('d' * 250); "
        "os.chdir('d' * 250)\n"
    )
    subprocess.run(
        ["python3", "-c", script + "open('x.npy', 'w').write('x')", str(disk.root)], check=True
    )
    code, out, _ = here()
    assert (code, "File name too long" in out) == (1, True)
    assert list(server.present()) == [str(good)]


def test_metadata_is_registered_in_short_clean_lines(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    disk.put(
        "a.safetensors",
        safetensors(format="p\x00t\x1b", base_model="x" * 5000, ss_training="private"),
    )
    config = {"architectures": ["A" * 9999], "model_type": 7, "x": {"y": 1}}
    disk.put("m/config.json", json.dumps(config).encode())
    disk.put("m/model.safetensors", safetensors(2))
    disk.put(
        "m/README.md",
        b"---\nlicense: " + b"l" * 999 + b"\nbase_model: ghp_" + b"a1B2c3D4e5" * 4 + b"\n---\n",
    )
    assert here()[0] == 0
    sent = json.dumps(server.requests[0].body)
    assert "private" not in sent
    assert "ghp_" not in sent
    for row in server.artifacts.values():
        assert all(
            len(str(value)) <= 300 and "\x00" not in str(value) for value in row["facts"].values()
        )
        assert len(row.get("licence", "")) <= 100


def test_headers_too_long_to_look_into_are_still_known(
    disk: Disk, here: Any, server: FakeServer, monkeypatch: Any
) -> None:
    monkeypatch.setattr(header, "MAX_PARSED_BYTES", 10)
    disk.put("a.safetensors", safetensors())
    assert here()[0] == 0
    (row,) = server.artifacts.values()
    assert (row["format"], "facts" in row, len(row["payload"])) == ("safetensors", False, 64)


def test_a_damaged_state_is_set_aside(disk: Disk, here: Any, server: FakeServer) -> None:
    disk.put("a.npy", NPY)
    here()
    disk.state.write_bytes(b"nonsense" * 1000)
    for more in ("-wal", "-shm"):
        disk.state.with_name(disk.state.name + more).unlink(missing_ok=True)
    code, out, said = here()
    assert (code, "1 new" in out) == (0, True)
    assert "moved to scan.db.damaged-" in said


@pytest.mark.parametrize(
    ("dirs", "options", "mend"),
    [
        (("/nowhere/x",), (), "does not exist"),
        ((__file__,), (), "is not a folder"),
        (("nope://x/y",), (), "nope://x/y"),
    ],
)
def test_mistakes(
    here: Any, dirs: tuple[str, ...], options: tuple[str, ...], mend: str, capsys: Any
) -> None:
    code, _, said = here(*options, dirs=dirs)
    assert (code, mend in said, "Traceback" in said) == (1, True, False)


@pytest.mark.parametrize(
    "options", [("--threads", "0"), ("--limit-mb-s", "-1"), ("--medium", "paper")]
)
def test_options_that_cannot_be(here: Any, options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        here(*options)


def test_printable() -> None:
    assert printable(b"/a/\xff\n") == "/a/\\xff\\x0a"
    assert len(printable(b"x" * 5000)) == 300
