"""Families on /runs/duplicates/, and decisions about all findings of a family."""

import csv
import io
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.audit import verify
from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.core.models import Job
from apps.dashboard.runs import duplicates_page
from apps.preflight.models import DuplicateFinding
from apps.runs.models import Run, TierKey
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    figures_on,
    queries,
    text_of,
)
from tests.preflight.finding_rows import KEY, many_findings
from tests.preflight.support import judged, stored

ADDRESS = "/runs/duplicates/"


def decide(client: Client, *families: str, query: str = "", **content: Any) -> Any:
    content = {"action": "intentional", **content, "family": list(families)}
    return client.post(f"{ADDRESS}?{query}", content)


def states() -> dict[str, int]:
    counted: dict[str, int] = {}
    for state in DuplicateFinding.objects.values_list("state", flat=True):
        counted[state] = counted.get(state, 0) + 1
    return counted


def listed(page: str) -> list[tuple[str, str]]:
    """Return (key, number) of each family on a page."""
    return re.findall(r'<tr data-family="(\d+)" data-number="(\d+)">', page)


@pytest.fixture
def bob(lab: SmallLab) -> User:
    user = User.objects.create_user(username="bob")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    return user


def test_findings_of_one_family_are_one_row(lab: SmallLab, owner: Client) -> None:
    project = Project.objects.get(lab=lab.lab, slug="demo")
    many_findings(lab, [3, 1, 2], energy_mj=6_000_001, project=project)
    page = text_of(owner.get(ADDRESS))
    assert listed(page) == [(str(KEY + 2), "2"), (str(KEY), "3")]
    for text in ("train_2.py", "run-1-1.py", "Duplicate: 2 · Near duplicate: 1", project.name):
        assert text in page
    assert "train_1.py" not in page  # its only finding is a row of its own
    energies = [value for query, value in figures_on(page) if "metric=energy" in query]
    assert sum(6_000_001 + k for k in range(3)) in energies
    assert energies[-1] == sum(6_000_001 + k for k in range(6))
    assert assert_each_figure_explains_itself(owner, page) == 8


def test_runs_judged_by_the_rule_are_one_family(lab: SmallLab, owner: Client) -> None:
    for minutes in range(3):
        judged(stored(lab, minutes=minutes * 10, user=lab.owner))
    page = text_of(owner.get(ADDRESS))
    [(key, number)] = listed(page)
    assert number == "2"
    assert "train.py" in page
    assert int(key) in TierKey.objects.filter(lab=lab.lab).values_list("key", flat=True)
    assert text_of(owner.get(f"{ADDRESS}?family={key}")).count('name="item"') == 2


def test_a_family_opens_to_its_findings_by_pages(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [60, 2])
    first = text_of(owner.get(f"{ADDRESS}?family={KEY}"))
    assert 'data-findings="60"' in first
    assert first.count('name="item"') == 50
    assert "run-1-" not in first
    second = text_of(owner.get(f"{ADDRESS}?family={KEY}&page=2"))
    assert second.count('name="item"') == 10
    names = {name for page in (first, second) for name in re.findall(r"run-0-\d+\.py", page)}
    assert len(names - {"run-0-0.py"}) == 60


def test_a_figure_of_more_runs_than_a_query_has_states_its_number(
    lab: SmallLab, owner: Client
) -> None:
    many_findings(lab, [60], energy_mj=6_000_001)
    for address in (ADDRESS, f"{ADDRESS}?family={KEY}"):
        page = text_of(owner.get(address))
        largest = sum(6_000_001 + k for k in range(10, 60))
        assert largest in [value for _, value in figures_on(page)]
        assert "50 of 60 runs" in page
        assert_each_figure_explains_itself(owner, page)


def test_families_are_sorted_by_energy_or_newest(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [3], energy_mj=9_000_001)
    many_findings(lab, [2, 2], energy_mj=1_000_001, first=1)
    many_findings(lab, [2], first=7)
    newest = [str(KEY + i) for i in (7, 2, 1, 0)]
    assert [key for key, _ in listed(text_of(owner.get(ADDRESS)))] == newest
    by_energy = [str(KEY + i) for i in (0, 2, 1, 7)]
    page = text_of(owner.get(f"{ADDRESS}?sort=energy"))
    assert [key for key, _ in listed(page)] == by_energy
    assert owner.get(f"{ADDRESS}?sort=x").status_code == 400
    latest = Run.objects.order_by("-started_us")[0].started_us + 1
    first = DuplicateFinding.objects.filter(run__name="run-0-1.py")[0]
    Run.objects.filter(pk=first.run_id).update(started_us=latest, ended_us=latest + 1)  # begun last
    page = text_of(owner.get(ADDRESS))
    assert [key for key, _ in listed(page)] == [str(KEY + i) for i in (0, 7, 2, 1)]


@pytest.mark.parametrize("key", ["x", "1", "-1", "9" * 19, "9" * 30, "%00", "²"])
def test_an_unknown_family_is_an_error(lab: SmallLab, owner: Client, key: str) -> None:
    many_findings(small_lab(name="Theirs"), [2], first=1)
    many_findings(lab, [2])
    for address in (ADDRESS, "/runs/duplicates.csv"):
        for family in (key, str(KEY + 1)):
            assert owner.get(f"{address}?family={family}").status_code == 400
        assert owner.get(f"{address}?family={KEY}").status_code == 200


def test_all_findings_of_a_family_are_decided_at_once_and_reopened(
    lab: SmallLab, owner: Client
) -> None:
    findings = many_findings(lab, [60, 2, 1])
    assert f'value="{KEY}-60"' in text_of(owner.get(ADDRESS))
    response = decide(
        owner, f"{KEY}-60", action="dismissed", reason="the loader draws", item=[findings[0].pk]
    )
    assert response.status_code == 302
    assert states() == {"dismissed": 61, "open": 2}
    [entry] = AuditEntry.objects.filter(lab=lab.lab, action="repeat.decided")
    assert entry.subject == "61 findings"
    assert len(entry.details["runs"]) == 61
    assert Job.objects.filter(kind="preflight.judge").count() == 61
    assert 'data-empty="findings"' in text_of(owner.get(f"{ADDRESS}?family={KEY}"))
    decided_page = text_of(owner.get(f"{ADDRESS}?family={KEY}&state=dismissed"))
    assert f'value="{KEY}-60"' in decided_page
    assert decide(owner, f"{KEY}-60", query="state=dismissed", action="undo").status_code == 302
    assert states() == {"dismissed": 1, "open": 62}
    assert verify(lab.lab) is None


def test_a_family_that_changed_is_not_decided(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [3])
    page = decide(owner, f"{KEY}-2")
    assert page.status_code == 409
    assert "now has 3 findings" in text_of(page)
    for family in ("x", f"{KEY}", f"{KEY}-x", "9" * 30 + "-3"):
        assert decide(owner, family).status_code == 400
    assert decide(owner, f"{KEY}-3", query="state=all").status_code == 409
    assert decide(owner, f"{KEY + 1}-3").status_code == 400
    assert decide(owner, f"{KEY}-3", action="dismissed").status_code == 400
    assert states() == {"open": 3}
    assert not AuditEntry.objects.filter(action__startswith="repeat.").exists()


def test_filters_limit_the_decision(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [6])
    page = text_of(owner.get(f"{ADDRESS}?verdict=near"))
    assert listed(page) == [(str(KEY), "2")]
    assert decide(owner, f"{KEY}-2", query="verdict=near").status_code == 302
    assert dict(DuplicateFinding.objects.values_list("verdict", "state")) == {
        "near": "intentional",
        "duplicate": "open",
    }


def test_a_member_decides_about_own_findings_of_a_family(lab: SmallLab, bob: User) -> None:
    client = client_of(bob)
    findings = many_findings(lab, [5])
    assert 'name="family"' not in text_of(client.get(ADDRESS))
    own = {finding.run_id for finding in findings[:2]}
    Run.objects.filter(pk__in=own).update(user=bob)
    page = text_of(client.get(ADDRESS))
    assert listed(page) == [(str(KEY), "5")]
    assert f'value="{KEY}-2"' in page
    assert "2 about your runs" in page
    assert decide(client, f"{KEY}-5").status_code == 409
    assert decide(client, f"{KEY}-2").status_code == 302
    decided = DuplicateFinding.objects.filter(state="intentional")
    assert set(decided.values_list("run_id", flat=True)) == own


def test_names_of_hidden_people_are_not_listed(lab: SmallLab, bob: User) -> None:
    many_findings(lab, [3])
    Run.objects.filter(lab=lab.lab, name="run-0-2.py").update(user=bob)
    for address in (ADDRESS, f"{ADDRESS}?family={KEY}"):
        page = text_of(client_of(bob).get(address)).split("</header>", 1)[1]
        assert lab.owner.username not in page
        assert "someone in your lab, you" in page or "someone in your lab" in page


def test_viewers_and_outsiders_do_not_decide(
    lab: SmallLab, viewer: Client, outsider: Client
) -> None:
    many_findings(lab, [3])
    assert listed(text_of(viewer.get(ADDRESS))) == [(str(KEY), "3")]
    assert 'name="family"' not in text_of(viewer.get(ADDRESS))
    assert decide(viewer, f"{KEY}-3").status_code == 403
    assert decide(outsider, f"{KEY}-3").status_code == 400
    assert listed(text_of(outsider.get(ADDRESS))) == []
    assert states() == {"open": 3}


def test_a_thousand_findings_need_as_many_queries_as_few(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [2, 1])
    few = queries(owner, ADDRESS)
    few_of_family = queries(owner, f"{ADDRESS}?family={KEY}")
    many_findings(lab, [400, 300, *[2] * 149, *[1] * 2], energy_mj=6_000_001, first=2)
    assert queries(owner, ADDRESS) <= few + 2  # the ledger is read by 500 runs
    assert queries(owner, f"{ADDRESS}?sort=energy") <= few + 2
    assert queries(owner, f"{ADDRESS}?family={KEY + 2}") <= few_of_family + 1
    assert queries(owner, "/runs/duplicates.csv") <= 30


def test_a_thousand_findings_are_decided_by_a_fixed_number_of_queries(
    lab: SmallLab, owner: Client
) -> None:
    many_findings(lab, [2, 1000, 1])

    def count(family: str, **content: Any) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert decide(owner, family, **content).status_code == 302
        return len(captured)

    few = count(f"{KEY}-2")
    assert count(f"{KEY + 1}-1000") == few
    assert states() == {"intentional": 1002, "open": 1}
    query = "state=intentional"
    few = count(f"{KEY}-2", action="undo", query=query)
    assert count(f"{KEY + 1}-1000", action="undo", query=query) == few
    assert states() == {"open": 1003}


def test_more_than_a_thousand_findings_are_not_decided_at_once(
    lab: SmallLab, owner: Client
) -> None:
    many_findings(lab, [1001])
    assert 'name="family"' not in text_of(owner.get(ADDRESS)).replace('type="hidden"', "")
    assert decide(owner, f"{KEY}-1001").status_code == 400
    assert states() == {"open": 1001}


def test_a_list_that_is_cut_states_it(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates_page, "MOST_LISTED", 4)
    many_findings(lab, [3, 1])
    assert "data-cut" not in text_of(owner.get(ADDRESS))
    many_findings(lab, [1], first=2)
    page = text_of(owner.get(ADDRESS))
    assert "data-cut" in page
    assert 'name="family"' not in page  # the family may have more than the list


def test_csv_has_the_family(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [2, 1])
    TierKey.objects.filter(run__name="run-1-1.py").delete()
    rows = list(csv.DictReader(io.StringIO(text_of(owner.get("/runs/duplicates.csv")))))
    assert [(row["name"], row["family"], row["script"]) for row in rows] == [
        ("run-1-1.py", "", ""),
        ("run-0-2.py", str(KEY), "train_0.py"),
        ("run-0-1.py", str(KEY), "train_0.py"),
    ]
    only = text_of(owner.get(f"/runs/duplicates.csv?family={KEY}"))
    assert only.count("\n") == 3


def test_the_search_finds_the_script(lab: SmallLab, owner: Client) -> None:
    many_findings(lab, [2, 2])
    assert listed(text_of(owner.get(f"{ADDRESS}?text=Train_1"))) == [(str(KEY + 1), "2")]
