"""Other copies of artifacts that can be relied on when one copy is deleted."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from apps.artifacts.choices import CopyState, ItemOutcome
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy

_BATCH_SIZE = 500


@dataclass(frozen=True)
class OtherCopies:
    """Paths of the reliable copies of artifacts, by artifact and copy."""

    paths: Mapping[int, Mapping[int, str]]

    def is_last(self, copy: Copy) -> bool:
        """Return whether there is no other reliable copy.

        The same path on another machine may be the same file on a shared file system.
        """
        return not self._others(copy)

    def select_last(self, copies: Iterable[Copy]) -> set[int]:
        """Return the copies after which no reliable copy remains if all ``copies`` are deleted in
        order.

        Of an artifact whose copies are all listed, it is the one listed last.
        """
        by_artifact: dict[int, list[Copy]] = defaultdict(list)
        for copy in copies:
            by_artifact[copy.artifact_id].append(copy)
        last_copies = set[int]()
        for artifact_copies in by_artifact.values():
            removed = {copy.pk for copy in artifact_copies}
            last_copies |= {copy.pk for copy in artifact_copies if self.is_last(copy)}
            last_copies |= {
                copy.pk for copy in artifact_copies[-1:] if self._others(copy) <= removed
            }
        return last_copies

    def _others(self, copy: Copy) -> set[int]:
        paths = self.paths.get(copy.artifact_id, {})
        return {pk for pk, path in paths.items() if pk != copy.pk and path != copy.path}


def load_other_copies(artifacts: Iterable[int]) -> OtherCopies:
    """Return the reliable copies of ``artifacts``.

    A copy that a machine refused to move since it was last read is left out: its content may have
    changed.
    """
    refused = CleanupItem.objects.filter(
        copy=OuterRef("pk"), outcome=ItemOutcome.REFUSED, outcome_us__gte=OuterRef("hashed_us")
    )
    reliable = Copy.objects.filter(~Exists(refused), state=CopyState.PRESENT)
    artifact_ids = sorted(set(artifacts))
    paths_by_artifact: dict[int, dict[int, str]] = defaultdict(dict)
    for start in range(0, len(artifact_ids), _BATCH_SIZE):
        rows = reliable.filter(artifact__in=artifact_ids[start : start + _BATCH_SIZE]).order_by()
        for artifact, pk, path in rows.values_list("artifact", "pk", "path"):
            paths_by_artifact[artifact][pk] = path
    return OtherCopies(paths_by_artifact)


def fully_selected(plan: CleanupPlan, artifacts: Iterable[int]) -> set[int]:
    """Return those of ``artifacts`` whose last copy is selected in a plan."""
    last_items = plan.items.filter(is_last_copy=True, selected=True).order_by()
    artifact_ids, selected_ids = sorted(set(artifacts)), set[int]()
    for start in range(0, len(artifact_ids), _BATCH_SIZE):
        selected_ids.update(
            last_items.filter(artifact__in=artifact_ids[start : start + _BATCH_SIZE]).values_list(
                "artifact_id", flat=True
            )
        )
    return selected_ids
