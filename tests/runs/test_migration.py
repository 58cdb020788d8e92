"""An installation that is upgraded, or goes back, keeps the keys of its runs."""

import pytest

from apps.core.models import Job
from apps.runs.models import TierKey
from apps.runs.rekeying import REKEY
from tests.builders import small_lab
from tests.migrating import latest_afterwards, migrate
from tests.runs.fingerprints import a_run

BEFORE = "runs", "0005_parents_and_lost_runs"


@pytest.mark.django_db(transaction=True)
def test_keys_lose_their_number_and_nothing_else() -> None:
    lab = small_lab().lab
    run, other = a_run(lab), a_run(lab)
    kept = {(10, -5, run.pk), (10, 2**62, run.pk), (20, -5, run.pk), (10, -5, other.pk)}
    TierKey.objects.bulk_create(TierKey(lab=lab, run_id=run_id, tier=tier, key=key) for tier, key, run_id in kept)
    with latest_afterwards():
        old = migrate(*BEFORE).get_model("runs", "TierKey").objects
        assert set(old.values_list("tier", "key", "run_id")) == kept
        old.create(lab_id=lab.pk, run_id=run.pk, tier=10, key=-5)  # twice the same said nothing more
    assert sorted(TierKey.objects.values_list("tier", "key", "run_id")) == sorted(kept)
    assert Job.objects.filter(kind=REKEY, key=str(lab.pk), done=0).exists()  # an older rule may have made them
