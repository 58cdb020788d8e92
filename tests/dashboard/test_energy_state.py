"""Energy that is not counted yet is told apart from energy that was not measured."""

import csv
import re
from uuid import UUID

import pytest
from django.test import Client

from apps.core.jobs import run_until_idle
from apps.fleet.models import Node
from apps.preflight.choices import FindingState
from apps.preflight.models import Avoided, DuplicateFinding, Preflight
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import gpu, queries, text_of, use
from tests.preflight.finding_rows import KEY, many_findings

DUPLICATES = "/runs/duplicates/"
COUNTED, NOT_YET, NOT_MEASURED = "counted", "not_counted_yet", "not_measured"


def states_on(page: str) -> list[str]:
    return re.findall(r'data-energy-state="(\w+)"', page)


def end_all(lab: SmallLab) -> None:
    """End all runs long before the last upload of the node."""
    Run.objects.filter(lab=lab.lab).update(state="finished", ended_us=T0 + 99 * MINUTE)
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0 + 999 * MINUTE)


@pytest.fixture
def three(lab: SmallLab) -> list[UUID]:
    """A run that is counted, one whose windows wait for the ledger, and an unmeasured one."""
    [counted] = use(lab)
    [waiting] = use(lab, first=1, settle=False)
    run = Run.objects.create(
        lab=lab.lab, uuid=UUID(int=1), name="quiet", started_us=T0, node=lab.node
    )
    end_all(lab)
    return [counted, waiting, run.uuid]


def test_the_list_of_runs_and_its_csv(lab: SmallLab, owner: Client, three: list[UUID]) -> None:
    assert sorted(states_on(text_of(owner.get("/runs/")))) == [NOT_YET, NOT_MEASURED]
    lines = csv.DictReader(text_of(owner.get("/runs.csv")).splitlines())
    states = {UUID(line["run"]): (line["energy_state"], line["energy_mj"]) for line in lines}
    assert [states[uuid] for uuid in three] == [
        (COUNTED, "6000001"),
        (NOT_YET, ""),
        (NOT_MEASURED, ""),
    ]
    run_until_idle(worker="test")
    assert states_on(text_of(owner.get("/runs/"))) == [NOT_MEASURED]


def test_the_page_of_a_run(owner: Client, three: list[UUID]) -> None:
    _, waiting, unmeasured = three
    page = text_of(owner.get(f"/runs/{waiting}/"))
    assert states_on(page) == [NOT_YET]
    assert "No window contains this run" not in page
    page = text_of(owner.get(f"/runs/{unmeasured}/"))
    assert states_on(page) == [NOT_MEASURED]
    assert "No window contains this run" in page


def test_the_comparison_and_its_csv(owner: Client, three: list[UUID]) -> None:
    query = "&".join(f"run={uuid}" for uuid in three)
    page = text_of(owner.get(f"/runs/compare/?{query}"))
    assert states_on(page) == [NOT_YET, NOT_MEASURED] * 3  # energy, emissions, cost
    table = list(csv.reader(text_of(owner.get(f"/runs/compare.csv?{query}")).splitlines()))
    rows = {(row[0], row[1]): row[3:] for row in table}
    assert rows["figure", "energy_mj"] == ["6000001", "", ""]
    assert rows["figure", "energy_state"] == [COUNTED, NOT_YET, NOT_MEASURED]


def test_a_period_without_energy_of_a_counted_run_does_not_wait(
    lab: SmallLab, owner: Client, three: list[UUID]
) -> None:
    Run.objects.filter(uuid=three[0]).update(ended_us=T0 + 3 * 24 * 60 * MINUTE)
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0 + 9 * 24 * 60 * MINUTE)
    run_until_idle(worker="test")
    query = "from=2026-11-03T00:00Z&to=2026-11-04T00:00Z&clip=1"
    assert states_on(text_of(owner.get(f"/runs/?{query}"))) == [NOT_MEASURED]


def family_lab(lab: SmallLab) -> list[DuplicateFinding]:
    """Store a family of a counted, a waiting and two unmeasured duplicates, and a single waiting
    one.
    """
    findings = many_findings(lab, [4, 1])
    runs = [finding.run for finding in findings]
    for i, (run, settle) in enumerate(((runs[1], True), (runs[2], False), (runs[0], False))):
        at_us = T0 + (100 + i) * MINUTE
        window = W(
            gpu(), 5_000, start_us=at_us, end_us=at_us + MINUTE, seq=i,
            shares=((f"run:{run.uuid}", 5_000),),
        )  # fmt: skip
        push(lab.node, [window], settle=settle)
    end_all(lab)
    return findings


def test_families_single_findings_and_their_csv(lab: SmallLab, owner: Client) -> None:
    findings = family_lab(lab)
    page = text_of(owner.get(DUPLICATES))
    rows = {
        key or "single": states_on(row)
        for key, row in re.findall(r'<tr(?: data-family="(\d+)"[^>]*)?>(.*?)</tr>', page)
    }
    assert rows[str(KEY)] == [NOT_YET, NOT_MEASURED]
    assert "1 not counted yet" in page
    assert "2 not measured" in page
    total = page.split("<tfoot>")[1]
    assert "2 not counted yet" in total
    assert "2 not measured" in total
    lines = csv.DictReader(text_of(owner.get("/runs/duplicates.csv")).splitlines())
    assert [line["energy_state"] for line in lines] == [
        NOT_YET, COUNTED, NOT_YET, NOT_MEASURED, NOT_MEASURED,
    ]  # fmt: skip
    opened = text_of(owner.get(f"{DUPLICATES}?family={KEY}"))
    assert states_on(opened.split("<tbody>")[1].split("</tbody>")[0]) == [
        NOT_YET, NOT_MEASURED, NOT_MEASURED,
    ]  # fmt: skip
    single = text_of(owner.get(f"{DUPLICATES}?verdict=duplicate&text=run-1-"))
    assert states_on(single.split("<tbody>")[1]) == [NOT_YET]
    finding = text_of(owner.get(f"{DUPLICATES}{findings[0].pk}/"))
    assert states_on(finding) == [NOT_YET] * 2 + [NOT_MEASURED] * 2


def test_a_family_of_which_nothing_is_counted(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [2])
    page = text_of(owner.get(f"{DUPLICATES}?family={KEY}"))
    assert "2 not measured" in page
    assert "not counted yet" not in page
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0)
    for address in (DUPLICATES, f"{DUPLICATES}?family={KEY}"):
        page = text_of(owner.get(address))
        assert "2 not counted yet" in page
        assert "not measured" not in page


def test_confirmed_duplicates_and_stopped_runs(lab: SmallLab, owner: Client) -> None:
    [finding] = many_findings(lab, [1])
    DuplicateFinding.objects.update(state=FindingState.CONFIRMED, decided_us=T0)
    preflight = Preflight.objects.create(
        lab=lab.lab, uuid=UUID(int=2), at_us=T0, verdict="duplicate", level="warn",
        certainty="verified", matches=[],
    )  # fmt: skip
    Avoided.objects.create(
        lab=lab.lab, preflight=preflight, run=finding.original, f1=7, f1_weak=None, at_us=T0
    )
    assert states_on(text_of(owner.get(DUPLICATES))) == [NOT_MEASURED] * 2
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=T0)
    assert states_on(text_of(owner.get(DUPLICATES))) == [NOT_YET] * 2


def test_queries_do_not_grow_with_uncounted_runs(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=2, settle=False)
    end_all(lab)
    few = queries(owner, "/runs/")
    use(lab, runs=30, first=2, settle=False)
    end_all(lab)
    assert queries(owner, "/runs/") == few
    assert states_on(text_of(owner.get("/runs/"))) == [NOT_YET] * 32
