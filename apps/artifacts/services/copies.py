"""Recording of copies: registered ones, and states reported by scans."""

import hashlib
from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import Lab
from apps.artifacts.choices import CopyState, Medium
from apps.artifacts.models import Artifact, Copy, SharedBytes
from apps.artifacts.parsing import ArtifactRow, CopyRow, CopyStateRow
from apps.core.intervals import datetime_to_us
from apps.fleet.models import Node

# A scan does not change the state of copies removed by a plan.
_REMOVED_STATES = (CopyState.TRASHED, CopyState.DELETED)
# The medium behind these addresses is unknown.
_NO_MEDIUM_PREFIXES = ("http://", "https://")


def is_address(path: str) -> bool:
    """Return whether a path is an address of an object (``s3://bucket/key``), independent of a
    node.
    """
    return "://" in path


def location_key(node: Node | None, path: str) -> str:
    """Return the key of a path on a node, or of an address: SHA-256, 64 hex digits."""
    node_id = "" if node is None or is_address(path) else str(node.uuid)
    return hashlib.sha256(f"{node_id}\0{path}".encode()).hexdigest()


class CopyRecorder:
    """Collects and stores the copies of one request."""

    def __init__(
        self, *, lab: Lab, node: Node | None, rows: Sequence[ArtifactRow], now: int
    ) -> None:
        self._lab, self._node, self._now = lab, node, now
        places = {location_key(node, copy.path) for row in rows for copy in row.copies}
        known_copies = (
            Copy.objects.filter(lab=lab, location_key__in=places)
            .select_related("artifact")
            .order_by("pk")
        )
        self._before = {
            copy.location_key: (copy.artifact.digest, copy.state, copy.medium)
            for copy in known_copies
        }
        self._first = {
            (copy.location_key, copy.artifact.digest): (copy.first_observed_us, copy.restarted_us)
            for copy in known_copies
            if copy.state not in _REMOVED_STATES
        }
        self._sharing = {copy.location_key for copy in known_copies if copy.own_bytes is not None}
        self._fresh: dict[str, Copy] = {}

    def add(self, artifact: Artifact, rows: Sequence[CopyRow]) -> bool:
        """Add copies of an artifact; return whether one is new, was not present, or changed its
        medium.
        """
        is_changed = False
        for row in rows:
            copy = self._copy(artifact, row)
            before = self._before.get(copy.location_key)
            if before is not None and copy.medium == Medium.UNKNOWN:
                copy.medium = before[2]  # an unknown medium never replaces a known one
            self._fresh[copy.location_key] = copy
            is_changed = is_changed or before != (artifact.digest, copy.state, copy.medium)
        return is_changed

    def store(self) -> None:
        """Write the added copies. The artifacts must be stored before."""
        for copy in self._fresh.values():
            copy.artifact_id = copy.artifact.pk
        Copy.objects.bulk_create(
            self._fresh.values(),
            update_conflicts=True,
            unique_fields=["lab", "location_key"],
            batch_size=500,
            update_fields=[
                "artifact",
                "medium",
                "state",
                "modified_us",
                "first_observed_us",
                "restarted_us",
                "last_observed_us",
                "hashed_us",
            ],
        )
        replaced = [
            key
            for key in sorted(self._sharing & self._fresh.keys())
            if self._before[key][0] != self._fresh[key].artifact.digest
        ]
        if replaced:
            SharedBytes.objects.filter(
                copy__lab=self._lab, copy__location_key__in=replaced
            ).delete()
            Copy.objects.filter(lab=self._lab, location_key__in=replaced).update(own_bytes=None)

    def _copy(self, artifact: Artifact, row: CopyRow) -> Copy:
        node = None if is_address(row.path) else self._node
        is_object = node is None and not row.path.startswith(_NO_MEDIUM_PREFIXES)
        medium = Medium.OBJECT if is_object and row.medium == Medium.UNKNOWN else row.medium
        key = location_key(node, row.path)
        restarted_us = self._now if key in self._before else 0
        first_us, restarted_us = self._first.get((key, artifact.digest), (self._now, restarted_us))
        return Copy(
            lab=self._lab,
            artifact=artifact,
            node=node,
            path=row.path,
            location_key=key,
            medium=medium,
            state=CopyState.PRESENT,
            modified_us=datetime_to_us(row.modified_at) if row.modified_at else None,
            first_observed_us=first_us,
            restarted_us=restarted_us,
            last_observed_us=self._now,
            hashed_us=self._now,
        )


@transaction.atomic
def record_copy_states(
    *, lab: Lab, node: Node | None, rows: Sequence[CopyStateRow], now: int
) -> int:
    """Record copies as missing, corrupt or present again; return the number of changes. Unknown
    paths are ignored.
    """
    states = {location_key(node, row.path): row.state for row in rows}
    changed_copies = []
    for copy in (
        Copy.objects.select_for_update().filter(lab=lab, location_key__in=states).order_by("pk")
    ):
        state = states[copy.location_key]
        if copy.state in _REMOVED_STATES or copy.state == state:
            continue
        copy.state = state
        if state != CopyState.MISSING:
            copy.last_observed_us = now
        changed_copies.append(copy)
    Copy.objects.bulk_update(changed_copies, ["state", "last_observed_us"], batch_size=500)
    return len(changed_copies)
