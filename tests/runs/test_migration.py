"""An installation that is upgraded, or goes back, keeps the keys of its runs."""

import uuid

import pytest

from apps.core.models import Job
from apps.runs.models import TierKey
from apps.runs.services.ignored_params import REKEY
from tests.migrating import an_installation

BEFORE, AFTER = ("runs", "0005_parents_and_lost_runs"), ("runs", "0007_left_out_keys_side_by_side")


@pytest.mark.django_db
def test_keys_lose_their_number_and_nothing_else() -> None:
    with an_installation() as migrate:
        old = migrate(*BEFORE)
        lab = old.get_model("accounts", "Lab").objects.create(slug="old", name="Old", created_us=1)
        runs = old.get_model("runs", "Run").objects
        run, other = (runs.create(lab_id=lab.pk, uuid=uuid.uuid4(), name=name, started_us=1) for name in ("a", "b"))
        kept = {(10, -5, run.pk), (10, 2**62, run.pk), (20, -5, run.pk), (10, -5, other.pk)}
        keys = old.get_model("runs", "TierKey").objects
        for tier, key, run_id in [*kept, (10, -5, run.pk)]:  # twice the same said nothing more
            keys.create(lab_id=lab.pk, run_id=run_id, tier=tier, key=key)
        migrate(*AFTER)
        assert sorted(TierKey.objects.values_list("tier", "key", "run_id")) == sorted(kept)
        assert Job.objects.filter(kind=REKEY, key=str(lab.pk), done=0).exists()  # an older rule may have made them
        back = migrate(*BEFORE).get_model("runs", "TierKey").objects
        assert set(back.values_list("tier", "key", "run_id")) == kept
