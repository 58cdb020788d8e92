"""The inbox of a lab that imports 1 300 runs, most of them intended repeats."""

from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client

from apps.core.clock import utc
from apps.core.jobs import run_until_idle
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import Source
from apps.runs.models import Run
from apps.runs.services.messages import apply_patch, apply_put
from tests.builders import SmallLab
from tests.dashboard.support import text_of
from tests.preflight.imported_runs import (
    DISTINCT,
    DUPLICATES,
    MINUTE_US,
    REPEATS,
    Start,
    fingerprints,
    list_starts,
    write_projects,
)

MAX_OPEN = 14


def import_runs(lab: SmallLab, starts: list[Start]) -> None:
    for start, wire in fingerprints(starts):
        reported_by = Source.COLLECTOR if start.script.folder else Source.MLFLOW
        body = {
            "name": start.script.name,
            "started_at": utc(start.started_us).isoformat(),
            "fingerprint": wire,
        }
        apply_put(
            lab=lab.lab,
            uuid=start.uuid,
            body=body,
            by=lab.owner,
            bound_node=None,
            now=start.started_us,
            reported_by=reported_by,
        )
        ended_us = start.started_us + 60 * MINUTE_US
        change = {**start.end, "ended_at": utc(ended_us).isoformat()}
        apply_patch(lab=lab.lab, uuid=start.uuid, body=change, bound_node=None, now=ended_us)
    while run_until_idle(worker="test"):
        pass


@pytest.mark.timeout(900)
def test_an_inbox_of_1300_imported_runs_holds_the_accidental_duplicates_only(
    lab: SmallLab, owner: Client, tmp_path: Path
) -> None:
    starts = list_starts(write_projects(tmp_path))
    truths: dict[UUID, str] = {start.uuid: start.truth for start in starts}
    assert Counter(truths.values()) == {
        "repeat": REPEATS,
        "distinct": DISTINCT,
        "duplicate": DUPLICATES,
    }
    import_runs(lab, starts)
    assert Run.objects.filter(lab=lab.lab).count() == 1300
    findings = DuplicateFinding.objects.filter(lab=lab.lab, state="open").select_related("run")
    found = Counter(truths[finding.run.uuid] for finding in findings)
    assert found["duplicate"] == DUPLICATES
    assert sum(found.values()) <= MAX_OPEN, found
    assert found["distinct"] == 0
    page = text_of(owner.get("/runs/duplicates/"))
    assert f'data-open="{sum(found.values())}"' in page
