"""Which run an estimate is attached to: the run that names it, else the next run of its work."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project
from apps.planner.formulas.work import Work
from apps.planner.job_input import JobInput
from apps.planner.models import Estimate
from apps.planner.services import OPEN_US, create_estimate
from apps.runs.choices import Intent
from apps.runs.models import Run
from apps.runs.services.fingerprints import fingerprint_from_params, put_fingerprint
from apps.runs.services.runs import RunFacts, change_run, put_run
from apps.runs.services.updates import RunUpdate
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.runs.fingerprints import hex64, parsed

DAY = 24 * 60 * MINUTE
pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def planned(small: SmallLab, *, at_us: int = T0 - DAY, project: Any = None, **wire: Any) -> Any:
    """Store an estimate of the work of :func:`parsed`."""
    job = JobInput(fingerprint=parsed(**wire), work=Work(epochs=10), project=project)
    return create_estimate(lab=small.lab, job=job, person=small.owner, now=at_us)[0]


def put(
    small: SmallLab, *, fingerprint: Any = None, started_us: int = T0, **facts: Any
) -> tuple[Run, str]:
    update = RunUpdate(fingerprint=fingerprint, intent=facts.pop("intent", None))
    return put_run(
        lab=small.lab,
        uuid=facts.pop("uuid", None) or uuid4(),
        facts=RunFacts(name="train.py", started_us=started_us, known=update, **facts),
        by=small.owner,
        bound_node=None,
        now=T0,
    )


def estimate_of(run: Run) -> Estimate | None:
    return Estimate.objects.filter(run=run).first()


def test_the_named_estimate_is_attached_whatever_the_run_does(small: SmallLab) -> None:
    estimate = planned(small)
    uuid = uuid4()
    run, warning = put(small, estimate=estimate.uuid, intent=Intent.DEBUG, uuid=uuid)
    assert warning == ""
    stored = Estimate.objects.get()
    assert (stored.run, stored.attached_us is not None) == (run, True)
    again, warning = put(small, estimate=estimate.uuid, uuid=uuid)
    assert (again.pk, warning) == (run.pk, ""), "a message that is sent again"


def test_the_named_estimate_precedes_that_of_the_work(small: SmallLab) -> None:
    planned(small)
    named = planned(small, entry=hex64("other.py"))
    run, _ = put(small, estimate=named.uuid, fingerprint=parsed())
    assert estimate_of(run) == named


def test_an_estimate_that_cannot_be_attached_is_a_warning(small: SmallLab) -> None:
    elsewhere = small_lab(name="Elsewhere")
    theirs = planned(elsewhere)
    expired = planned(small, at_us=T0 - OPEN_US)
    taken, other = planned(small), planned(small)
    first, _ = put(small, estimate=taken.uuid)
    for uuid, text in (
        (uuid4(), "There is no estimate"),
        (theirs.uuid, "There is no estimate"),
        (expired.uuid, "had expired"),
        (taken.uuid, "belongs to another run"),
    ):
        run, warning = put(small, estimate=uuid, fingerprint=parsed(), project="nothing")
        assert text in warning
        assert str(uuid) in warning
        assert "no project 'nothing'" in warning, "one warning does not hide another"
        assert Run.objects.filter(pk=run.pk).exists(), "the run is registered all the same"
        assert estimate_of(run) is None, "nor is another estimate attached"
    _, warning = put(small, estimate=other.uuid, uuid=first.uuid)
    assert "This run has another estimate" in warning
    assert estimate_of(first) == taken


def test_the_estimate_of_a_deleted_run_is_not_open_again(small: SmallLab) -> None:
    estimate = planned(small)
    run, _ = put(small, estimate=estimate.uuid)
    run.delete()
    run, warning = put(small, estimate=estimate.uuid)
    assert "belongs to another run" in warning
    run, _ = put(small, fingerprint=parsed())
    assert estimate_of(run) is None


def test_the_newest_open_estimate_of_the_work_is_attached(small: SmallLab) -> None:
    older, newest = planned(small, at_us=T0 - 2 * DAY), planned(small)
    planned(small, at_us=T0 + 1)
    planned(small_lab(name="Elsewhere"))
    first, _ = put(small, fingerprint=parsed(seeds={"seed": hex64("7")[:32]}))
    assert estimate_of(first) == newest
    put(small, fingerprint=parsed(), uuid=first.uuid)
    assert estimate_of(first) == newest, "a run has one"
    second, _ = put(small, fingerprint=parsed())
    assert estimate_of(second) == older
    third, _ = put(small, fingerprint=parsed())
    assert estimate_of(third) is None


def test_the_fingerprint_may_arrive_later(small: SmallLab) -> None:
    estimate = planned(small)
    run, _ = put(small)
    assert estimate_of(run) is None
    change_run(
        lab=small.lab, uuid=run.uuid, state=None, ended_us=None, exit_code=None,
        reported_energy_mj=None, bound_node=None, update=RunUpdate(fingerprint=parsed()),
    )  # fmt: skip
    assert estimate_of(run) == estimate


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": {"entry": hex64("other.py")}},
        {"fingerprint": {"params": {}}},
        {"fingerprint": {"data": None}},
        {"intent": Intent.PROBE},
        {"intent": Intent.DEBUG},
        {"intent": Intent.SERVICE},
        {"started_us": T0 - DAY + OPEN_US},
        {"started_us": T0 - DAY - 1},
    ],
    ids=str,
)
def test_other_runs_get_none(small: SmallLab, change: dict[str, Any]) -> None:
    planned(small)
    change = {**change, "fingerprint": parsed(**change.get("fingerprint", {}))}
    assert estimate_of(put(small, **change)[0]) is None


def test_hashes_of_contents_decide_where_both_are_known(small: SmallLab) -> None:
    by_names = {"data": {"weak": hex64("stat"), "items": []}}
    other = {"data": {"weak": hex64("stat"), "verified": hex64("new content"), "items": []}}
    equal_names = planned(small, **by_names)
    planned(small, **other)
    run, _ = put(small, fingerprint=parsed())
    assert estimate_of(run) == equal_names
    run, _ = put(small, fingerprint=parsed())
    assert estimate_of(run) is None, "the contents of the data differ"
    equal = planned(small, at_us=T0 - 2 * DAY)
    planned(small, **by_names)
    run, _ = put(small, fingerprint=parsed())
    assert estimate_of(run) == equal, "equal contents precede equal names"


def test_projects_must_not_differ(small: SmallLab) -> None:
    demo = Project.objects.get(lab=small.lab, slug="demo")
    other = Project.objects.create(lab=small.lab, slug="other", name="Other", created_us=T0)
    theirs = planned(small, project=other)
    run, _ = put(small, fingerprint=parsed(), project="demo")
    assert estimate_of(run) is None
    run, _ = put(small, fingerprint=parsed())
    assert estimate_of(run) == theirs, "the project of the run is unknown"
    without = planned(small)
    planned(small, project=other)
    run, _ = put(small, fingerprint=parsed(), project=demo.slug)
    assert estimate_of(run) == without


def test_a_registration_costs_one_query_more(small: SmallLab) -> None:
    def count(fingerprint: Any) -> int:
        with CaptureQueriesContext(connection) as captured:
            put(small, fingerprint=fingerprint)
        return sum("planner_" in each["sql"] for each in captured)

    assert count(parsed()) == 1
    for _ in range(3):
        planned(small, entry=hex64("other.py"))
    assert count(parsed()) == 1
    assert count(None) == 0
    assert count(fingerprint_from_params({"lr": 1})) == 0, "its work is unknown"


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_do_not_share_an_estimate() -> None:
    small = small_lab()
    estimates = {planned(small, at_us=T0 - DAY + i).pk for i in range(4)}
    barrier = threading.Barrier(4)

    def register() -> None:
        try:
            barrier.wait(30)
            put(small, fingerprint=parsed())
        finally:
            close_old_connections()
            connection.close()

    threads = [threading.Thread(target=register) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    attached = Estimate.objects.filter(run__isnull=False)
    assert set(attached.values_list("pk", flat=True)) == estimates
    assert attached.values("run").distinct().count() == 4


def test_a_fingerprint_without_a_registration_attaches_as_well(small: SmallLab) -> None:
    """Trackers and importers store fingerprints themselves."""
    estimate = planned(small)
    run = Run.objects.create(lab=small.lab, uuid=uuid4(), name="train.py", started_us=T0)
    put_fingerprint(run=run, payload=parsed())
    assert estimate_of(run) == estimate
