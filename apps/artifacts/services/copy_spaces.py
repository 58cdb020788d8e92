"""Recording of the bytes that copies share, as reported by scans."""

from collections import defaultdict
from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import Lab
from apps.artifacts.models import Copy, SharedBytes
from apps.artifacts.parsing import CopySpaceRow
from apps.artifacts.services.copies import location_key
from apps.fleet.models import Node

_Group = tuple[str, int, int | None]


@transaction.atomic
def record_copy_spaces(*, lab: Lab, node: Node | None, rows: Sequence[CopySpaceRow]) -> int:
    """Record the space of copies; return the number of changes.

    Unknown paths are ignored, and so is a space larger than the artifact: it is of other content.
    """
    rows_by_key = {location_key(node, row.path): row for row in rows}
    copies = (
        Copy.objects.select_for_update(of=("self",))
        .select_related("artifact")
        .filter(lab=lab, node=node, location_key__in=rows_by_key)
        .exclude(node=None)
        .order_by("pk")
    )
    groups_before = defaultdict[int, set[_Group]](set)
    changed, groups = list[Copy](), list[SharedBytes]()
    listed = list(copies)
    for group in SharedBytes.objects.filter(copy__in=listed):
        groups_before[group.copy_id].add((group.key, group.bytes, group.copies))
    for copy in listed:
        row = rows_by_key[copy.location_key]
        reported: set[_Group] = {(group.key, group.bytes, group.copies) for group in row.shared}
        used = (row.own_bytes or 0) + sum(group.bytes for group in row.shared)
        if used > copy.artifact.bytes or (row.own_bytes, reported) == (
            copy.own_bytes,
            groups_before[copy.pk],
        ):
            continue
        copy.own_bytes = row.own_bytes
        changed.append(copy)
        groups += [
            SharedBytes(copy=copy, key=key, bytes=size, copies=copies)
            for key, size, copies in sorted(reported, key=lambda group: group[0])
        ]
    SharedBytes.objects.filter(copy__in=changed).delete()
    Copy.objects.bulk_update(changed, ["own_bytes"], batch_size=500)
    SharedBytes.objects.bulk_create(groups, batch_size=500)
    return len(changed)
