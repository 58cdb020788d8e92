"""Originals that are themselves duplicates: pages name the first run of the chain."""

import itertools
import re

import pytest
from django.test import Client

from apps.preflight.choices import FindingState, Verdict
from apps.preflight.finding_roots import first_runs
from apps.preflight.models import DuplicateFinding
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab
from tests.dashboard.support import assert_each_figure_explains_itself, queries, text_of
from tests.runs.fingerprints import a_run


def chain(lab: SmallLab, length: int, **facts: str) -> list[Run]:
    """Make runs, each of which repeats the one before."""
    runs = [
        a_run(lab.lab, name=f"step-{i}", started_us=T0 + i * MINUTE, ended_us=T0 + i * MINUTE + 1)
        for i in range(length)
    ]
    DuplicateFinding.objects.bulk_create(
        DuplicateFinding(
            lab=lab.lab, run=run, original=before, detected_us=T0,
            **{"verdict": Verdict.DUPLICATE, "certainty": "verified", **facts},
        )
        for before, run in itertools.pairwise(runs)
    )  # fmt: skip
    return runs


def first_on(page: str) -> set[str]:
    return set(re.findall(r'data-first-run="([^"]+)"', page))


def addresses(run: Run) -> list[str]:
    finding = DuplicateFinding.objects.get(run=run)
    return [
        "/runs/duplicates/?text=" + run.name,
        f"/runs/duplicates/{finding.pk}/",
        f"/runs/{run.uuid}/",
    ]


def test_pages_name_the_first_run(lab: SmallLab, owner: Client) -> None:
    runs = chain(lab, 4)
    for address in addresses(runs[3]):
        page = text_of(owner.get(address))
        assert first_on(page) == {str(runs[0].uuid)}
        assert f'href="/runs/{runs[0].uuid}/"' in page
        assert_each_figure_explains_itself(owner, page)
    for address in addresses(runs[1]):
        assert first_on(text_of(owner.get(address))) == set()


@pytest.mark.parametrize(
    "change", [{"state": FindingState.DISMISSED, "decided_us": T0}, {"verdict": Verdict.NEAR}]
)
def test_a_dismissed_or_near_finding_ends_the_chain(lab: SmallLab, change: dict[str, str]) -> None:
    runs = chain(lab, 4)
    DuplicateFinding.objects.filter(run=runs[1]).update(**change)
    ids = [run.pk for run in runs]
    assert first_runs(ids) == {runs[2].pk: runs[1], runs[3].pk: runs[1]}
    assert first_runs([]) == {}
    assert first_runs([runs[0].pk]) == {}


def test_queries_do_not_grow_with_the_chain(lab: SmallLab, owner: Client) -> None:
    chain(lab, 3)
    before = queries(owner, "/runs/duplicates/?text=step-2")
    chain(lab, 9)
    assert queries(owner, "/runs/duplicates/?text=step-2") == before
