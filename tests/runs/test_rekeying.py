"""Keys that an older rule made are made anew after an upgrade, by a job, for every run and with
what its project ignores.
"""

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.runs.choices import Tier
from apps.runs.models import Run, TierKey
from apps.runs.services import ignored_params
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.ignored_params import ignore_parameter
from tests.builders import SmallLab, small_lab
from tests.runs.fingerprints import a_run, parsed
from tests.shipped_data import T0

pytestmark = pytest.mark.django_db
LEFT_OUT = (Tier.LEFT_OUT, Tier.LEFT_OUT_WEAK)


def keys() -> set[tuple[int, int, int]]:
    return set(TierKey.objects.values_list("run_id", "tier", "key"))


def filled(small: SmallLab, count: int) -> list[Run]:
    runs = [a_run(small.lab, project=small.lab.projects.get(slug="demo")) for _ in range(count)]
    for run in runs:
        put_fingerprint(run=run, payload=parsed())
    return runs


def made_old() -> None:
    """Give the runs keys as they were: other numbers, each anywhere."""
    for row in TierKey.objects.filter(tier__in=LEFT_OUT):
        TierKey.objects.filter(pk=row.pk).delete()
        TierKey.objects.create(
            lab_id=row.lab_id, run_id=row.run_id, tier=row.tier - 5, key=row.key * 31 % 2**63
        )


def rekeyed(small: SmallLab) -> None:
    Job.objects.create(kind=ignored_params.REBUILD_KEYS, key=str(small.lab.pk), requested=1)
    run_until_idle(worker="test")


def test_every_run_has_the_keys_of_today() -> None:
    small = small_lab()
    filled(small, 3)
    ignore_parameter(project=small.lab.projects.get(slug="demo"), name="lr", by=small.owner, now=T0)
    filled(small, 1)
    run_until_idle(worker="test")
    before = keys()
    made_old()
    assert keys() != before
    rekeyed(small)
    assert keys() == before


def test_a_job_that_has_not_done_all_asks_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignored_params, "CHUNK", 2)
    monkeypatch.setattr(ignored_params, "MOST", 2)
    small = small_lab()
    filled(small, 5)
    before = keys()
    made_old()
    assert ignored_params.rebuild_old_keys(lab=small.lab)
    assert TierKey.objects.filter(tier__in=LEFT_OUT).exists()
    assert TierKey.objects.filter(tier__in=ignored_params._OLD_TIERS).exists()
    rekeyed(small)
    assert keys() == before


def test_what_has_no_fingerprint_any_more_only_loses_its_old_keys() -> None:
    small = small_lab()
    run = a_run(small.lab)
    TierKey.objects.create(lab=small.lab, run=run, tier=50, key=7)
    assert ignored_params.rebuild_old_keys(lab=small.lab)
    assert keys() == set()
    assert not ignored_params.rebuild_old_keys(lab=small.lab)


def test_where_nothing_is_old_two_queries_say_so(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    small = small_lab()
    filled(small, 2)
    with django_assert_num_queries(2):
        assert not ignored_params.rebuild_old_keys(lab=small.lab)


def test_no_other_lab_is_touched() -> None:
    small, other = small_lab(), small_lab(name="Other")
    filled(small, 1)
    filled(other, 1)
    made_old()
    ignored_params.rebuild_old_keys(lab=small.lab)
    assert set(
        TierKey.objects.filter(tier__in=ignored_params._OLD_TIERS).values_list("lab_id", flat=True)
    ) == {other.lab.pk}
