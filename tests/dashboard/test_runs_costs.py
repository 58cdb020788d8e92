"""Costs on /runs/, its CSV and the comparison: order, groups, sums, currencies apart."""

import csv
import io
import re
import uuid
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node, set_price
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    figures_on,
    queries,
    text_of,
)

SHOWN = "show=energy&show=cost"
# node of each run, and its energy
RUNS = {"a": (0, 3_600_000), "b": (0, None), "c": (0, 7_200_000), "d": (1, 1_800_000),
        "e": (2, 9_000_000)}  # fmt: skip


@pytest.fixture
def runs(lab: SmallLab) -> dict[str, UUID]:
    """Runs at a site of its own, at one abroad, and at one without a price; b has no energy."""
    sites = [
        lab.site,
        create_site(lab=lab.lab, name="Bern", kind=SiteKind.WORKSTATION, zone="CH", now=T0),
        create_site(lab=lab.lab, name="Attic", kind=SiteKind.WORKSTATION, zone="DE", now=T0),
    ]
    nodes = [
        lab.node,
        *(
            register_node(
                lab=lab.lab, uuid=uuid.uuid4(), hostname=site.name, facts={}, site=site, now=T0
            )
            for site in sites[1:]
        ),
    ]
    run_until_idle(worker="test")
    uuids = {name: uuid.uuid4() for name in RUNS}
    for i, (name, run) in enumerate(uuids.items()):
        node, energy_mj = RUNS[name]
        facts = RunFacts(
            name=name, started_us=T0 + i * MINUTE, project="demo", node_uuid=nodes[node].uuid
        )
        put_run(lab=lab.lab, uuid=run, facts=facts, by=lab.owner, bound_node=None)
        Run.objects.filter(uuid=run).update(
            state="finished", ended_us=T0 + (i + 1) * MINUTE, sweep="lr" if name in "ad" else ""
        )
        if energy_mj:
            start_us = T0 + i * MINUTE
            share = ((f"run:{run}", energy_mj),)
            window = W(f"gpu:GPU-{node}", energy_mj, start_us, start_us + MINUTE, i, shares=share)
            push(nodes[node], [window])
    for site, ucurrency, currency in ((0, 300_000_000, "EUR"), (1, 200_000_000, "CHF")):
        price(lab, sites[site], ucurrency, currency)
    return uuids


def price(lab: SmallLab, site: Any, ucurrency: int, currency: str) -> None:
    set_price(
        site=site,
        ucurrency_per_kwh=ucurrency,
        currency=currency,
        from_us=(hour_of(T0) - 5) * US_PER_HOUR,
        by=lab.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    lab.lab.refresh_from_db()


def names_on(page: str) -> str:
    return "".join(re.findall(r'<a href="/runs/[0-9a-f-]{36}/">([a-e])</a>', page))


def costs_on(page: str) -> list[int]:
    return [
        int(value)
        for value in re.findall(r'data-sum="cost_ucurrency" data-sum-value="(\d+)"', page)
    ]


def lines_of(client: Client, address: str) -> list[dict[str, str]]:
    text = text_of(client.get(address)).lstrip("\ufeff")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(("sort", "names"), [("-cost", "caedb"), ("cost", "acedb")])
def test_runs_without_a_price_are_last(
    owner: Client, runs: dict[str, UUID], sort: str, names: str
) -> None:
    page = text_of(owner.get(f"/runs/?sort={sort}&{SHOWN}"))
    assert names_on(page) == names
    assert f'aria-sort="{"descending" if sort[0] == "-" else "ascending"}"' in page
    assert "".join(line["name"] for line in lines_of(owner, f"/runs.csv?sort={sort}")) == names


def test_the_column_is_on_request(owner: Client, runs: dict[str, UUID]) -> None:
    page = text_of(owner.get("/runs/"))
    assert 'name="show" value="cost"' in page
    assert "metric=cost_ucurrency" not in page
    assert not costs_on(page)


def test_costs_are_explained_and_currencies_stay_apart(
    owner: Client, runs: dict[str, UUID]
) -> None:
    page = text_of(owner.get(f"/runs/?sort=name&{SHOWN}"))
    rows, total = page.split("<tfoot>")
    cells = {
        name: re.search(rf'data-run="{run}".*?</tr>', rows, re.DOTALL)[0]  # type: ignore[index]
        for name, run in runs.items()
    }
    amounts = {
        name: [(query.rpartition("currency=")[2], value) for query, value in figures_on(cell)
               if "metric=cost" in query]
        for name, cell in cells.items()
    }  # fmt: skip
    assert amounts == {
        "a": [("EUR", 300_000)], "b": [], "c": [("EUR", 600_000)], "d": [("CHF", 100_000)], "e": [],
    }  # fmt: skip
    assert [name for name, cell in cells.items() if "data-no-price" in cell] == ["e"]
    assert costs_on(page) == [900_000]
    assert 'data-other-currency="CHF"' in total
    assert "100\u202f000 millionths of CHF" in total
    assert 'data-value="900000"' in total  # the explained sum of the page
    assert assert_each_figure_explains_itself(owner, page) >= 8


def test_groups_have_their_costs(owner: Client, runs: dict[str, UUID]) -> None:
    page = text_of(owner.get(f"/runs/?group=sweep&sort=-cost&open=lr&{SHOWN}"))
    assert re.findall(r'data-group="([^"]*)"', page) == ["lr", ""]
    assert costs_on(page) == [300_000, 600_000, 900_000]
    assert names_on(page) == "ad"
    group = page.partition('data-group="lr"')[2].partition("data-run=")[0]
    assert 'data-other-currency="CHF"' in group
    assert_each_figure_explains_itself(owner, page)


def test_without_any_price_all_are_unknown(lab: SmallLab, owner: Client) -> None:
    run = uuid.uuid4()
    facts = RunFacts(name="a", started_us=T0, project="demo", node_uuid=lab.node.uuid)
    put_run(lab=lab.lab, uuid=run, facts=facts, by=lab.owner, bound_node=None)
    push(lab.node, [W("gpu:GPU-1", 9, T0, T0 + MINUTE, 0, shares=((f"run:{run}", 9),))])
    page = text_of(owner.get(f"/runs/?sort=-cost&{SHOWN}"))
    assert page.count("data-no-price") == 1
    assert "metric=cost_ucurrency" not in page
    [line] = lines_of(owner, "/runs.csv")
    assert (line["currency"], line["cost_ucurrency"], line["without_price_mj"]) == ("", "", "9")


def test_the_csv_names_currency_and_energy_without_a_price(
    owner: Client, runs: dict[str, UUID]
) -> None:
    lines = lines_of(owner, "/runs.csv?sort=name")
    names = ("currency", "cost_ucurrency", "without_price_mj", "other_costs_ucurrency")
    assert [tuple(line[name] for name in names) for line in lines] == [
        ("EUR", "300000", "0", ""),
        ("", "", "", ""),  # energy unknown
        ("EUR", "600000", "0", ""),
        ("EUR", "", "1800000", "CHF 100000"),
        ("EUR", "", "9000000", ""),
    ]


def test_the_comparison_has_costs(owner: Client, runs: dict[str, UUID]) -> None:
    query = "&".join(f"run={runs[name]}" for name in "acde")
    page = text_of(owner.get(f"/runs/compare/?{query}"))
    row = page.partition("data-costs")[2].partition("</tr>")[0]
    assert [(query.rpartition("currency=")[2], value) for query, value in figures_on(row)] == [
        ("EUR", 300_000), ("EUR", 600_000), ("CHF", 100_000),
    ]  # fmt: skip
    assert row.count("data-no-price") == 1
    lines = text_of(owner.get(f"/runs/compare.csv?{query}")).splitlines()
    assert "figure,cost_ucurrency,,300000,600000,," in lines
    assert "figure,other_costs_ucurrency,,,,CHF 100000," in lines
    assert_each_figure_explains_itself(owner, page)


def test_queries_do_not_grow_with_currencies(
    lab: SmallLab, owner: Client, runs: dict[str, UUID]
) -> None:
    before = queries(owner, f"/runs/?{SHOWN}")
    assert before == queries(owner, "/runs/?show=energy")
    price(lab, lab.lab.sites.get(name="Attic"), 1_000_000, "USD")
    assert queries(owner, f"/runs/?{SHOWN}") == before
