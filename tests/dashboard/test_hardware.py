"""Use and hardware on / and /projects/: tables whose sums are the headlines, nobody's charges
apart, nothing twice.
"""

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.jobs import use_all_job
from apps.assets.services import Entry, record, set_meter, store
from apps.carbon.figures.combined import answer
from apps.carbon.figures.figure_query import ALLOCATION, TOGETHER, FigureQuery
from apps.carbon.figures.query_parsing import parse_query
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import carbon_quantity
from apps.fleet.services import set_static_power
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import (
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    figures_on,
    gpu,
    queries,
    text_of,
    use,
)
from tests.row_copies import copy_or_create

HOME, LIST = f"/?{PERIOD}", f"/projects/?{PERIOD}"
NOW = T0 + YEAR * US_PER_HOUR
QUERY = FigureQuery(metric=TOGETHER, from_hour=H0 - 32, to_hour=H0 + 184)


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def _filled() -> SmallLab:
    lab = small_lab()
    use(lab, runs=2)
    use(lab, project=None, first=2)
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    bought(lab, kg=4 * YEAR, device=lab.node.devices.get(key=gpu()), now=NOW)
    server = bought(lab, kg=8 * YEAR, name="Files", kind="storage", now=NOW)
    store(asset=server, project=vision, gigabytes=3, from_us=T0, by=lab.owner, now=NOW)
    bought(lab, kg=None, name="Screen", kind="monitor", now=NOW)
    bought(lab, kg=40, name="Switch", kind="network", now=NOW)
    gone = bought(lab, kg=11, name="Old", now=NOW)
    record(asset=gone, entry=Entry("dispose", T0 + 5 * US_PER_HOUR), by=lab.owner, now=NOW)
    use_all_job(str(lab.lab.pk))
    return lab


@pytest.fixture
def lab(db: None, request: pytest.FixtureRequest) -> SmallLab:
    """A small lab; where a test asks for ``filled``, that."""
    return copy_or_create("hardware", _filled) if "filled" in request.fixturenames else small_lab()


@pytest.fixture
def filled(lab: SmallLab) -> SmallLab:
    """Two projects and nobody use a card; a file server, a thing that was thrown away, and one
    that nobody knows.
    """
    return lab


def table_of(page: str, start: str) -> tuple[list[list[tuple[str, int]]], list[tuple[str, int]]]:
    """Return the figures of each row, and of the foot, of the first table behind ``start``."""
    table = page[page.index(start) :]
    body = table[table.index("<tbody>") : table.index("<tfoot>")]
    foot = table[table.index("<tfoot>") : table.index("</tfoot>")]
    return [figures_on(row) for row in body.split("<tr>")[1:]], figures_on(foot)


def column(rows: list[list[tuple[str, int]]], metric: str) -> list[int]:
    return [value for row in rows for query, value in row if f"metric={metric}&" in query][
        : len(rows)
    ]


@pytest.mark.parametrize(
    ("address", "start"), [(HOME, 'id="projects"'), (LIST, 'aria-label="Projects"')]
)
def test_the_columns_add_up_and_nobody_is_apart(
    filled: SmallLab, owner: Client, address: str, start: str
) -> None:
    page = text_of(owner.get(address))
    rows, foot = table_of(page, start)
    for metric in ("emission_ug", "embodied_ug", "carbon_ug"):
        whole = next(value for query, value in foot if f"metric={metric}&" in query)
        assert (
            sum(column(rows, metric))
            == whole
            == answer(filled.lab, QUERY.replace(metric=metric), NOW).value
        ), metric
    for name in (
        "Demo",
        "Vision",
        "Idle",
        "Unattributed",
        "Held by the lab",
        "Off or not measured",
        "Written off",
    ):
        assert name in page, name
    assert "4 of 5 assets have a known figure" in page
    assert assert_each_figure_explains_itself(owner, page) > 20


def test_the_headline_is_use_and_hardware(filled: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(HOME))
    headline = page[page.index('aria-labelledby="how-much"') : page.index('class="months"')]
    told = dict(figures_on(headline))
    values = {re.search(r"metric=(\w+)", query)[1]: value for query, value in told.items()}  # type: ignore[index]
    assert values["carbon_ug"] == values["emission_ug"] + values["embodied_ug"]
    assert "≥" in headline, "one asset has no figure"
    bought = page[page.index("Hardware purchased") :]
    assert "metric=embodied_inventory_ug" in figures_on(bought)[0][0]


def test_the_citation_of_the_headline_names_factor_and_measured_share(
    filled: SmallLab, owner: Client
) -> None:
    told = dict(figures_on(text_of(owner.get(HOME))))
    query = next(query for query in told if "metric=carbon_ug" in query)
    page = text_of(owner.get(f"/explain/?{query.replace('&amp;', '&')}"))
    citation = page[page.index('id="citation">') :].partition("</span>")[0]
    assert "location-based" in citation
    assert re.search(r"DE|Germany", citation)
    assert "g/kWh" in citation
    assert "by hardware counters" in citation


def test_what_an_asset_brought_and_who_bore_it_explain_themselves(
    filled: SmallLab, owner: Client
) -> None:
    for asset in filled.lab.assets.all():
        assert (
            assert_each_figure_explains_itself(
                owner, text_of(owner.get(f"/assets/{asset.pk}/?{PERIOD}"))
            )
            >= 0
        )
    told = text_of(owner.get(f"/assets/{filled.lab.assets.get(name='Old').pk}/"))
    assert {
        query.split("consumer=")[1] for query, _ in figures_on(told) if "consumer=" in query
    } >= {"written_off"}


def test_no_charge_stands_twice(filled: SmallLab, owner: Client) -> None:
    """The disposed thing is charged for five hours and written off for the rest: 11 kg, no more."""
    end = H0 + YEAR
    asked = QUERY.replace(metric=ALLOCATION, from_hour=H0, to_hour=end)
    assert answer(filled.lab, asked.replace(consumer="written_off"), NOW).value < 11 * KG
    gone = filled.lab.assets.get(name="Old")
    own = asked.replace(subject_kind="asset", subject_key=str(gone.pk))
    assert answer(filled.lab, own, NOW).value == 11 * KG


def test_a_project_bears_what_its_kinds_add_up_to(filled: SmallLab, owner: Client) -> None:
    for slug, why in (("vision", "Used"), ("demo", "Used")):
        page = text_of(owner.get(f"/projects/{slug}/?{PERIOD}"))
        rows, foot = table_of(page, 'id="hardware-title"')
        assert sum(value for row in rows for _, value in row) == foot[0][1] > 0
        assert why in page
        assert_each_figure_explains_itself(owner, page)


def marks_of(page: str, query: str) -> set[bool]:
    """Return whether a figure is marked as a lower bound, for each of its places on a page."""
    shown = re.findall(r'data-figure="([^"]*)"[^>]*>(≥?)', page)
    return {bool(mark) for listed, mark in shown if unescape(listed) == query}


@pytest.mark.parametrize(
    ("address", "start"), [(HOME, 'id="projects"'), (LIST, 'aria-label="Projects"')]
)
def test_a_lower_bound_is_marked_in_the_row_as_on_the_page_of_the_project(
    filled: SmallLab, owner: Client, address: str, start: str
) -> None:
    """One asset has no figure. Its part of each row is unknown, except of node overhead."""
    set_static_power(node=filled.node, static_power_mw=45_000)
    run_until_idle(worker="test")
    project = text_of(owner.get(f"/projects/demo/?{PERIOD}"))
    page = text_of(owner.get(address))
    rows = page[page.index(start) :]
    for metric in (TOGETHER, ALLOCATION):
        query = next(query for query, _ in figures_on(project) if f"metric={metric}&" in query)
        assert marks_of(project, query) == {True}
        assert marks_of(rows, query) == {True}
    shown = {query for query, _ in figures_on(rows) if "metric=carbon_ug&" in query}
    assert any("consumer=overhead" in query for query in shown)
    for text in shown:
        query_of_row = parse_query(dict(parse_qsl(text)), basis=filled.lab.basis)
        explained = carbon_quantity(answer(filled.lab, query_of_row, NOW))
        assert marks_of(rows, text) == {explained.at_least}, text


@pytest.mark.parametrize("kg", [1, 3, 40, 4000, 90_000])
def test_the_kinds_of_a_project_and_their_total_have_one_unit(
    lab: SmallLab, owner: Client, kg: int
) -> None:
    use(lab)
    bought(lab, kg=kg, device=lab.node.devices.get(key=gpu()), now=NOW)
    use_all_job(str(lab.lab.pk))
    page = text_of(owner.get(f"/projects/demo/?{PERIOD}"))
    table = page.partition("data-kinds")[2].partition("</table>")[0]
    head, body = table.split("<tbody>")
    assert re.findall(r'class="u">([^<]+)</span>', head)
    assert 'class="u"' not in body  # no unit of their own
    texts = re.findall(r'<a class="figure"[^>]*>([^<]+)</a>', body)
    assert len(texts) >= 2
    assert texts[-1] == texts[0]  # the total of one reason has the text of its only part


def test_the_chart_has_a_table_that_adds_up(filled: SmallLab, owner: Client) -> None:
    assert "Hardware by project" in text_of(owner.get(HOME))
    address = HOME.replace("/?", "/overview/hardware/?")
    page = text_of(owner.get(address))
    rows, foot = table_of(page, "Hardware in ")
    assert assert_each_figure_explains_itself(owner, page) > 20
    assert "<html" not in text_of(owner.get(address, headers={"HX-Request": "true"}))
    assert_needs_sign_in(address)
    whole = answer(filled.lab, QUERY.replace(metric=ALLOCATION), NOW).value
    assert foot[-1][1] == sum(row[-1][1] for row in rows if row) == whole
    for i in range(len(foot) - 1):
        part = foot[i]
        assert (
            sum(value for row in rows for query, value in row[:-1] if _same(query, part[0]))
            == part[1]
        )


def _same(query: str, other: str) -> bool:
    plain = re.compile(r"&from=[^&]*&to=[^&]*")
    return plain.sub("", query) == plain.sub("", other)


def test_without_assets_nothing_changes_and_the_next_step_is_told(
    lab: SmallLab, owner: Client
) -> None:
    assert "No data in this period" in text_of(
        owner.get(HOME.replace("/?", "/overview/hardware/?"))
    )
    use(lab)
    for address in (HOME, LIST):
        page = text_of(owner.get(address))
        assert "/assets/discovered/" in page
        assert "carbon_ug" not in page
        assert "embodied" not in page.replace("embodied carbon of", "")
    assert "hardware-by-project" not in text_of(owner.get(HOME))


def test_hardware_without_any_energy(lab: SmallLab, owner: Client) -> None:
    bought(lab, kg=4 * YEAR, now=NOW)
    page = text_of(owner.get(HOME))
    assert "No data for" in page
    assert "Hardware, amortised over use:" in page
    assert assert_each_figure_explains_itself(owner, page) > 0
    assert assert_each_figure_explains_itself(owner, text_of(owner.get(LIST))) > 0


def test_queries_do_not_grow_with_assets(filled: SmallLab, owner: Client) -> None:
    pages = (HOME, LIST, f"/projects/vision/?{PERIOD}")
    few = [queries(owner, page) for page in pages]
    for i in range(12):
        asset = bought(filled, name=f"Card {i}", now=NOW)
        set_meter(asset=asset, node=filled.node, from_us=T0, by=filled.owner, now=NOW)
    assert [queries(owner, page) for page in pages] == few
