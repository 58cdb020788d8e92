"""Where artifacts lie: as somebody found it, and as a scan did not find it any more."""

import hashlib
from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import Lab
from apps.artifacts.choices import CopyState, Medium
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.parsing import ArtifactRow, CopyRow, GoneRow
from apps.core.intervals import datetime_to_us
from apps.fleet.models import Node

# What a plan took away stays so, whatever a scan says of the place.
_BY_PLAN = (CopyState.TRASHED, CopyState.DELETED)
# What hands out what lies there says nothing of the disk below.
_ANY_MEDIUM = ("http://", "https://")


def is_address(path: str) -> bool:
    """Return whether a path is an object's address (``s3://bucket/key``), which lies on no node."""
    return "://" in path


def place_of(node: Node | None, path: str) -> str:
    """Return the key of a path on a node, or of an address: SHA-256, 64 hex digits."""
    where = "" if node is None or is_address(path) else str(node.uuid)
    return hashlib.sha256(f"{where}\0{path}".encode()).hexdigest()


class Copies:
    """The copies that one request tells of, with what lay at their places before."""

    def __init__(self, *, lab: Lab, node: Node | None, rows: Sequence[ArtifactRow], now: int) -> None:
        self._lab, self._node, self._now = lab, node, now
        places = {place_of(node, copy.path) for row in rows for copy in row.copies}
        there = Copy.objects.filter(lab=lab, place__in=places).select_related("artifact").order_by("pk")
        self._before = {copy.place: (copy.artifact.digest, copy.state, copy.medium) for copy in there}
        self._first = {(copy.place, copy.artifact.digest): copy.first_us for copy in there if copy.state not in _BY_PLAN}
        self._fresh: dict[str, Copy] = {}

    def take(self, artifact: Artifact, rows: Sequence[CopyRow]) -> bool:
        """Note copies of an artifact; return whether one lies where it did not, or on another medium."""
        is_news = False
        for row in rows:
            copy = self._copy(artifact, row)
            before = self._before.get(copy.place)
            if before is not None and copy.medium == Medium.UNKNOWN:
                copy.medium = before[2]  # who does not know takes away nothing
            self._fresh[copy.place] = copy
            is_news = is_news or before != (artifact.digest, copy.state, copy.medium)
        return is_news

    def store(self) -> None:
        """Write what was noted; the artifacts are stored by now."""
        for copy in self._fresh.values():
            copy.artifact_id = copy.artifact.pk
        Copy.objects.bulk_create(
            self._fresh.values(), update_conflicts=True, unique_fields=["lab", "place"], batch_size=500,
            update_fields=["artifact", "medium", "state", "modified_us", "first_us", "seen_us", "hashed_us"],
        )  # fmt: skip

    def _copy(self, artifact: Artifact, row: CopyRow) -> Copy:
        node = None if is_address(row.path) else self._node
        is_object = node is None and not row.path.startswith(_ANY_MEDIUM)
        medium = Medium.OBJECT if is_object and row.medium == Medium.UNKNOWN else row.medium
        place = place_of(node, row.path)
        return Copy(
            lab=self._lab, artifact=artifact, node=node, path=row.path, place=place, medium=medium,
            state=CopyState.PRESENT, modified_us=datetime_to_us(row.modified_at) if row.modified_at else None,
            first_us=self._first.get((place, artifact.digest), self._now), seen_us=self._now, hashed_us=self._now,
        )  # fmt: skip


@transaction.atomic
def note_found(*, lab: Lab, node: Node | None, rows: Sequence[GoneRow], now: int) -> int:
    """Record that copies are missing, corrupt or there again; return of how many that is news. Places that nobody told of
    are passed over."""
    told = {place_of(node, row.path): row.state for row in rows}
    changed = []
    for copy in Copy.objects.select_for_update().filter(lab=lab, place__in=told).order_by("pk"):
        state = told[copy.place]
        if copy.state in _BY_PLAN or copy.state == state:
            continue
        copy.state = state
        if state != CopyState.MISSING:
            copy.seen_us = now
        changed.append(copy)
    Copy.objects.bulk_update(changed, ["state", "seen_us"], batch_size=500)
    return len(changed)
