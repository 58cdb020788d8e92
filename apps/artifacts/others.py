"""Which copies surely lie elsewhere, so that one may go as one of several."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from apps.artifacts.choices import CopyState, LineOutcome
from apps.artifacts.models import Copy, PlanLine

_AT_ONCE = 500


@dataclass(frozen=True)
class Elsewhere:
    """The paths of the copies of some artifacts, by number of artifact and of copy."""

    paths: Mapping[int, Mapping[int, str]]

    def is_last(self, copy: Copy) -> bool:
        """Whether no other copy surely lies elsewhere. One of the same path on another machine may be the same file, on a
        share that both mount."""
        there = self.paths.get(copy.artifact_id, {})
        return not any(pk != copy.pk and path != copy.path for pk, path in there.items())


def elsewhere(artifacts: Iterable[int]) -> Elsewhere:
    """Return where ``artifacts`` lie. Left out is a copy that a machine refused to move since it was last read: it may hold
    something else by now."""
    refused = PlanLine.objects.filter(
        copy=OuterRef("pk"), outcome=LineOutcome.REFUSED, outcome_us__gte=OuterRef("hashed_us")
    )
    sure = Copy.objects.filter(~Exists(refused), state=CopyState.PRESENT)
    listed = sorted(set(artifacts))
    paths: dict[int, dict[int, str]] = defaultdict(dict)
    for start in range(0, len(listed), _AT_ONCE):
        rows = sure.filter(artifact__in=listed[start : start + _AT_ONCE]).order_by()
        for artifact, pk, path in rows.values_list("artifact", "pk", "path"):
            paths[artifact][pk] = path
    return Elsewhere(paths)
