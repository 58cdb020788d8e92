"""What an artifact came of and what came of it: the right ones, the nearest first, in queries
that depth does not add to.
"""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.artifacts.models import Artifact, LineageEdge
from apps.artifacts.selectors import ancestor_ids, load_lineage
from apps.runs.models import Run
from tests.artifacts.support import digest
from tests.builders import T0, SmallLab, small_lab
from tests.examples import examples


def things(lab: SmallLab, artifacts: int, runs: int) -> tuple[list[Artifact], list[Run]]:
    made = [
        Artifact(
            lab=lab.lab,
            digest=digest(str(i)),
            form="file",
            bytes=i,
            kind="model",
            name=f"a{i}",
            registered_us=T0,
        )
        for i in range(artifacts)
    ]
    works = [
        Run(
            lab=lab.lab,
            uuid=f"7f1d3b52-2222-4333-8444-{i:012x}",
            name=f"r{i}",
            started_us=T0 + i,
            last_report_us=T0,
        )
        for i in range(runs)
    ]
    return Artifact.objects.bulk_create(made), Run.objects.bulk_create(works)


def join(lab: SmallLab, *edges: tuple[Run, Artifact, str]) -> None:
    LineageEdge.objects.bulk_create(
        LineageEdge(lab=lab.lab, run=run, artifact=artifact, role=role, recorded_us=T0)
        for run, artifact, role in edges
    )


def chain(lab: SmallLab, length: int) -> list[Artifact]:
    """Return artifacts of which each was made from the one before by a run."""
    made, works = things(lab, length, length - 1)
    pairs = list(zip(works, made, made[1:], strict=False))
    join(
        lab,
        *((run, first, "used") for run, first, _ in pairs),
        *((run, then, "produced") for run, _, then in pairs),
    )
    return made


def test_depth_takes_no_more_queries(lab: SmallLab) -> None:
    def asked(it: Artifact) -> int:
        with CaptureQueriesContext(connection) as captured:
            load_lineage(it)
        return len(captured)

    short = chain(lab, 3)
    few = asked(short[1])
    Artifact.objects.all().delete()
    Run.objects.all().delete()
    long = chain(lab, 200)
    assert asked(long[100]) == few <= 8
    found = load_lineage(long[150])
    assert (len(found.artifacts), len(found.runs), len(found.edges), found.is_cut) == (
        200,
        199,
        398,
        False,
    )
    assert len(found.producing_runs) == 150


def test_a_long_one_is_cut_and_says_so(lab: SmallLab) -> None:
    made = chain(lab, 60)
    found = load_lineage(made[30], limit=40)
    assert found.is_cut
    assert len(found.artifacts) + len(found.runs) <= 40
    assert {made[29].pk, made[30].pk, made[28].pk} <= set(found.artifacts)
    assert found.producing_runs <= set(found.runs)
    assert not load_lineage(made[30], limit=119).is_cut
    assert load_lineage(made[30], limit=118).is_cut


def test_what_reads_the_same_is_no_kin(lab: SmallLab) -> None:
    (data, one, other), (first, second) = things(lab, 3, 2)
    join(
        lab,
        (first, data, "used"),
        (first, one, "produced"),
        (second, data, "used"),
        (second, other, "produced"),
    )
    found = load_lineage(one)
    assert set(found.artifacts) == {data.pk, one.pk}
    assert found.producing_runs == {first.pk}
    assert set(load_lineage(data).artifacts) == {data.pk, one.pk, other.pk}


@pytest.mark.django_db
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=25))
def test_the_runs_that_led_to_it_are_those_of_its_ancestors(
    edges: list[tuple[int, int, bool]],
) -> None:
    """By walking, over whatever is told, circles too: against :func:`ancestors_of` and by hand."""
    with transaction.atomic():
        lab = small_lab()
        made, works = things(lab, 6, 6)
        join(lab, *{(works[run], made[i], "produced" if out else "used") for run, i, out in edges})
        makers = {i: {run for run, j, out in edges if out and j == i} for i in range(6)}
        reads = {run: {i for r, i, out in edges if not out and r == run} for run in range(6)}
        above, wave = set[int](), {0}
        while wave:
            above |= wave
            wave = {i for j in wave for run in makers[j] for i in reads[run]} - above
        found = load_lineage(made[0])
        assert found.producing_runs == {works[run].pk for i in above for run in makers[i]}
        assert ancestor_ids([made[0].pk]) == {made[i].pk for i in above} - {made[0].pk}
        transaction.set_rollback(True)
