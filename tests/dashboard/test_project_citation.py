"""Cite or share on the page of a project: the sentence of its figures, and a link to its hours."""

import re
from datetime import UTC, datetime
from html import unescape

import time_machine
from django.test import Client

from apps.accounts.models import Lab
from apps.core.jobs import run_until_idle
from apps.fleet.services import set_price
from labcarbon import __version__
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import PERIOD, figures_on, queries, text_of, use

PAGE = f"/projects/demo/?{PERIOD}"


def citation_on(page: str) -> str:
    match = re.search(r'id="citation">(.*?)</p>', page, re.DOTALL)
    assert match
    return unescape(match[1])


def test_the_sentence_has_amounts_factor_pue_runs_period_and_version(
    lab: SmallLab, owner: Client
) -> None:
    use(lab, runs=2)
    set_price(
        site=lab.site,
        ucurrency_per_kwh=300_000_000,
        currency="EUR",
        from_us=0,
        by=lab.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    citation = citation_on(page)
    shown = dict(figures_on(page.partition("data-citation")[0]))
    emission = next(value for query, value in shown.items() if "metric=emission_ug&" in query)
    assert f"{emission:,}".replace(",", "\u202f") in citation
    for part in (
        "Demo, 1 Nov 01:00 – 10 Nov 2026 01:00: ",
        " EUR, 2 runs (location-based, lifecycle basis",
        "Germany 2025, 330 g/kWh, edition 1, ",
        "PUE 1.000",
        "P5–P95 ",
        "100 % of the energy by hardware counters",
        "coverage ",
        f"LabCarbon {__version__}",
    ):
        assert part in citation, part
    assert 'data-copy="citation"' in page


def test_the_link_of_a_running_period_names_its_hours(lab: SmallLab, owner: Client) -> None:
    use(lab)
    with time_machine.travel(datetime(2026, 11, 3, 11, 30, tzinfo=UTC), tick=False):
        owner.force_login(lab.owner)
        page = text_of(owner.get("/projects/demo/?period=month"))
    hours = "from=2026-10-31T23%3A00Z&amp;to=2026-11-03T12%3A00Z"
    assert f'id="address">http://testserver/projects/demo/?{hours}</span>' in page
    assert "(its last hour was not over)" in citation_on(page)


def test_unknown_emissions_and_costs_are_stated(db: None) -> None:
    lab = small_lab(zone="")
    use(lab)
    Lab.objects.filter(pk=lab.lab.pk).update(currency="EUR")
    citation = citation_on(text_of(client_of(lab.owner).get(PAGE)))
    assert "emissions unknown, 1 run" in citation
    assert "choose a zone" not in citation
    assert "EUR" not in citation
    assert "no price" not in citation


def test_hardware_is_stated_apart(lab: SmallLab, owner: Client) -> None:
    use(lab)
    bought(lab, kg=8000, device=lab.node.devices.get(), now=T0)
    bought(lab, kg=None, name="Screen", kind="monitor", now=T0)
    assert "in addition hardware" in citation_on(text_of(owner.get(PAGE)))


def test_a_project_without_energy_has_nothing_to_cite(lab: SmallLab, owner: Client) -> None:
    lab.lab.projects.create(slug="new", name="New", created_us=T0)
    assert "data-citation" not in text_of(owner.get(f"/projects/new/?{PERIOD}"))


def test_the_run_and_the_explanation_have_the_same_basis(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    run = citation_on(text_of(owner.get(f"/runs/{uuid}/")))
    project = text_of(owner.get(PAGE))
    basis = re.search(r"location-based.*?; PUE 1\.000", citation_on(project))
    assert basis
    assert basis[0] in run
    query = next(query for query, _ in figures_on(project) if "metric=emission_ug&" in query)
    assert basis[0] in unescape(text_of(owner.get(f"/explain/?{query}")))


def test_queries_do_not_grow_with_runs(lab: SmallLab, owner: Client) -> None:
    use(lab)
    before = queries(owner, PAGE)
    use(lab, runs=4, first=1)
    assert queries(owner, PAGE) == before
