"""Object stores that fsspec can read, such as ``s3://bucket/prefix``. fsspec is optional."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Dict, Iterator, List, Optional, Tuple

from labcarbon_collect.scan.local_files import MARKERS, FileStat, Links, Listing, Stamp
from labcarbon_collect.scan.medium import OBJECT

INSTALL_HINT = "pip install 'labcarbon-collect[s3]'"
_BLOCK = 4 << 20
_MTIME_KEYS = ("LastModified", "mtime", "modified", "last_modified", "created")
_VERSION_KEYS = ("ETag", "etag", "VersionId", "md5")


class DependencyMissing(Exception):
    """A package for this kind of address is missing. The text says how to install it."""


def is_address(text: str) -> bool:
    """Return whether ``text`` is an address like ``s3://bucket/prefix`` and not a path."""
    return "://" in text


class ObjectTree:
    """Objects below one address. ``s3://bucket/a/b`` is walked as folders ``a`` and ``b``."""

    open_ahead = 0

    def __init__(self, address: str) -> None:
        """Raises DependencyMissing, and OSError for an address that cannot be opened."""
        scheme = address.split("://")[0]
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise DependencyMissing(
                f"{scheme}:// needs fsspec, which is not installed: {INSTALL_HINT}"
            ) from error
        self._root = f"{scheme}://".encode()
        try:
            with _translate_errors():
                self._files: Any = url_to_fs(address)[0]
                self._strip = getattr(self._files, "_strip_protocol")  # noqa: B009 - fsspec's own name for what each has
        except ImportError as error:
            raise DependencyMissing(
                f"{scheme}:// is not supported ({error}): {INSTALL_HINT}"
            ) from error
        except ValueError as error:
            raise OSError(0, str(error)) from error

    def parts(self, address: bytes) -> List[bytes]:
        """Return the path components of a folder. The first one is scheme and bucket."""
        names = address[len(self._root) :].strip(b"/").split(b"/")
        return [self._root + names[0], *names[1:]]

    def medium(self, path: bytes) -> str:
        """Return ``object``."""
        return OBJECT

    def list_folder(self, path: bytes) -> Listing:
        """List a prefix. Raises OSError."""
        listing = Listing()
        with _translate_errors():
            rows: List[Dict[str, Any]] = self._files.ls(self._key(path), detail=True, refresh=True)
        for row in rows:
            name = (
                str(row["name"]).rstrip("/").rsplit("/", 1)[-1].encode("utf-8", "surrogateescape")
            )
            if name in MARKERS:
                listing.markers.append(name)
            if (
                not name
                or name.startswith(b".")
                or name == b"__pycache__"
                or _is_folder_marker(row, self._key(path))
            ):
                continue
            if row.get("type") == "directory":
                listing.folders.append(name)
            else:
                listing.files.append(
                    (name, int(row.get("size") or 0), _mtime_ns(row), _version_number(row))
                )
        listing.files.sort()
        listing.folders.sort()
        return listing

    def manifest(self, path: bytes) -> Tuple[List[Stamp], Links]:
        """Return the objects below a prefix like files below a folder, sorted. Raises OSError."""
        stamps: List[Stamp] = []
        folders = [(path, b"")]
        while folders:
            folder, prefix = folders.pop()
            listing = self.list_folder(folder)
            stamps.extend((prefix + stamp[0], *stamp[1:]) for stamp in listing.files)
            folders.extend((folder + b"/" + name, prefix + name + b"/") for name in listing.folders)
        return sorted(stamps), {}

    def open_file(self, path: bytes, *, follow: bool = False) -> ObjectReader:
        """Open an object. Object stores have no links. Raises OSError."""
        with _translate_errors():
            return ObjectReader(self._files, self._key(path))

    def owner(self, path: bytes) -> Optional[int]:
        """Return None: object stores have no users."""
        return None

    def check_inside(self, path: bytes) -> None:
        """Do nothing: object stores have no links."""

    def _key(self, path: bytes) -> str:
        return str(self._strip(path.decode("utf-8", "surrogateescape")))


class ObjectReader:
    """An object, read as a stream."""

    owner: Optional[int] = None

    def __init__(self, files: Any, key: str) -> None:
        self._files, self._key = files, key
        self._info: Dict[str, Any] = files.info(key)
        self._stream: Any = files.open(key, "rb", block_size=_BLOCK)
        self._is_first_stat = True

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def prefetch(self, size: int) -> None:
        """Do nothing: a stream starts with the first read."""

    def stat(self) -> FileStat:
        """Return size and mtime: at first those of opening, then current ones."""
        if not self._is_first_stat:
            with _translate_errors():
                self._files.invalidate_cache(self._key)
                self._info = self._files.info(self._key)
        self._is_first_stat = False
        return FileStat(int(self._info.get("size") or 0), _mtime_ns(self._info))

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes. Returns their number, 0 at the end."""
        with _translate_errors():
            content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer at the end."""
        if length <= 0:
            return b""
        with _translate_errors():
            return bytes(self._files.cat_file(self._key, start=offset, end=offset + length))


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the exceptions of each store into OSError with their text."""
    try:
        yield
    except (OSError, ImportError, ValueError):
        raise
    except Exception as error:
        raise OSError(0, f"{type(error).__name__}: {error}"[:300]) from error


def _is_folder_marker(row: Dict[str, Any], key: str) -> bool:
    """Return whether a row is the empty object that some stores list for a folder."""
    return str(row["name"]).strip("/") == key.strip("/")


def _mtime_ns(row: Dict[str, Any]) -> int:
    value = next((row[key] for key in _MTIME_KEYS if row.get(key)), None)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        value = aware.timestamp()
    return round(value * 1e6) * 1000 if isinstance(value, (int, float)) else 0


def _version_number(row: Dict[str, Any]) -> int:
    """Return the store's content version as a number, 0 if unknown."""
    version = "".join(str(row[key]) for key in _VERSION_KEYS if row.get(key))
    return int.from_bytes(hashlib.sha256(version.encode()).digest()[:6], "big") if version else 0
