"""Reads what was declared: recognised and hashed as a scan does, so that both know it by the same digest."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.files.budget import Budget, BudgetExceeded
from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.fingerprint.digests import Changed, known_digests, verified
from labcarbon_collect.lineage.messages import PRODUCED
from labcarbon_collect.scan.description import About, one_line, unrecognised, unregistrable
from labcarbon_collect.scan.folder_formats import MAX_CARD_BYTES, folder_about
from labcarbon_collect.scan.local_files import Local, LocalReader, Stamp
from labcarbon_collect.scan.rate_limit import Pace
from labcarbon_collect.scan.reader import Batch, FileReader, Task
from labcarbon_collect.scan.uploader import moment

_LIST_S = 600.0
_LONGEST_NAME = 255
# A file system's clock may be a little behind the one that the run's beginning was read from.
_CLOCK_NS = 2_000_000_000


class NotTold(Exception):
    """Something that was declared cannot be told; the text says why."""


class Pacing(Pace):
    """How fast files are read: slowly beside the work, as fast as it goes once that is over."""

    def hurry(self) -> None:
        """The work is over."""
        self._limit = None


class Looker:
    """Reads for one run. ``most_bytes``: of all together that were not hashed before."""

    def __init__(self, run: str, pace: Pacing, home: Optional[Path], most_bytes: int) -> None:
        self._run, self._pace, self._left = run, pace, most_bytes
        self._cache = known_digests(home)
        # Whoever declares a folder reads what its links lead to.
        self._tree = Local([b"/"])

    def look(self, told: Mapping[str, Any]) -> Dict[str, Any]:
        """A declared path as the server takes it (docs/artifacts.md). Raises NotTold."""
        path = os.path.realpath(os.fsencode(told["path"]))
        why = unregistrable(path)
        if why:
            raise NotTold(why)
        try:
            about = os.stat(path)
            if stat.S_ISDIR(about.st_mode):
                found = self._folder(path, told)
            else:
                found = self._file(path, about, told)
        except FileNotFoundError as error:
            raise NotTold("it is not there") from error
        except OSError as error:
            raise NotTold(f"it cannot be read: {error.strerror or error}") from error
        except (BudgetExceeded, Changed) as error:
            raise NotTold(str(error)) from error
        return {**found, "runs": [{"run": self._run, "role": told["role"]}]}

    def _file(self, path: bytes, about: os.stat_result, told: Mapping[str, Any]) -> Dict[str, Any]:
        if not stat.S_ISREG(about.st_mode):
            raise NotTold("it is neither a file nor a folder")
        if told.get("stood") not in (None, [about.st_size, about.st_mtime_ns]):
            raise NotTold("it changed before it could be read")
        _in_time(told, about.st_mtime_ns, about.st_ctime_ns)
        self._take(about.st_size)
        above, name = os.path.split(path)
        stamp: Stamp = (name, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        reader = FileReader(self._tree, self._pace, take_all=True, is_dry=False)
        batch = Batch(0, above.rstrip(b"/"), self._tree.medium(path), is_member=False, tasks=[Task(stamp)])
        read = reader.read(batch)[0]
        if read.digest is None or read.about is None:
            raise NotTold(read.why or "it cannot be read")
        size = {"digest": read.digest.hex(), "bytes": about.st_size, "form": "file", "files": 1}
        return self._row(path, told, size, read.about, read.payload, about.st_mtime_ns)

    def _folder(self, path: bytes, told: Mapping[str, Any]) -> Dict[str, Any]:
        listed = manifest("artifact", os.fsdecode(path), Budget(_LIST_S))
        if not listed.files:
            raise NotTold("it holds no file that counts")
        newest_ns = max(file.mtime_ns for file in listed.files)
        _in_time(told, newest_ns, max(file.ctime_ns for file in listed.files))
        self._take(sum(file.size for file in listed.files if self._cache.lookup(file) is None))
        digest = self._manifest_digest(listed)
        again = manifest("artifact", os.fsdecode(path), Budget(_LIST_S))
        if again.weak_hash() != listed.weak():
            raise NotTold("it changed while it was read")
        size = {"digest": digest, "bytes": listed.size, "form": "folder", "files": len(listed.files)}
        return self._row(path, told, size, self._folder_about(path), None, newest_ns)

    def _manifest_digest(self, listed: Manifest) -> str:
        ((_, digest),) = verified([listed], self._cache, hashed=self._pace.take)
        return digest

    def _folder_about(self, path: bytes) -> About:
        name = os.path.basename(path).decode("utf-8", "replace")
        found = folder_about(name, self._tree.listing(path), lambda card: _card(path + b"/" + card))
        return found or unrecognised("")

    def _row(
        self, path: bytes, told: Mapping[str, Any], size: Mapping[str, Any], about: About, payload: Optional[str],
        mtime_ns: int,
    ) -> Dict[str, Any]:  # fmt: skip
        text = path.decode("utf-8")
        found = about.wire(payload)
        said = {key: told[key] for key in ("kind", "licence") if told.get(key)}
        facts = {**told.get("facts", {}), **{key: each for key, each in found.pop("facts", {}).items() if key not in told}}
        copy = {"path": text, "medium": self._tree.medium(path), "modified_at": moment(mtime_ns)}
        return {
            "name": told.get("name") or one_line(os.path.basename(text), _LONGEST_NAME) or "/", **size, **found, **said,
            **({"facts": facts} if facts else {}), "copies": [{key: each for key, each in copy.items() if each is not None}],
        }  # fmt: skip

    def _take(self, size: int) -> None:
        if size > self._left:
            raise NotTold("it is too large to be read beside this run: labcarbon-collect scan finds it")
        self._left -= size


def _in_time(told: Mapping[str, Any], mtime_ns: int, ctime_ns: int) -> None:
    """Where the run's beginning is told, what it made is no older, and what it read is. Raises NotTold."""
    since_ns = told.get("since_ns")
    if since_ns is None:
        return
    if told["role"] == PRODUCED:
        if max(mtime_ns, ctime_ns) < since_ns - _CLOCK_NS:
            raise NotTold("it is older than this run, which did not write it")
    elif mtime_ns > since_ns:
        raise NotTold("it was written while the run went on: what the run read is not known")


def _card(path: bytes) -> bytes:
    """A small file; empty if it is large or cannot be read."""
    try:
        with closing(LocalReader(path, follow=True)) as file:
            return file.at(0, MAX_CARD_BYTES) if file.stood().size <= MAX_CARD_BYTES else b""
    except OSError:
        return b""
