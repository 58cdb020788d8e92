"""/statements/<number>/ : frozen figures, their parts, differences, print and downloads."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.dashboard.statements.statement_page import statement_page
from apps.reports.conservation import EMISSION, ENERGY
from apps.reports.models import Statement
from apps.reports.rows import LAB, Lines
from apps.reports.selectors import differences, frozen_rows
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    figures_on,
    many_projects,
    text_of,
)
from tests.reports.support import DECEMBER_US, close, full_lab, provisional, use

NOVEMBER = "from=2026-10-31T23:00Z&to=2026-11-30T23:00Z"


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        yield full_lab()


@pytest.fixture
def statement(lab: SmallLab) -> Statement:
    return close(lab).statement


def address(statement: Statement, part: str = "") -> str:
    return f"/statements/{statement.pk}/{part}"


def cells(page: str, section: str) -> dict[tuple[str, str], int]:
    """Return {(subject, metric): integer} of a table of frozen figures."""
    part = page.split(f'id="{section}"')[1].split("</section>")[0]
    found = {}
    for subject, row in re.findall(r'<tr data-subject="([^"]+)">(.*?)</tr>', part):
        for metric, value in re.findall(r'data-metric="(\w+)" data-amount="(-?\d*)"', row):
            if value:
                found[subject, metric] = int(value)
    return found


@pytest.mark.parametrize("part", ["", "print/"])
def test_tables_add_up_to_the_lab(
    lab: SmallLab, statement: Statement, viewer: Client, part: str
) -> None:
    page = text_of(viewer.get(address(statement, part)))
    lines = Lines(frozen_rows(statement))
    for section in ("charges-title", "scopes-ghg_protocol", "scopes-lesson"):
        found = cells(page, section)
        for metric in (ENERGY, EMISSION, "embodied_ug", "embodied_inventory_ug"):
            of_lab = lines.value(LAB, metric)
            parts = [
                value
                for (subject, name), value in found.items()
                if name == metric and subject != LAB
            ]
            assert found[LAB, metric] == of_lab == sum(parts), (section, metric)
    assert statement.sha256 in page


def test_the_printed_sheet_sums_small_projects(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 25)
    statement = close(lab).statement
    page = text_of(owner.get(address(statement, "print/")))
    found = cells(page, "charges-title")
    assert ("others", ENERGY) in found
    assert len({subject for subject, _ in found}) == 13  # 11, the others and the lab
    of_lab = found.pop((LAB, ENERGY))
    assert sum(value for (_, metric), value in found.items() if metric == ENERGY) == of_lab
    assert figures_on(page) == []  # nothing current
    whole = cells(text_of(owner.get(address(statement))), "charges-title")
    assert len({subject for subject, _ in whole}) > 25


def test_factors_are_parts_of_energy_and_emissions(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    lines = Lines(frozen_rows(statement))
    for metric in (ENERGY, EMISSION):
        assert sum(lines.part_sums(metric).values()) == lines.value(LAB, metric)
    page = text_of(owner.get(address(statement)))
    editions = re.findall(r'data-factor="([^"]+)" data-part', page)
    assert len(editions) == len(lines.part_sums(ENERGY))
    assert "none" in editions  # of the attic without a zone
    assert "data-without-factor" in page


def test_later_data_shows_what_it_differs_by_and_stays_frozen(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    page = text_of(owner.get(address(statement)))
    assert "data-same" in page
    assert "data-stale" not in page
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    page = text_of(owner.get(address(statement)))
    assert "data-stale" in page
    assert cells(page, "charges-title")[LAB, ENERGY] == Lines(frozen_rows(statement)).value(
        LAB, ENERGY
    )
    [(query, now_mj), *_] = figures_on(page)
    assert "metric=energy_mj" in query
    assert now_mj == (Lines(frozen_rows(statement)).value(LAB, ENERGY) or 0) + 5 * 901
    assert_each_figure_explains_itself(owner, page)


def test_changes_since_closing_are_composed_of_their_integers(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    def notice(path: str) -> str:
        page = text_of(owner.get(path)).split("data-stale")[1].split("</div>")[0]
        return " ".join(re.sub(r"<[^>]*>", "", page).replace("\xa0", " ").split())

    provisional(lab.lab, {0: 99})  # of 321 g/kWh before
    for path in (address(statement), f"/?{NOVEMBER}"):
        assert "Since closing: energy unchanged" in notice(path)
        assert "emissions down" in notice(path)
    listed = text_of(owner.get("/statements/")).split("data-stale")[1].split("</span>")[0]
    assert "down" in listed
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    assert "energy up" in notice(address(statement))


def test_hardware_without_a_figure_is_unknown_and_not_zero(db: None) -> None:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        small = small_lab()
        bought(small, name="Unknown", kg=None, now=DECEMBER_US)
        run_until_idle(worker="test")
        statement = close(small).statement
        headline = statement_page(small.lab, statement).headline
        assert headline.inventory.missing
        assert headline.allocation.missing
        page = text_of(client_of(small.owner).get(address(statement)))
        assert "≥" not in page.split('id="figures-title"')[1].split("</dl>")[0]


def test_differences_line_by_line_and_restating(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    page = text_of(owner.get(address(statement, "differences/")))
    assert 'data-empty="differences"' in page
    assert 'name="reason"' not in page
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    page = text_of(owner.get(address(statement, "differences/")))
    shown = re.findall(r'data-line="(\w+)" data-difference="(-?\d+)"', page)
    assert ("energy_mj", str(5 * 901)) in shown
    rows = list(
        csv.DictReader(io.StringIO(text_of(owner.get(address(statement, "differences.csv")))))
    )
    assert sorted((row["metric"], row["difference"]) for row in rows) == sorted(shown)
    whole, folded = page.split("data-parts=", 1)
    assert "data-line=" in whole
    assert "data-factor=" not in whole
    parts = folded.split("</details>")[0]
    assert parts.count("data-line=") == parts.count("data-factor=") > 0
    answer = owner.post(address(statement, "differences/"), {"reason": ""})
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == ["reason"]
    assert Statement.objects.count() == 1
    answer = owner.post(address(statement, "differences/"), {"reason": "Late <data>"})
    second = Statement.objects.get(revision=2)
    assert answer.status_code == 302
    assert answer["Location"] == address(second)
    assert (second.reason, second.created_by) == ("Late <data>", lab.owner)
    page = text_of(owner.get(address(second)))
    assert "data-same" in page
    assert "Late &lt;data&gt;" in page
    old = text_of(owner.get(address(statement)))
    assert f'data-superseded="{second.pk}"' in old
    assert "data-stale" not in old
    page = text_of(owner.get(address(statement, "differences/")))
    assert re.findall(r'data-line="(\w+)" data-difference="(-?\d+)"', page) == shown
    assert 'name="reason"' not in page
    found = differences(frozen_rows(statement), frozen_rows(second))
    assert sorted(str(each.change) for each in found) == sorted(change for _, change in shown)


def test_another_edition_without_another_figure_can_be_restated(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    provisional(lab.lab, {0: 321}, is_actual=True)
    page = text_of(owner.get(address(statement, "differences/")))
    assert "data-editions" in page
    owner.post(address(statement, "differences/"), {"reason": "measured"})
    assert Statement.objects.count() == 2


def test_only_pis_and_admins_restate(
    lab: SmallLab, statement: Statement, viewer: Client, member: Client
) -> None:
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    for client in (viewer, member):
        page = text_of(client.get(address(statement, "differences/")))
        assert 'name="reason"' not in page
        answer = client.post(address(statement, "differences/"), {"reason": "x"})
        assert answer.status_code == 403
    assert Statement.objects.count() == 1


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_downloads_verify_offline(
    lab: SmallLab, statement: Statement, viewer: Client, tmp_path: Path, ending: str
) -> None:
    response = viewer.get(address(statement, f"statement.{ending}"))
    name = f"test-lab-2026-11-01-2026-11-30-r1.{ending}"
    assert response["Content-Disposition"].startswith("attachment")
    assert response["Content-Disposition"].endswith(f'-2026-11-01-2026-11-30-r1.{ending}"')
    path = tmp_path / name
    path.write_bytes(response.content)
    out = io.StringIO()
    call_command("verify", str(path), expect=statement.sha256, stdout=out)
    assert "valid" in out.getvalue()
    if ending == "json":
        assert json.loads(response.content)["figures_sha256"] == statement.sha256


def test_a_change_of_basis_is_not_compared(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    lab.lab.basis = "direct"
    lab.lab.save()
    page = text_of(owner.get(address(statement)))
    assert "data-stale" in page
    assert [query for query, _ in figures_on(page) if "emission_ug" in query] == []
    page = text_of(owner.get(f"/?{NOVEMBER}"))
    assert "changed its basis" in page


@pytest.mark.parametrize("path", ["/", "/scopes/", "/projects/demo/"])
def test_pages_of_a_closed_period_name_it(
    lab: SmallLab, viewer: Client, outsider: Client, path: str
) -> None:
    assert "data-closed" not in text_of(viewer.get(f"{path}?{NOVEMBER}"))
    statement = close(lab).statement
    page = text_of(viewer.get(f"{path}?{NOVEMBER}"))
    assert f'data-closed="{statement.pk}"' in page
    assert "data-stale" not in page
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    page = text_of(viewer.get(f"{path}?{NOVEMBER}"))
    assert "data-stale" in page
    assert "data-closed" not in text_of(
        viewer.get(f"{path}?from=2026-11-01T00:00Z&to=2026-11-30T00:00Z")
    )
    if path != "/projects/demo/":
        assert "data-closed" not in text_of(outsider.get(f"{path}?{NOVEMBER}"))


def test_erasing_a_person_changes_names_and_no_integer(
    lab: SmallLab, statement: Statement, owner: Client
) -> None:
    person = User.objects.create_user(username="zbeeb-pi")
    Membership.objects.create(lab=lab.lab, user=person, role=Role.PI)
    use(lab, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    reason = "zbeeb-pi found late data"
    client_of(person).post(address(statement, "differences/"), {"reason": reason})
    second = Statement.objects.get(revision=2)
    before = owner.get(address(second, "statement.json")).content
    assert b"zbeeb-pi" in before
    erased = {"action": "erase", "names": "", "in_texts": ["zbeeb-pi"], "confirm": "zbeeb-pi"}
    assert owner.post(f"/people/{person.pk}/erase/", erased).status_code == 302
    run_until_idle(worker="test")
    after = owner.get(address(second, "statement.json")).content
    assert b"zbeeb" not in after
    assert "zbeeb" not in text_of(owner.get(address(second)))
    content = second.content
    second.refresh_from_db()
    assert second.content == content
    hashes = [json.loads(text)["figures_sha256"] for text in (before, after)]
    assert hashes == [second.sha256] * 2


@pytest.mark.parametrize(
    "part", ["", "print/", "differences/", "differences.csv", "statement.json", "statement.csv"]
)
def test_access(lab: SmallLab, statement: Statement, outsider: Client, part: str) -> None:
    assert_needs_sign_in(address(statement, part))
    assert outsider.get(address(statement, part)).status_code == 404
    assert client_of(lab.owner).get(f"/statements/{2**63}/{part}").status_code == 404
    if part != "differences/":
        assert_only(client_of(lab.owner), address(statement, part), "GET")
    else:
        assert outsider.post(address(statement, part), {"reason": "x"}).status_code == 404
