"""/ : the sentence, the table whose sum is the headline, what needs a person, the live part."""

import json
import re
from datetime import UTC, datetime
from html import unescape

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import User
from apps.core.jobs import run_until_idle
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node
from apps.fleet.services import create_site, record_start_problem, set_price, set_static_power
from apps.preflight.choices import Certainty, FindingState, Verdict
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import RunState
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    many_projects,
    queries,
    text_of,
    use,
)

PAGE = f"/?{PERIOD}"


def test_works(lab: SmallLab, owner: Client) -> None:
    use(lab)
    use(lab, project=None, first=1)
    set_static_power(node=lab.node, static_power_mw=45_000)
    push(lab.node, [W(gpu(), 5, start_us=T0 + 5 * MINUTE, end_us=T0 + 6 * MINUTE, seq=5)])
    page = text_of(owner.get(PAGE))
    assert page.count('data-saving="idle"') == 1
    for row in ("Demo", "Idle", "Unattributed", "Node overhead", "Electricity (location-based)"):
        assert row in page
    assert assert_each_figure_explains_itself(owner, page) > 15


def test_the_table_adds_up_to_the_headline(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 9)
    page = text_of(owner.get(PAGE))
    table = page[page.index('id="projects"') :]
    body, foot = table[: table.index("<tfoot>")], table[table.index("<tfoot>") :]
    for metric in ("energy_mj", "emission_ug"):
        # The first figure of a metric in a row is its amount; the share in percent repeats the
        # energy.
        rows = [figures_on(row) for row in body.split("<tr>")[2:]]
        amounts = [next(value for query, value in row if metric in query) for row in rows]
        headline = next(value for query, value in figures_on(foot) if metric in query)
        assert sum(amounts) == headline
        assert len(amounts) == 10


def test_anonymous_is_asked_to_sign_in(db: None) -> None:
    assert_needs_sign_in("/")


def test_a_person_without_a_lab_is_told_so(db: None) -> None:
    response = client_of(User.objects.create_user(username="nobody")).get("/")
    assert response.status_code == 403
    assert 'data-error="403"' in text_of(response)


def test_an_outsider_sees_their_own_lab_only(lab: SmallLab, outsider: Client) -> None:
    use(lab)
    page = text_of(outsider.get(PAGE))
    assert "Other Lab" in page
    assert "Cell Lab" not in page
    assert figures_on(page) == []


def test_wrong_method(owner: Client) -> None:
    assert_only(owner, "/", "GET")


@pytest.mark.parametrize(
    "query", ["from=x&to=y", "from=2026-11-02", "period=eon", "first_day=2026-11-01"]
)
def test_bad_input_is_told_in_words(owner: Client, query: str) -> None:
    response = owner.get(f"/?{query}")
    assert response.status_code == 400
    assert 'data-error="400"' in text_of(response)


def test_a_form_of_days_becomes_an_address(owner: Client) -> None:
    response = owner.get("/?first_day=2026-11-01&last_day=2026-11-02")
    assert response["Location"] == "/?from=2026-11-01&to=2026-11-03"


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 1)
    one = queries(owner, PAGE)
    many_projects(lab, 49, first=2)
    assert queries(owner, PAGE) == one
    assert one <= 26


def test_empty_lab_says_which_command_brings_data(owner: Client) -> None:
    page = text_of(owner.get("/"))
    assert "labcarbon-collect run --project demo -- python3 -c" in page
    assert figures_on(page) == []
    assert "0 kWh" not in page


def test_an_empty_lab_states_why_its_collector_does_not_measure(
    lab: SmallLab, owner: Client
) -> None:
    waiting = text_of(owner.get("/"))
    record_start_problem(node=lab.node, message="the disk is full <b>", now=T0)
    page = text_of(owner.get("/"))
    stopped, needs = page[: page.index('id="action-needed"')], page[page.index("action-needed") :]
    for part in (stopped, needs):
        assert part.count("the disk is full &lt;b&gt;") == 1
        assert f"/nodes/{lab.node.uuid}/#start-problem" in part
    assert 'data-start-problem="1"' in stopped
    assert "data-start-problem" not in waiting
    use(lab)
    assert "data-start-problem" not in text_of(owner.get(PAGE)), "Action needed is enough"


def test_an_empty_past_is_unknown_and_not_zero(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/?from=2025-01-01&to=2025-01-03"))
    assert "No data for 1 Jan – 2 Jan 2025" in page
    assert "unknown, not zero" in page


def test_energy_without_a_zone_has_no_carbon_and_says_where_to_choose(db: None) -> None:
    lab = small_lab(zone="")
    use(lab)
    page = text_of(client_of(lab.owner).get(PAGE))
    assert "no factor: choose a zone" in page
    assert f"/sites/{lab.site.pk}/" in page
    assert all("emission_ug" not in query for query, _ in figures_on(page))


def test_partly_known_carbon_is_marked_as_at_least(lab: SmallLab, owner: Client) -> None:
    from uuid import uuid4

    from apps.fleet.services import register_node

    elsewhere = create_site(lab=lab.lab, name="Nowhere", kind=SiteKind.MACHINE_ROOM, zone="")
    other = register_node(
        lab=lab.lab, uuid=uuid4(), hostname="far", facts={}, site=elsewhere, now=T0
    )
    use(lab)
    push(other, [W(gpu(7), 3_600_000)])
    page = text_of(owner.get(PAGE))
    assert "≥" in page
    assert_each_figure_explains_itself(owner, page)


def test_action_needed(lab: SmallLab, owner: Client) -> None:
    use(lab, project=None)
    window = W(gpu(), 77, start_us=T0 + 30 * MINUTE, end_us=T0 + 31 * MINUTE, seq=30)
    push(lab.node, [window])
    push(lab.node, [W(gpu(), 78, start_us=T0 + 30 * MINUTE, end_us=T0 + 31 * MINUTE, seq=30)])
    page = text_of(owner.get(PAGE))
    needs = page[page.index('id="action-needed"') : page.index('id="projects"')]
    assert re.findall(r'data-alert="(\w+)"', needs) == [
        "silent",
        "unattributed",
        "quarantined",
        "overhead",
    ]
    assert "Node overhead unknown for ws-1" in needs


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    lab.lab.projects.filter(slug="demo").update(name=HOSTILE)
    lab.lab.name = HOSTILE
    lab.lab.save()
    use(lab, name=HOSTILE)
    page = text_of(owner.get(PAGE))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    found = re.search(
        r'<script id="energy-by-project" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert found
    names = {trace["name"] for trace in json.loads(found[1])["data"]}
    assert any(name.startswith("&lt;script&gt;") for name in names)


def test_the_live_part_is_the_page_in_pieces(lab: SmallLab, owner: Client) -> None:
    use(lab)
    live = text_of(owner.get(PAGE, headers={"HX-Request": "true"}))
    assert "<html" not in live
    for place in ("summary", "chart-heading", "action-needed", "projects"):
        assert re.search(rf'id="{place}"[^>]*hx-swap-oob="true"', live), place
    whole = text_of(owner.get(PAGE))
    assert set(figures_on(live)) == set(figures_on(whole))


def test_data_table_adds_up(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=3)
    address = f"/overview/table/?{PERIOD}"
    page = text_of(owner.get(address))
    body, foot = page[page.index("<tbody>") : page.index("<tfoot>")], page[page.index("<tfoot>") :]
    rows = [figures_on(row) for row in body.split("<tr>")[1:]]
    assert sum(row[-1][1] for row in rows if row) == figures_on(foot)[-1][1]
    assert_each_figure_explains_itself(owner, page)
    assert "<html" not in text_of(owner.get(address, headers={"HX-Request": "true"}))
    assert_needs_sign_in(address)


def test_csv_names_units_and_disarms_formulas(lab: SmallLab, owner: Client) -> None:
    lab.lab.projects.filter(slug="demo").update(name="=cmd()|calc")
    use(lab)
    response = owner.get(f"/overview.csv?{PERIOD}")
    assert (
        response["Content-Disposition"] == 'attachment; filename="cell-lab-energy-by-project.csv"'
    )
    lines = text_of(response).splitlines()
    assert lines[0].startswith("hour_utc,charged_to,charge_key,energy_quality,energy_mj,energy_kwh")
    assert any("'=cmd()|calc" in line for line in lines[1:])
    assert sum(int(line.split(",")[4]) for line in lines[1:]) == 10_000_001


def test_the_policy_refuses_other_origins(owner: Client) -> None:
    response = owner.get("/")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r'(src|href)="https?://', text_of(response))
    assert " on" not in " ".join(re.findall(r"<[a-z]+ ([^>]*)>", text_of(response))).replace(
        " once", ""
    )


def _day_of_use(lab: SmallLab, day: int, energy_mj: int, hours: int = 24) -> None:
    push(
        lab.node,
        [
            W(
                gpu(),
                energy_mj,
                start_us=T0 + (day * 24 + i) * 60 * MINUTE,
                end_us=T0 + (day * 24 + i + 1) * 60 * MINUTE,
                seq=(day + 30) * 24 + i,
            )
            for i in range(hours)
        ],
    )


SECOND_DAY = "/?from=2026-11-03T08:00Z&to=2026-11-04T08:00Z"


def test_a_change_is_told_with_the_period_before_as_its_figure(
    lab: SmallLab, owner: Client
) -> None:
    _day_of_use(lab, 0, 1_000_000)
    _day_of_use(lab, 1, 750_000)
    page = text_of(owner.get(SECOND_DAY))
    assert "less energy than in the 24 hours before" in page
    assert ">25\u202f" in page
    assert_each_figure_explains_itself(owner, page)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/?from=2026-11-02T08:00Z&to=2026-11-03T08:00Z", "the 24 hours before"),
        ("/?from=2026-11-03T08:00Z&to=2026-11-04T08:00Z", "the 4 hours before"),
        ("/?from=2026-11-03&to=2026-11-04", "2 Nov 2026"),
        ("/?period=today", "2 Nov 2026 until 13:00"),
        ("/?period=7d", "the 6 days and 13 hours before"),
    ],
)
def test_an_earlier_period_is_named_by_its_days_or_its_length(
    lab: SmallLab, owner: Client, address: str, name: str
) -> None:
    for day in range(-14, 2):
        _day_of_use(lab, day, 1_000_000)
    with time_machine.travel(datetime(2026, 11, 3, 11, 30, tzinfo=UTC), tick=False):
        owner.force_login(lab.owner)
        page = text_of(owner.get(address))
    assert name in page


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (
            "/?from=2026-11-01&to=2026-12-01&compare=year",
            "between 1 and 30 November 2025",
        ),
        ("/?from=2026-11-02&to=2026-11-03", "on 1 November 2026"),
        ("/?from=2026-11-02&to=2026-12-06", "between 29 September and 1 November 2026"),
        ("/?from=2026-11-03&to=2026-11-04", "before 09:00 on 2 November 2026"),
    ],
)
def test_a_period_without_readings_is_named_by_its_days(
    lab: SmallLab, owner: Client, address: str, reason: str
) -> None:
    """The first reading is of 2 November, 9:00."""
    _day_of_use(lab, 0, 1_000_000, hours=60)
    with time_machine.travel(datetime(2026, 12, 10, tzinfo=UTC), tick=False):
        owner.force_login(lab.owner)
        page = text_of(owner.get(address))
    line = page[page.index("data-no-comparison") :].partition("</p>")[0]
    assert f"nothing was measured {reason}." in line


def test_no_change_is_told_when_much_is_unknown(lab: SmallLab, owner: Client) -> None:
    _day_of_use(lab, 0, 1_000_000)
    _day_of_use(lab, 1, 750_000, hours=12)
    page = text_of(owner.get(SECOND_DAY))
    assert "energy than in the" not in page
    assert "50 % unknown" in page


def segments_of(page: str) -> str:
    return page[page.index('id="segments"') : page.index('id="chart-heading"')]


def test_the_bar_of_all_energy_adds_up_to_the_whole(lab: SmallLab, owner: Client) -> None:
    use(lab)
    use(lab, project=None, first=1)
    page = text_of(owner.get(PAGE))
    parts_mj = [value for query, value in figures_on(segments_of(page)) if "energy_mj" in query]
    whole_mj = next(value for query, value in figures_on(page) if "metric=energy_mj" in query)
    assert len(parts_mj) == 3
    assert sum(parts_mj) == whole_mj
    widths = [float(width) for width in re.findall(r"flex-grow:([\d.]+)", page)]
    assert sum(widths) == pytest.approx(100, abs=0.05)


def test_the_legend_names_six_projects_and_counts_the_others(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 9)
    legend = segments_of(text_of(owner.get(PAGE)))
    assert legend.count('href="/projects/p-') == 6
    assert 'data-unnamed-projects="3"' in legend


def savings_on(page: str) -> dict[str, int]:
    """Return the energy of each kind of waste on the page."""
    parts = page.split('data-saving="')[1:]
    return {part.partition('"')[0]: figures_on(part)[0][1] for part in parts}


def test_savings_count_each_run_once_and_add_up(lab: SmallLab, owner: Client) -> None:
    original, repeat, failed, finished = use(lab, runs=4)
    Run.objects.filter(uuid__in=[repeat, failed]).update(state=RunState.FAILED)
    DuplicateFinding.objects.create(
        lab=lab.lab,
        run=Run.objects.get(uuid=repeat),
        original=Run.objects.get(uuid=original),
        verdict=Verdict.DUPLICATE,
        certainty=Certainty.VERIFIED,
        detected_us=T0,
    )
    page = text_of(owner.get(PAGE))
    saved = savings_on(page)
    assert saved["duplicate"] == saved["failed"] == 6_000_001
    together = next(value for query, value in figures_on(page) if "waste=any" in query)
    assert sum(saved.values()) == together
    runs = page[page.index('data-saving="failed"') :]
    address = unescape(re.findall(r'class="button slim" href="([^"]+)"', runs)[0])
    listed = text_of(owner.get(address))
    assert str(failed) in listed
    assert str(finished) not in listed
    DuplicateFinding.objects.update(state=FindingState.CONFIRMED, decided_us=T0)
    again = page[page.index('data-saving="duplicate"') :]
    address = unescape(re.findall(r'class="button slim" href="([^"]+)"', again)[0])
    assert str(repeat) in text_of(owner.get(address)), "decided findings are counted too"
    assert_each_figure_explains_itself(owner, page)


def test_without_waste_it_says_what_was_looked_for(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 3_600_000, shares=(("proc:ada/python3", 3_600_000),))])
    page = text_of(owner.get(PAGE))
    assert savings_on(page) == {}
    assert "waste=" not in page


def test_months_are_figures_and_a_month_without_data_is_not_zero(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    page = text_of(owner.get(PAGE))
    months = page[page.index('class="months"') : page.index("</figure>")]
    assert months.count("<li") == 12
    assert len(figures_on(months)) == 1
    assert months.count('class="none"') == 11


@pytest.mark.parametrize(("now", "running"), [((2026, 11, 20), 1), ((2026, 12, 2), 0)])
def test_the_running_month_is_marked_as_such(
    lab: SmallLab, owner: Client, now: tuple[int, int, int], running: int
) -> None:
    use(lab)
    with time_machine.travel(datetime(*now, tzinfo=UTC), tick=False):
        owner.force_login(lab.owner)
        page = text_of(owner.get(PAGE))
    months = page[page.index('class="months"') : page.index("</figure>")]
    assert months.count("data-so-far") == running
    hidden = re.findall(r'<span class="visually-hidden">([^<]*)</span>', months)
    assert [text for text in hidden if "so far" in text] == [
        text for text in hidden if "November 2026" in text and running
    ]


@pytest.mark.parametrize(("day", "shaded"), [(5, True), (28, False)])
def test_a_bar_that_is_not_over_is_shaded(
    lab: SmallLab, owner: Client, day: int, shaded: bool
) -> None:
    use(lab)
    with time_machine.travel(datetime(2026, 11, day, 15, tzinfo=UTC), tick=False):
        owner.force_login(lab.owner)
        page = text_of(owner.get("/?from=2026-11-01&to=2026-11-10"))
        table = text_of(owner.get("/overview/table/?from=2026-11-01&to=2026-11-10"))
    found = re.search(r'<script id="energy-by-project"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    bands = json.loads(found[1])["layout"].get("shapes", [])
    places = [(band["x0"], band["x1"]) for band in bands]
    assert places == ([(3.5, 4.5)] if shaded else [])
    assert table[table.index("<tbody") :].count("so far") == shaded
    assert ('class="band"' in page) == shaded


def test_the_energy_of_a_period_has_its_share_of_twelve_months(
    lab: SmallLab, owner: Client
) -> None:
    _day_of_use(lab, 0, 1_000_000)
    assert "data-year-share" not in text_of(owner.get(PAGE)), "there is nothing to compare with"
    _day_of_use(lab, -10, 3_000_000)
    page = text_of(owner.get(PAGE))
    line = page[page.index("data-year-share") :].partition("</p>")[0]
    assert ">25\u202f" in line
    assert figures_on(line)[0][1] == 24_000_000
    assert "December 2025" in line
    assert "November 2026" in line
    assert_each_figure_explains_itself(owner, page)
    assert "data-year-share" not in text_of(owner.get("/?from=2025-01-01&to=2026-12-01"))


def test_nothing_is_said_of_nodes_where_there_is_none(lab: SmallLab, owner: Client) -> None:
    Node.objects.all().delete()
    page = text_of(owner.get("/"))
    needs = page[page.index('id="action-needed"') : page.index('id="projects"')]
    assert "data-alert" not in needs
    assert "report" not in needs


def test_cost_is_a_figure_of_headline_rows_and_savings(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 3)
    page = text_of(owner.get(PAGE))
    assert "cost_ucurrency" not in page
    set_price(
        site=lab.site, ucurrency_per_kwh=300_000, currency="EUR", from_us=0, by=lab.owner, now=T0
    )
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    table = page[page.index('id="projects"') :]
    body, foot = table[: table.index("<tfoot>")], table[table.index("<tfoot>") :]
    costs = [value for query, value in figures_on(body) if "cost_ucurrency" in query]
    headline = [value for query, value in figures_on(foot) if "cost_ucurrency" in query]
    assert len(costs) == 4
    assert [sum(costs)] == headline
    assert [query for query, _ in figures_on(page) if "cost_u" in query and "waste=idle" in query]
    assert_each_figure_explains_itself(owner, page)
