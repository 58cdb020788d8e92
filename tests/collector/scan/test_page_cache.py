"""What a scan reads does not drive out of memory what jobs read again and again."""

import ctypes
import mmap
import os
import time

import pytest
from labcarbon_collect.files import sequential_reader
from labcarbon_collect.scan.local_files import LocalReader

SIZE = 3 << 20


def _read(path, buffer=1 << 20, prefetch=0):
    reader = LocalReader(os.fsencode(path), follow=False)
    if prefetch:
        reader.prefetch(prefetch)
    view = memoryview(bytearray(buffer))
    read = b""
    while count := reader.read_into(view):
        read += bytes(view[:count])
    reader.close()
    return read


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(os.urandom(SIZE))
    with path.open("rb") as opened:
        os.fsync(opened.fileno())  # what is not on disk yet cannot leave memory
    return path


@pytest.fixture
def dropped(monkeypatch):
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda descriptor, *rest: told.append(rest))
    return told


def _in_memory(path):
    """The share of a file's pages that are in memory, asked for without having any read
    (mincore(2)).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), pages
        )
        del start  # a map that is looked at cannot be closed
    assert not failed, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in pages) / len(pages)


def _evict(path):
    """Have a file leave memory; whether it did: some file systems are memory."""
    gives_up_at = time.monotonic() + 5
    while _in_memory(path) and time.monotonic() < gives_up_at:
        with path.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(0.01)
    return not _in_memory(path)


@pytest.mark.parametrize("expect", [0, 1 << 20], ids=["read", "asked for before it is read"])
def test_what_was_not_in_memory_leaves_it(file, expect):
    left = _evict(file)
    assert len(_read(file, prefetch=expect)) == SIZE
    assert _in_memory(file) == (pytest.approx(0, abs=0.1) if left else 1)


@pytest.mark.parametrize("expect", [0, 1 << 20], ids=["read", "asked for before it is read"])
def test_what_was_in_memory_stays(file, expect):
    file.read_bytes()
    assert len(_read(file, prefetch=expect)) == SIZE
    assert _in_memory(file) > 0.9, "somebody else reads it, too"


def test_a_large_file_leaves_as_it_is_read(file, dropped, monkeypatch):
    monkeypatch.setattr(sequential_reader, "_is_cached", lambda descriptor: False)
    monkeypatch.setattr(sequential_reader, "_DROP_CHUNK_BYTES", 2 << 20)
    assert _read(file) == file.read_bytes()
    assert dropped == [(0, 0, os.POSIX_FADV_DONTNEED), (2 << 20, 0, os.POSIX_FADV_DONTNEED)]


def test_nothing_is_dropped_if_the_cache_state_is_unknown(file, dropped, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refused)
    assert _read(file) == file.read_bytes()
    assert dropped == []


def test_a_file_that_is_never_read_is_left_alone(file, dropped):
    LocalReader(os.fsencode(file), follow=False).close()
    assert dropped == []


def test_uncached_files_are_prefetched(file, dropped, monkeypatch):
    for is_there in (True, False):
        monkeypatch.setattr(
            sequential_reader, "_is_cached", lambda descriptor, is_there=is_there: is_there
        )
        reader = LocalReader(os.fsencode(file), follow=False)
        reader.prefetch(4096)
        assert dropped == ([] if is_there else [(0, 4096, os.POSIX_FADV_WILLNEED)])
        reader.close()
