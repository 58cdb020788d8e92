"""Which copies surely lie elsewhere, so that one may go as one of several."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from apps.artifacts.choices import CopyState, ItemOutcome
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy

_BATCH_SIZE = 500


@dataclass(frozen=True)
class OtherCopies:
    """The paths of the copies of some artifacts, by number of artifact and of copy."""

    paths: Mapping[int, Mapping[int, str]]

    def is_last(self, copy: Copy) -> bool:
        """Whether no other copy surely lies elsewhere. One of the same path on another machine may be the same file, on a
        share that both mount."""
        return not self._others(copy)

    def select_last(self, copies: Iterable[Copy]) -> set[int]:
        """Return the numbers of those of ``copies`` after which none surely lies elsewhere, if all of them go one after the
        other: of an artifact all of whose copies are among them it is the one that is listed last."""
        by_artifact: dict[int, list[Copy]] = defaultdict(list)
        for copy in copies:
            by_artifact[copy.artifact_id].append(copy)
        last_copies = set[int]()
        for artifact_copies in by_artifact.values():
            removed = {copy.pk for copy in artifact_copies}
            last_copies |= {copy.pk for copy in artifact_copies if self.is_last(copy)}
            last_copies |= {copy.pk for copy in artifact_copies[-1:] if self._others(copy) <= removed}
        return last_copies

    def _others(self, copy: Copy) -> set[int]:
        paths = self.paths.get(copy.artifact_id, {})
        return {pk for pk, path in paths.items() if pk != copy.pk and path != copy.path}


def load_other_copies(artifacts: Iterable[int]) -> OtherCopies:
    """Return where ``artifacts`` lie. Left out is a copy that a machine refused to move since it was last read: it may hold
    something else by now."""
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
    """Return those of ``artifacts`` of which no copy is to stay by a plan as it is ticked: a line of it takes the last."""
    last_items = plan.items.filter(is_last_copy=True, selected=True).order_by()
    artifact_ids, selected_ids = sorted(set(artifacts)), set[int]()
    for start in range(0, len(artifact_ids), _BATCH_SIZE):
        selected_ids.update(
            last_items.filter(artifact__in=artifact_ids[start : start + _BATCH_SIZE]).values_list("artifact_id", flat=True)
        )
    return selected_ids
