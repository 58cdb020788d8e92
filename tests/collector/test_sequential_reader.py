"""Sequential reads: holes are zeros without a read, and every byte equals that of a plain read."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.files import sequential_reader
from labcarbon_collect.files.sequential_reader import SequentialReader

BLOCK = 4096
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    """Trust holes immediately, and in small files, too. Tests of these limits set their own."""
    monkeypatch.setattr(sequential_reader, "SETTLED_S", -60.0)
    monkeypatch.setattr(sequential_reader, "MIN_BYTES", 0)


@pytest.fixture
def reads(monkeypatch):
    """Record the number of bytes read from disk."""
    calls = []

    def read(descriptor, buffers):
        count = os.preadv(descriptor, buffers, os.lseek(descriptor, 0, os.SEEK_CUR))
        os.lseek(descriptor, count, os.SEEK_CUR)
        calls.append(count)
        return count

    monkeypatch.setattr(os, "readv", read)
    return calls


def _create_file(path, parts, size):
    with path.open("wb") as file:
        for at, content in parts:
            file.seek(at)
            file.write(content)
        file.truncate(size)
    return path


def _read(path, buffer=MIB, until=None):
    descriptor = os.open(path, os.O_RDONLY)
    reader = SequentialReader(descriptor, os.fstat(descriptor))
    view, content = memoryview(bytearray(b"\xff" * buffer)), b""
    while count := reader.read_into(view):
        content += bytes(view[:count])
        if until and len(content) >= until:
            break
    reader.finish()
    os.close(descriptor)
    return content


def _holes(path):
    """Skip where the file system has no holes: some store zeros as data."""
    return path.stat().st_blocks * 512 < path.stat().st_size


PARTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 255)), max_size=4)


@given(parts=PARTS, more=st.integers(0, 20 * BLOCK), buffer=st.integers(1000, 9 * BLOCK))
def test_bytes_equal_those_of_a_plain_read(tmp_path_factory, parts, more, buffer):
    path = tmp_path_factory.getbasetemp() / "sparse"
    size = max([0, *((at + count) * BLOCK for at, count, _ in parts)]) + more
    _create_file(
        path, [(at * BLOCK, bytes([byte]) * count * BLOCK) for at, count, byte in parts], size
    )
    assert _read(path, buffer) == path.read_bytes()


@pytest.mark.parametrize(
    ("parts", "size", "max_bytes"),
    [
        pytest.param([(0, b"head")], 64 * MIB, MIB + BLOCK, id="a hole at the end"),
        pytest.param([(64 * MIB - 4, b"tail")], 64 * MIB, BLOCK, id="a hole at the beginning"),
        pytest.param(
            [(0, b"head"), (64 * MIB - 4, b"tail")],
            64 * MIB,
            MIB + 2 * BLOCK,
            id="a hole in between",
        ),
        pytest.param([], 64 * MIB, 0, id="nothing but a hole"),
    ],
)
def test_holes_are_not_read(tmp_path, reads, parts, size, max_bytes):
    path = _create_file(tmp_path / "map.mdb", parts, size)
    if not _holes(path):
        pytest.skip("this file system keeps no holes")
    content = _read(path)
    assert sum(reads) <= max_bytes
    assert len(content) == size
    assert content == path.read_bytes()


def test_file_without_holes_is_not_searched(tmp_path, monkeypatch):
    path = _create_file(tmp_path / "model.pt", [(0, os.urandom(MIB))], MIB)
    monkeypatch.setattr(os, "lseek", lambda *_: pytest.fail("asked for holes"))
    assert _read(path) == path.read_bytes()


def test_small_file_is_one_read_without_search(tmp_path, reads, monkeypatch):
    monkeypatch.setattr(sequential_reader, "MIN_BYTES", MIB)
    path = _create_file(tmp_path / "step.pt", [(0, b"head")], MIB)
    monkeypatch.setattr(sequential_reader, "_Holes", lambda *_: pytest.fail("asked for holes"))
    assert _read(path) == path.read_bytes()
    assert [count for count in reads if count] == [MIB]


def test_a_hole_of_what_was_just_written_is_read(tmp_path, reads, monkeypatch):
    """A file system may report a hole for data that is not yet on disk."""
    monkeypatch.setattr(sequential_reader, "SETTLED_S", 60.0)
    path = _create_file(tmp_path / "model.pt", [], 4 * MIB)
    os.utime(path, (0, 0))  # like a copy that preserves times
    assert _read(path) == bytes(4 * MIB)
    assert sum(reads) == 4 * MIB


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENXIO])
def test_whole_file_is_read_where_holes_are_not_supported(tmp_path, reads, monkeypatch, number):
    path = _create_file(tmp_path / "model.pt", [(MIB, b"x")], 4 * MIB)
    seek = os.lseek

    def refused(descriptor, at, whence):
        if whence in (os.SEEK_HOLE, os.SEEK_DATA):
            raise OSError(number, os.strerror(number))
        return seek(descriptor, at, whence)

    monkeypatch.setattr(os, "lseek", refused)
    assert _read(path) == path.read_bytes()
    assert sum(reads) == 4 * MIB


def test_disk_error_is_raised(tmp_path, monkeypatch):
    path = _create_file(tmp_path / "model.pt", [(0, b"x")], 4 * MIB)
    if not _holes(path):
        pytest.skip("this file system keeps no holes")

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "lseek", broken)
    with pytest.raises(OSError, match="Input/output"):
        _read(path)


def test_growing_file_is_read_to_its_new_end(tmp_path):
    path = _create_file(tmp_path / "model.pt", [], 2 * MIB)
    descriptor = os.open(path, os.O_RDONLY)
    reader, view = SequentialReader(descriptor, os.fstat(descriptor)), memoryview(bytearray(MIB))
    assert reader.read_into(view) == MIB
    with path.open("ab") as file:
        file.write(b"more")
    assert (reader.read_into(view), reader.read_into(view), bytes(view[:4])) == (MIB, 4, b"more")
    os.close(descriptor)
