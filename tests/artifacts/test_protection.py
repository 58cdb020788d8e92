"""Over random lineages: what is pinned, promoted or held, and what promoted and pinned things
came of, is in no plan.
"""

from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.artifacts.choices import LineageRole
from apps.artifacts.cleanup.proposals import propose_copies
from apps.artifacts.holds import effective_holds
from apps.artifacts.models import Artifact, Hold, LineageEdge, Pin
from apps.artifacts.selectors import ancestor_ids
from apps.core.units import hour_of
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER
from tests.artifacts.support import create_run, register_rows, row
from tests.builders import T0, SmallLab
from tests.examples import examples

_edges = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 6),
        st.sampled_from(["produced", "used", "initialised_from"]),
    )
)
_some = st.sets(st.integers(0, 6), max_size=3)
_held = st.one_of(
    st.tuples(st.just("artifact"), st.integers(0, 6)),
    st.tuples(st.just("project"), st.integers(0, 1)),
    st.tuples(st.just("run"), st.integers(0, 4)),
)


def test_ancestors_of_promoted_and_pinned_and_what_is_held_are_in_no_plan(lab: SmallLab) -> None:
    runs = [create_run(lab) for _ in range(5)]
    Run.objects.update(state="finished", ended_us=T0)
    projects = [
        Project.objects.create(lab=lab.lab, slug=f"p{i}", name=f"P{i}", created_us=T0)
        for i in range(2)
    ]
    rows = [row(f"a{i}", kind="checkpoint", copies=[{"path": f"/{i}"}]) for i in range(7)]
    register_rows(lab, *rows, now=T0)
    artifacts = list(Artifact.objects.order_by("pk"))
    hour = hour_of(LATER)
    ends = {None: True, hour + 1: True, hour: False}  # an end, and whether it is to come

    @settings(max_examples=examples(60))
    @given(
        _edges,
        _some,
        _some,
        st.lists(st.tuples(_held, st.sampled_from(list(ends)), st.booleans()), max_size=4),
    )
    def check(
        edges: list[tuple[int, int, str]],
        promoted: set[int],
        pinned: set[int],
        held: list[tuple[tuple[str, int], int | None, bool]],
    ) -> None:
        with transaction.atomic():
            LineageEdge.objects.bulk_create(
                LineageEdge(
                    lab=lab.lab, run=runs[run], artifact=artifacts[i], role=role, recorded_us=T0
                )
                for run, i, role in set(edges)
            )
            Artifact.objects.filter(pk__in=[artifacts[i].pk for i in range(0, 7, 3)]).update(
                project=projects[0]
            )
            Artifact.objects.filter(pk__in=[artifacts[i].pk for i in promoted]).update(
                state="promoted"
            )
            Pin.objects.bulk_create(
                Pin(artifact=artifacts[i], reason="x", from_us=T0) for i in pinned
            )
            things = {"artifact": artifacts, "project": projects, "run": runs}
            Hold.objects.bulk_create(
                Hold(
                    lab=lab.lab,
                    reason="x",
                    from_hour=hour - 5,
                    until_hour=until,
                    placed_us=T0,
                    lifted_us=LATER - 1 if is_lifted else None,
                    **{what: things[what][i]},
                )
                for (what, i), until, is_lifted in held
            )
            proposed = {
                each.copy.artifact_id for each in propose_copies(lab.lab, lab.node, now=LATER)
            }
            protected = _reached(set(edges), promoted | pinned)
            standing = {thing for thing, until, is_lifted in held if ends[until] and not is_lifted}
            kept = {i for i in range(7) if _is_held(i, standing, edges)}
            assert not proposed & {artifacts[i].pk for i in protected | kept}
            started = {artifacts[i].pk for i in promoted | pinned}
            assert ancestor_ids(started) | started == {artifacts[i].pk for i in protected}
            made = {artifacts[i].pk: artifacts[i] for i in range(7)}
            fresh = {pk: Artifact.objects.get(pk=pk) for pk in made}
            assert set(effective_holds(lab.lab, fresh, LATER)) == {artifacts[i].pk for i in kept}
            transaction.set_rollback(True)

    check()


def _is_held(i: int, standing: set[tuple[str, int]], edges: list[tuple[int, int, str]]) -> bool:
    """The oracle of holds: by itself, by its project (every third artifact is in the first), by
    a run of its edges.
    """
    return (
        ("artifact", i) in standing
        or (i % 3 == 0 and ("project", 0) in standing)
        or any(("run", run) in standing for run, pk, _ in edges if pk == i)
    )


def _reached(edges: set[tuple[int, int, str]], wanted: set[int]) -> set[int]:
    """The oracle: what is wanted and all it came of, one step at a time."""
    found = set(wanted)
    while True:
        makers = {run for run, pk, role in edges if pk in found and role == LineageRole.PRODUCED}
        more = {pk for run, pk, role in edges if run in makers and role != LineageRole.PRODUCED}
        if more <= found:
            return found
        found |= more
