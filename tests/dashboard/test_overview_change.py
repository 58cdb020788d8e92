"""/overview/change/ : each project and node in two periods, whose differences add up exactly."""

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape
from uuid import uuid4

import pytest
import time_machine
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.lc1.consumers import SYSTEM_MARK

from apps.accounts.models import Project
from apps.carbon.figures.energy import Figure
from apps.core.jobs import run_until_idle
from apps.dashboard.overview.change_page import METRICS, Pair, known_value
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node
from apps.fleet.services import (
    create_site,
    register_node,
    set_price,
    set_static_power,
)
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    queries,
    text_of,
)

HOUR_US = 60 * MINUTE
DAY = 24
FIRST, SECOND = "2026-11-02T08:00Z", "2026-11-03T08:00Z"
PERIOD = f"from={SECOND}&to=2026-11-04T08:00Z"
PAGE = f"/overview/change/?{PERIOD}"
CSV = f"/overview/change.csv?{PERIOD}"


def run_of(lab: SmallLab, project: str, day: int) -> str:
    """Create a run that starts on a day; return its consumer."""
    uuid = uuid4()
    facts = RunFacts(
        name="train.py",
        started_us=T0 + day * DAY * HOUR_US,
        project=project,
        os_user="ada",
        host="ws-1",
        node_uuid=lab.node.uuid,
    )
    put_run(lab=lab.lab, uuid=uuid, facts=facts, by=lab.owner, bound_node=None)
    return f"run:{uuid}"


def day_of(lab: SmallLab, node: Node, device: int, day: int, shares: dict[str, int]) -> None:
    """Upload a day of hours of a device, each with these energies by consumer."""
    push(
        node,
        [
            W(
                gpu(device),
                sum(shares.values()),
                start_us=T0 + (day * DAY + i) * HOUR_US,
                end_us=T0 + (day * DAY + i + 1) * HOUR_US,
                seq=day * DAY + i,
                shares=tuple(shares.items()),
            )
            for i in range(DAY)
        ],
        settle=False,
    )


def other_node(lab: SmallLab, *, has_zone: bool = True) -> Node:
    site = lab.site
    if not has_zone:
        site = create_site(lab=lab.lab, name="Nowhere", kind=SiteKind.WORKSTATION, zone="")
    return register_node(lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=site, now=T0)


@pytest.fixture
def changed(lab: SmallLab) -> SmallLab:
    """Two days: Demo uses more, Vision less, one node is new, idle and overhead change."""
    Project.objects.create(lab=lab.lab, slug="vision", name="Vision", created_us=T0)
    set_static_power(node=lab.node, static_power_mw=45_000)
    demo, vision = run_of(lab, "demo", 0), run_of(lab, "vision", 0)
    day_of(lab, lab.node, 0, 0, {demo: 100_001, vision: 900_007, "idle": 50_003})
    day_of(
        lab, lab.node, 0, 1, {demo: 700_013, vision: 100_009, f"proc:root/systemd{SYSTEM_MARK}": 11}
    )
    second = other_node(lab)
    day_of(lab, second, 1, 1, {run_of(lab, "demo", 1): 300_017, "proc:ada/train": 5_001})
    run_until_idle(worker="test")
    return lab


def table(page: str, by: str) -> str:
    return page[page.index(f'id="by-{by}"') :].partition("</table>")[0]


def differences(part: str) -> list[int]:
    return [int(value) for value in re.findall(r'data-difference="(-?\d+)"', part)]


def keys(part: str) -> list[str]:
    return re.findall(r'data-key="([^"]+)"', part)


def test_both_tables_add_up_exactly(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    for by in ("project", "node"):
        body, _, foot = table(page, by).partition("<tfoot>")
        rows = body.split("<tr data-key=")[1:]
        for place, metric in enumerate(("energy_mj", "emission_ug")):
            whole = [value for query, value in figures_on(foot) if f"metric={metric}&" in query]
            assert len(whole) == 2
            for start, value in zip((FIRST, SECOND), whole, strict=True):
                listed = [
                    amount
                    for query, amount in figures_on(body)
                    if f"metric={metric}&" in query and f"from={start}" in query.replace("%3A", ":")
                ]
                assert sum(listed) == value, (by, metric)
            assert differences(foot)[place] == whole[1] - whole[0]
            assert sum(differences(row)[place] for row in rows) == whole[1] - whole[0]
    assert assert_each_figure_explains_itself(owner, page) > 20


def test_rows_are_sorted_by_the_size_of_their_difference(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    part = table(page, "project").partition("<tfoot>")[0]
    energies = [differences(row)[0] for row in part.split("<tr data-key=")[1:]]
    assert energies == sorted(energies, key=abs, reverse=True)
    assert energies[0] == 24 * (700_013 + 300_017 - 100_001)
    assert set(keys(part)) == {
        "demo", "vision", "~idle", "~system", "~unattributed", "~overhead"
    }  # fmt: skip
    assert 'data-direction="down"' in part
    assert "width:100.00%" in part


def test_each_row_links_to_its_page_with_the_period(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    for row in [
        *table(page, "project").split("<tr data-key=")[1:],
        *table(page, "node").split("<tr data-key=")[1:],
    ]:
        href = unescape(re.findall(r'<a href="([^"]+)"', row)[0])
        assert "from=2026-11-03T08" in href
        assert owner.get(href).status_code == 200


def test_a_subject_without_energy_has_no_zero(changed: SmallLab, owner: Client) -> None:
    new = changed.lab.nodes.get(hostname="ws-2")
    row = table(text_of(owner.get(PAGE)), "node")
    row = row[row.index(f'data-key="{new.uuid}"') :].partition("</tr>")[0]
    energy = [value for query, value in figures_on(row) if "metric=energy_mj&" in query]
    assert energy == [24 * 305_018], "there is no figure of the earlier period"
    assert differences(row)[0] == 24 * 305_018


def test_unknown_emissions_have_no_difference(changed: SmallLab, owner: Client) -> None:
    nowhere = other_node(changed, has_zone=False)
    day_of(changed, nowhere, 2, 1, {"idle": 1_000})
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    assert "data-incomplete" in page
    row = table(page, "node")
    row = row[row.index(f'data-key="{nowhere.uuid}"') :].partition("</tr>")[0]
    assert differences(row) == [24_000], "energy only"
    foot = table(page, "node").partition("<tfoot>")[2]
    assert len(differences(foot)) == 1
    assert "≥" in foot
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get(f"{CSV}&by=node")))))
    line = next(line for line in lines if line["key"] == str(nowhere.uuid))
    assert line["emission_ug_co2e"] == line["difference_emission_ug_co2e"] == ""
    assert line["without_factor_mj"] == "24000"


def test_cost_is_compared_where_there_is_a_price(changed: SmallLab, owner: Client) -> None:
    assert "cost_ucurrency" not in text_of(owner.get(PAGE))
    set_price(
        site=changed.site,
        ucurrency_per_kwh=300_000,
        currency="EUR",
        from_us=T0 + DAY * HOUR_US,
        by=changed.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    foot = table(page, "project").partition("<tfoot>")[2]
    assert "metric=cost_ucurrency" in foot
    assert len(differences(foot)) == 2, "the earlier cost is unknown"
    assert "data-incomplete" in page


def test_the_csv_has_the_exact_integers_of_the_page(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    for by in ("project", "node"):
        lines = list(csv.DictReader(io.StringIO(text_of(owner.get(f"{CSV}&by={by}")))))
        assert [line["key"] for line in lines] == keys(table(page, by))
        for metric in ("energy_mj", "emission_ug_co2e"):
            for line in lines:
                change = int(line[metric]) - int(line[f"earlier_{metric}"])
                assert int(line[f"difference_{metric}"]) == change
        assert {line["earlier_from_utc"] for line in lines} == {FIRST}
    assert owner.get(f"{CSV}&by=moon").status_code == 400
    assert owner.get(f"{CSV}&compare=none").status_code == 400


def test_without_a_comparison_the_reason_is_stated(changed: SmallLab, owner: Client) -> None:
    for query in ("&compare=year", "&compare=none"):
        page = text_of(owner.get(f"{PAGE}{query}"))
        assert "data-no-comparison" in page
        assert "data-key" not in page
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get(f"{CSV}&compare=year")))))
    assert lines
    for line in lines:
        assert line["difference_energy_mj"] == line["earlier_energy_mj"] == "", "unknown, not zero"
        assert line["earlier_without_factor_mj"] == ""
        assert line["not_comparable"]
    assert owner.get(f"{PAGE}&compare=century").status_code == 400


def test_of_a_period_that_is_not_over_its_part_until_now_is_compared(
    changed: SmallLab, owner: Client
) -> None:
    now = (T0 + (DAY + 12) * HOUR_US + 30 * MINUTE) / 1e6
    with time_machine.travel(now, tick=False):
        for query in (f"from={SECOND}&to=2026-11-09T08:00Z", "from=2026-11-03&to=2026-11-04"):
            lines = list(
                csv.DictReader(io.StringIO(text_of(owner.get(f"/overview/change.csv?{query}"))))
            )
            earlier = {(line["earlier_from_utc"], line["earlier_to_utc"]) for line in lines}
            ((start, end),) = earlier
            hours = datetime.fromisoformat(end) - datetime.fromisoformat(start)
            begin = datetime.fromisoformat(lines[0]["from_utc"])
            assert hours == datetime.fromtimestamp(now + 1800, tz=UTC) - begin


def test_an_empty_lab_has_nothing_to_compare(lab: SmallLab, owner: Client) -> None:
    assert "data-no-comparison" in text_of(owner.get("/overview/change/"))


def test_the_headline_compares_emissions_and_leads_to_what_changed(
    changed: SmallLab, owner: Client
) -> None:
    page = text_of(owner.get(f"/?{PERIOD}"))
    line = page[page.index("data-change=") :].partition("</p>")[0]
    assert 'data-change-of-emissions="up"' in line
    assert [query for query, _ in figures_on(line) if "metric=emission_ug&" in query]
    href = unescape(re.findall(r'href="(/overview/change/[^"]+)"', line)[0])
    assert 'data-key="demo"' in text_of(owner.get(href))


def test_emissions_are_not_compared_where_some_are_unknown(
    changed: SmallLab, owner: Client
) -> None:
    day_of(changed, other_node(changed, has_zone=False), 2, 1, {"idle": 1_000})
    run_until_idle(worker="test")
    page = text_of(owner.get(f"/?{PERIOD}"))
    assert "data-change=" in page
    assert "data-change-of-emissions" not in page


@pytest.mark.parametrize("address", ["/", "/overview/change/"])
def test_a_comparison_that_is_not_possible_is_not_offered(
    changed: SmallLab, owner: Client, address: str
) -> None:
    page = text_of(owner.get(f"{address}?{PERIOD}"))
    menu = page[page.index('aria-label="Compare with"') :].partition("</details>")[0]
    assert "compare=year" not in menu
    assert menu.count("data-not-comparable") == 1
    assert "compare=previous" in menu
    assert "compare=none" in menu


def test_the_choice_of_an_address_stays_visible(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(f"/?{PERIOD}&compare=year"))
    menu = page[page.index('aria-label="Compare with"') :].partition("</details>")[0]
    assert 'aria-current="true">Year earlier' in menu


def test_access_and_methods(changed: SmallLab, owner: Client, outsider: Client) -> None:
    for address in (PAGE, CSV):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")
        assert "Vision" not in text_of(outsider.get(address))


def test_queries_do_not_grow_with_rows(changed: SmallLab, owner: Client) -> None:
    before = queries(owner, PAGE)
    for i in range(3):
        Project.objects.create(lab=changed.lab, slug=f"p-{i}", name=f"P {i}", created_us=T0)
        day_of(changed, changed.node, 10 + i, 1, {run_of(changed, f"p-{i}", 1): 100})
    run_until_idle(worker="test")
    assert queries(owner, PAGE) == before


FIGURES = st.builds(
    Figure,
    energy_mj=st.integers(0, 10**15),
    emission_ug=st.integers(0, 10**15),
    without_factor_mj=st.sampled_from([0, 0, 7]),
    cost_ucurrency=st.integers(0, 10**12),
    without_price_mj=st.sampled_from([0, 0, 9]),
    entries=st.integers(1, 9),
)


@given(st.lists(st.tuples(FIGURES, FIGURES), max_size=8))
def test_differences_of_parts_are_the_difference_of_the_whole(
    parts: list[tuple[Figure, Figure]],
) -> None:
    """Where every part is known. Where one is unknown, so is the whole."""
    pairs = [Pair(*part) for part in parts]
    whole = Pair(
        sum((pair.before for pair in pairs), Figure()),
        sum((pair.after for pair in pairs), Figure()),
    )
    for metric in METRICS:
        changes = [pair.difference(metric) for pair in pairs]
        known = [change for change in changes if change is not None]
        expected = sum(known) if len(known) == len(changes) else None
        assert whole.difference(metric) == expected


def test_unknown_is_not_zero() -> None:
    assert known_value(Figure(energy_mj=5, without_factor_mj=5), "emission_ug") is None
    assert known_value(Figure(energy_mj=5), "emission_ug") == 0
