"""Parameters that a project ignores: recipes and keys follow, for its runs and no others."""

import pytest

from apps.accounts.services.labs import create_project
from apps.core.errors import InvalidInput, NotFound
from apps.core.jobs import run_until_idle
from apps.runs.models import Fingerprint, IgnoredParameter, Run, TierKey
from apps.runs.services.fingerprints import fingerprint_from_params
from apps.runs.services.ignored_params import count_parameter, ignore_parameter, recompute_project
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import small_lab
from tests.runs.fingerprints import a_run, parsed
from tests.shipped_data import T0

pytestmark = pytest.mark.django_db


def keyed(run: Run, **changes: object) -> None:
    from apps.runs.services.fingerprints import put_fingerprint

    put_fingerprint(run=run, payload=parsed(**changes))


def keys(run: Run) -> set[tuple[int, int]]:
    return set(TierKey.objects.filter(run=run).values_list("tier", "key"))


def test_runs_that_differ_in_what_is_ignored_become_the_same() -> None:
    small = small_lab()
    project = small.lab.projects.get(slug="demo")
    one, other, elsewhere = (
        a_run(small.lab, project=project),
        a_run(small.lab, project=project),
        a_run(small.lab),
    )
    for run, value in ((one, 1), (other, 2), (elsewhere, 1)):
        keyed(run, params=fingerprint_from_params({"lr": 0.1, "note-style": value}).params)
    before = keys(elsewhere), keys(one)
    assert keys(one) != keys(other)
    ignore_parameter(project=project, name="--note-style", by=small.owner, now=T0)
    run_until_idle(worker="test")
    assert keys(one) == keys(other)
    assert Fingerprint.objects.get(run=one).recipe == Fingerprint.objects.get(run=other).recipe
    assert keys(elsewhere) == before[0]
    count_parameter(project=project, name="note_style")
    run_until_idle(worker="test")
    assert keys(one) == before[1] != keys(other)
    assert recompute_project(project=project) == 0, "nothing is left to do"


def test_twice_is_once_and_what_is_not_compared_is_refused() -> None:
    small = small_lab()
    project = small.lab.projects.get(slug="demo")
    assert ignore_parameter(project=project, name="lr", by=None, now=T0) == ignore_parameter(
        project=project, name="learning-rate", by=None, now=T0
    )
    for name in ("seed", "output_dir", "--"):
        with pytest.raises(InvalidInput):
            ignore_parameter(project=project, name=name, by=None, now=T0)
    with pytest.raises(NotFound):
        count_parameter(project=project, name="epochs")


def test_a_run_that_moves_to_another_project_is_compared_as_there() -> None:
    small = small_lab()
    project = small.lab.projects.get(slug="demo")
    create_project(lab=small.lab, slug="other", name="Other", now=T0)
    IgnoredParameter.objects.create(project=project, name="flavour", since_us=0)
    facts = {"name": "r", "started_us": T0, "params": {"lr": 1, "flavour": 1}}
    run = a_run(small.lab)
    recipes = []
    for slug in ("demo", "other"):
        put_run(
            lab=small.lab,
            uuid=run.uuid,
            facts=RunFacts(project=slug, **facts),
            by=None,
            bound_node=None,
        )
        recipes.append(Fingerprint.objects.get(run=run).recipe)
    assert recipes[0] != recipes[1]
