"""An installation that is upgraded, or goes back, keeps the keys of its runs."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.runs.models import TierKey
from tests.builders import small_lab
from tests.runs.fingerprints import a_run

BEFORE, AFTER = [("runs", "0005_parents_and_lost_runs")], [("runs", "0006_keys_of_runs_without_ids")]


def _migrate(to: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(to)
    return executor.loader.project_state(to).apps.get_model("runs", "TierKey").objects


@pytest.mark.django_db(transaction=True)
def test_keys_lose_their_number_and_nothing_else() -> None:
    lab = small_lab().lab
    run, other = a_run(lab), a_run(lab)
    kept = {(10, -5, run.pk), (10, 2**62, run.pk), (20, -5, run.pk), (10, -5, other.pk)}
    TierKey.objects.bulk_create(TierKey(lab=lab, run_id=run_id, tier=tier, key=key) for tier, key, run_id in kept)
    try:
        old = _migrate(BEFORE)
        assert set(old.values_list("tier", "key", "run_id")) == kept
        old.create(lab_id=lab.pk, run_id=run.pk, tier=10, key=-5)  # twice the same said nothing more
    finally:
        new = _migrate(AFTER)
    assert sorted(new.values_list("tier", "key", "run_id")) == sorted(kept)
