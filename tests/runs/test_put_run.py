"""Registering runs: two who tell of one at the same moment, and what it costs."""

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.runs.models import Run
from apps.runs.services import runs
from apps.runs.services.runs import RunFacts, put_run
from apps.runs.services.updates import RunUpdate
from tests.builders import small_lab
from tests.runs.fingerprints import parsed
from tests.shipped_data import T0

pytestmark = pytest.mark.django_db


def test_two_who_make_a_run_at_once_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = small_lab().lab
    facts, run = RunFacts(name="train.py", started_us=T0), uuid.uuid4()
    put_run(lab=lab, uuid=run, facts=facts, by=None, bound_node=None)
    looked: list[bool] = []
    real = runs._locked

    def too_early(*args: Any) -> tuple[Run, bool]:
        """Look for the run before the other one has stored it, the first time."""
        looked.append(True)
        return (
            (Run(lab=lab, uuid=run, name="train.py", started_us=T0), True)
            if len(looked) == 1
            else real(*args)
        )

    monkeypatch.setattr(runs, "_locked", too_early)
    other = RunFacts(name="told at the same moment", started_us=T0)
    found, _ = put_run(lab=lab, uuid=run, facts=other, by=None, bound_node=None)
    assert len(looked) == 2
    assert Run.objects.get() == found
    assert found.name == "told at the same moment"


def test_a_new_run_with_a_fingerprint_costs_few_statements() -> None:
    small = small_lab()

    def put() -> int:
        facts = RunFacts(
            name="train.py", started_us=T0, project="demo", known=RunUpdate(fingerprint=parsed())
        )
        with CaptureQueriesContext(connection) as counted:
            put_run(
                lab=small.lab,
                uuid=uuid.uuid4(),
                facts=facts,
                by=small.owner,
                bound_node=None,
                now=T0,
            )
        return len(
            [each for each in counted if "runs_" in each["sql"]]
        )  # who listens to runs counts its own

    put()
    # Looked for, stored, with its fingerprint and keys; what its project ignores, and who waits for
    # it as a parent.
    assert put() <= 8
