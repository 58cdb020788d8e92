"""Reads declared artifacts. Recognises and hashes them like a scan, so that both give the same
digest.
"""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.files.read_limits import Budget, BudgetExceeded
from labcarbon_collect.fingerprint.digests import FileChanged, content_hashes, open_digest_cache
from labcarbon_collect.lineage.messages import PRODUCED
from labcarbon_collect.scan.description import (
    Description,
    describe_unrecognised,
    one_line,
    path_problem,
)
from labcarbon_collect.scan.file_reader import Batch, FileReader, FileTask
from labcarbon_collect.scan.folder_formats import MAX_CARD_BYTES, describe_folder
from labcarbon_collect.scan.local_files import LocalReader, LocalTree, Stamp
from labcarbon_collect.scan.rate_limit import RateLimiter
from labcarbon_collect.scan.uploader import format_time

_LIST_TIMEOUT_S = 600.0
_MAX_NAME_CHARS = 255
# Tolerance: the file system's clock may be behind the clock of the run's start.
_CLOCK_SKEW_NS = 2_000_000_000


class DeclarationError(Exception):
    """A declared artifact cannot be reported. The text says why."""


class AdjustableRateLimiter(RateLimiter):
    """Read rate: low during the run, unlimited afterwards."""

    def remove_limit(self) -> None:
        """The run is over: read at full speed."""
        self._limit = None


class Inspector:
    """Reads artifacts of one run. ``max_bytes``: total of files without a known hash."""

    def __init__(
        self, run: str, rate_limiter: AdjustableRateLimiter, home: Optional[Path], max_bytes: int
    ) -> None:
        self._run, self._rate_limiter, self._remaining_bytes = run, rate_limiter, max_bytes
        self._cache = open_digest_cache(home)
        # A declared folder includes the targets of its links.
        self._tree = LocalTree([b"/"])

    def inspect(self, artifact: Mapping[str, Any]) -> Dict[str, Any]:
        """Return a declared path as the server expects it (docs/artifacts.md). Raises
        DeclarationError.
        """
        path = os.path.realpath(os.fsencode(artifact["path"]))
        problem = path_problem(path)
        if problem:
            raise DeclarationError(problem)
        try:
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                fields = self._inspect_folder(path, artifact)
            else:
                fields = self._inspect_file(path, status, artifact)
        except FileNotFoundError as error:
            raise DeclarationError("it does not exist") from error
        except OSError as error:
            raise DeclarationError(f"it cannot be read: {error.strerror or error}") from error
        except (BudgetExceeded, FileChanged) as error:
            raise DeclarationError(str(error)) from error
        return {**fields, "runs": [{"run": self._run, "role": artifact["role"]}]}

    def _inspect_file(
        self, path: bytes, status: os.stat_result, artifact: Mapping[str, Any]
    ) -> Dict[str, Any]:
        if not stat.S_ISREG(status.st_mode):
            raise DeclarationError("it is neither a file nor a folder")
        if artifact.get("stood") not in (None, [status.st_size, status.st_mtime_ns]):
            raise DeclarationError("it changed before it could be read")
        _check_times(artifact, status.st_mtime_ns, status.st_ctime_ns)
        self._reserve(status.st_size)
        above, name = os.path.split(path)
        stamp: Stamp = (name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        reader = FileReader(self._tree, self._rate_limiter, include_unknown=True, dry_run=False)
        batch = Batch(
            0, above.rstrip(b"/"), self._tree.medium(path), is_member=False, tasks=[FileTask(stamp)]
        )
        read = reader.read(batch)[0]
        if read.digest is None or read.description is None:
            raise DeclarationError(read.reason or "it cannot be read")
        size = {"digest": read.digest.hex(), "bytes": status.st_size, "form": "file", "files": 1}
        return self._payload(
            path, artifact, size, read.description, read.payload, status.st_mtime_ns
        )

    def _inspect_folder(self, path: bytes, artifact: Mapping[str, Any]) -> Dict[str, Any]:
        listed = manifest("artifact", os.fsdecode(path), Budget(_LIST_TIMEOUT_S))
        if not listed.files:
            raise DeclarationError("the folder has no files to hash")
        newest_ns = max(file.mtime_ns for file in listed.files)
        _check_times(artifact, newest_ns, max(file.ctime_ns for file in listed.files))
        self._reserve(sum(file.size for file in listed.files if self._cache.lookup(file) is None))
        digest = self._manifest_digest(listed)
        after_listing = manifest("artifact", os.fsdecode(path), Budget(_LIST_TIMEOUT_S))
        if after_listing.weak_hash() != listed.weak_hash():
            raise DeclarationError("it changed while it was read")
        size = {
            "digest": digest,
            "bytes": listed.size,
            "form": "folder",
            "files": len(listed.files),
        }
        return self._payload(path, artifact, size, self._folder_about(path), None, newest_ns)

    def _manifest_digest(self, listed: Manifest) -> str:
        ((_, digest),) = content_hashes([listed], self._cache, on_hashed=self._rate_limiter.acquire)
        return digest

    def _folder_about(self, path: bytes) -> Description:
        name = os.path.basename(path).decode("utf-8", "replace")
        fields = describe_folder(
            name,
            self._tree.list_folder(path),
            lambda card: _read_card(path + b"/" + card),
            lambda child: self._tree.list_folder(path + b"/" + child),
        )
        return fields or describe_unrecognised("")

    def _payload(
        self,
        path: bytes,
        artifact: Mapping[str, Any],
        size: Mapping[str, Any],
        description: Description,
        payload: Optional[str],
        mtime_ns: int,
    ) -> Dict[str, Any]:
        text = path.decode("utf-8")
        fields = description.wire(payload)
        declared_fields = {key: artifact[key] for key in ("kind", "licence") if artifact.get(key)}
        facts = {
            **artifact.get("facts", {}),
            **{key: value for key, value in fields.pop("facts", {}).items() if key not in artifact},
        }
        copy = {
            "path": text,
            "medium": self._tree.medium(path),
            "modified_at": format_time(mtime_ns),
        }
        return {
            "name": artifact.get("name")
            or one_line(os.path.basename(text), _MAX_NAME_CHARS)
            or "/",
            **size,
            **fields,
            **declared_fields,
            **({"facts": facts} if facts else {}),
            "copies": [{key: value for key, value in copy.items() if value is not None}],
        }

    def _reserve(self, size: int) -> None:
        if size > self._remaining_bytes:
            raise DeclarationError(
                "it is too large to be hashed during a run: use labcarbon-collect scan"
            )
        self._remaining_bytes -= size


def _check_times(artifact: Mapping[str, Any], mtime_ns: int, ctime_ns: int) -> None:
    """If the start of the run is known, check that an output is not older and an input is. Raises
    DeclarationError.
    """
    since_ns = artifact.get("since_ns")
    if since_ns is None:
        return
    if artifact["role"] == PRODUCED:
        if max(mtime_ns, ctime_ns) < since_ns - _CLOCK_SKEW_NS:
            raise DeclarationError("it is older than this run")
    elif mtime_ns > since_ns:
        raise DeclarationError(
            "it changed during the run, so the content that the run read is unknown"
        )


def _read_card(path: bytes) -> bytes:
    """Return a small file. Empty if it is large or unreadable."""
    try:
        with closing(LocalReader(path, follow=True)) as file:
            return file.at(0, MAX_CARD_BYTES) if file.stat().size <= MAX_CARD_BYTES else b""
    except OSError:
        return b""
