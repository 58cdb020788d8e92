"""manage.py poll_mlflow: what is on is read now, and how it went is said."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from apps.runs.models import Run
from apps.trackers.mlflow.models import MlflowSource
from tests.builders import SmallLab
from tests.fakes.mlflow_server import FakeMlflow
from tests.trackers.mlflow_support import source_at, training


def _said(*arguments: str) -> str:
    out = StringIO()
    call_command("poll_mlflow", "--once", *arguments, stdout=out)
    return out.getvalue()


def test_it_reads_and_says_how_it_went(fake: FakeMlflow, lab: SmallLab) -> None:
    source_at(fake, lab)
    training(fake, "a1")
    assert _said() == "MLflow: 1 new or changed runs\n"
    assert _said("--source", "MLflow") == "MLflow: 0 new or changed runs\n"
    assert Run.objects.count() == 1


def test_a_failure_is_the_exit_code(fake: FakeMlflow, lab: SmallLab) -> None:
    source_at(fake, lab)
    fake.faults["*"] = (401, {}, b"")
    with pytest.raises(CommandError, match=r"1 server failed\."):
        _said()


def test_what_is_not_there_is_named(fake: FakeMlflow, lab: SmallLab) -> None:
    with pytest.raises(CommandError, match="No MLflow server is enabled"):
        _said()
    source_at(fake, lab)
    with pytest.raises(CommandError, match=r"no enabled server 'nope'.*Known: MLflow"):
        _said("--source", "nope")
    MlflowSource.objects.update(enabled=False)
    with pytest.raises(CommandError, match="No MLflow server is enabled"):
        _said("--source", "MLflow")
