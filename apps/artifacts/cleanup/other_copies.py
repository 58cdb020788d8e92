"""Which copies surely lie elsewhere, so that one may go as one of several."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from apps.artifacts.choices import CopyState, LineOutcome
from apps.artifacts.models import Copy, Plan, PlanLine

_AT_ONCE = 500


@dataclass(frozen=True)
class Elsewhere:
    """The paths of the copies of some artifacts, by number of artifact and of copy."""

    paths: Mapping[int, Mapping[int, str]]

    def is_last(self, copy: Copy) -> bool:
        """Whether no other copy surely lies elsewhere. One of the same path on another machine may be the same file, on a
        share that both mount."""
        return not self._others(copy)

    def last_of(self, copies: Iterable[Copy]) -> set[int]:
        """Return the numbers of those of ``copies`` after which none surely lies elsewhere, if all of them go one after the
        other: of an artifact all of whose copies are among them it is the one that is listed last."""
        by_artifact: dict[int, list[Copy]] = defaultdict(list)
        for copy in copies:
            by_artifact[copy.artifact_id].append(copy)
        found = set[int]()
        for listed in by_artifact.values():
            going = {copy.pk for copy in listed}
            found |= {copy.pk for copy in listed if self.is_last(copy)}
            found |= {copy.pk for copy in listed[-1:] if self._others(copy) <= going}
        return found

    def _others(self, copy: Copy) -> set[int]:
        there = self.paths.get(copy.artifact_id, {})
        return {pk for pk, path in there.items() if pk != copy.pk and path != copy.path}


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


def all_going(plan: Plan, artifacts: Iterable[int]) -> set[int]:
    """Return those of ``artifacts`` of which no copy is to stay by a plan as it is ticked: a line of it takes the last."""
    last = plan.lines.filter(is_last_copy=True, chosen=True).order_by()
    listed, found = sorted(set(artifacts)), set[int]()
    for start in range(0, len(listed), _AT_ONCE):
        found.update(last.filter(artifact__in=listed[start : start + _AT_ONCE]).values_list("artifact_id", flat=True))
    return found
