"""Order, columns, sums and groups of /runs/."""

import re
from html import unescape
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.choices import PersonView, Role
from apps.accounts.models import Lab, Membership, Project, User
from apps.runs.models import Metric, Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    figures_on,
    gpu,
    queries,
    text_of,
)

ENERGIES_MJ = {"a": 5_000, "b": None, "c": 9_000, "d": 7_000}  # None: not measured


@pytest.fixture
def runs(lab: SmallLab) -> dict[str, UUID]:
    """Four runs, a minute after each other, of two sweeps and two projects; b has no energy."""
    Project.objects.create(lab=lab.lab, slug="vision", name="Vision", created_us=T0)
    uuids = {name: uuid4() for name in ENERGIES_MJ}
    windows = []
    for i, (name, uuid) in enumerate(uuids.items()):
        facts = RunFacts(
            name=name,
            started_us=T0 + i * MINUTE,
            project=("demo", "vision")[i % 2],
            os_user="ada",
            host="ws-1",
            node_uuid=lab.node.uuid,
            params={"model": ("resnet", "vit")[i % 2]},
        )
        put_run(lab=lab.lab, uuid=uuid, facts=facts, by=lab.owner, bound_node=None)
        Run.objects.filter(uuid=uuid).update(
            state="finished",
            ended_us=T0 + (i + 4 - i % 3) * MINUTE,
            sweep="lr, wide" if i else "",
            os_user=f"user-{name}",
        )
        energy_mj = ENERGIES_MJ[name]
        if energy_mj:
            start_us = T0 + i * MINUTE
            share = ((f"run:{uuid}", energy_mj),)
            windows.append(W(gpu(), energy_mj, start_us, start_us + MINUTE, i, shares=share))
    push(lab.node, windows)
    return uuids


def names_on(page: str) -> str:
    return "".join(re.findall(r'<a href="/runs/[0-9a-f-]{36}/">([a-d])</a>', page))


def sums_on(page: str) -> list[int]:
    return [
        int(value) for value in re.findall(r'data-sum="energy_mj" data-sum-value="(\d+)"', page)
    ]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("-energy", "cdab"),
        ("energy", "adcb"),
        ("-emission", "cdab"),
        ("name", "abcd"),
        ("-duration", "dabc"),
        ("-ended", "dcba"),
        ("-user", "dcba"),
        ("-metric:val_acc", "bacd"),
        ("metric:val_acc", "abdc"),
        ("project", "cadb"),
        ("model", "cadb"),
    ],
)
def test_each_order_has_unknown_values_last(
    lab: SmallLab, owner: Client, runs: dict[str, UUID], sort: str, names: str
) -> None:
    for name, value in (("a", 0.25), ("b", 0.5), ("c", None)):
        run = Run.objects.get(uuid=runs[name])
        Metric.objects.create(run=run, name="val_acc", count=1, last_value=value)
    shown = "".join(f"&show={name}" for name in ("project", "user", "model", "ended", "duration"))
    shown += "&show=energy&show=emission"
    page = text_of(owner.get(f"/runs/?sort={sort}&columns=val_acc{shown}"))
    assert names_on(page)[:2] == names[:2]
    if "metric" not in sort:
        assert names_on(page) == names
    assert f'aria-sort="{"descending" if sort[0] == "-" else "ascending"}"' in page
    csv = text_of(owner.get(f"/runs.csv?sort={sort}")).splitlines()[1:]
    assert "".join(line.split(",")[1] for line in csv) == names_on(page)


def test_unknown_energy_is_marked_and_not_zero(owner: Client, runs: dict[str, UUID]) -> None:
    page = text_of(owner.get("/runs/?sort=-energy"))
    assert page.count('data-energy-state="') == 1
    assert 'data-unmeasured-runs="1"' in page


def test_the_total_is_the_sum_of_all_filtered_runs(
    lab: SmallLab, owner: Client, runs: dict[str, UUID]
) -> None:
    page = text_of(owner.get("/runs/"))
    assert sums_on(page) == [21_000]
    assert 'data-total="4"' in page
    assert assert_each_figure_explains_itself(owner, page) == 8
    shown = [value for query, value in figures_on(page) if "emission" in query]
    assert sum(shown[:-1]) == shown[-1]
    assert sums_on(text_of(owner.get("/runs/?project=vision"))) == [7_000]
    for i in range(60):  # more than a page
        Run.objects.create(lab=lab.lab, uuid=uuid4(), name="later", started_us=T0 + 10**9 + i)
    page = text_of(owner.get("/runs/"))
    assert sums_on(page) == [21_000]
    assert 'data-unmeasured-runs="61"' in page


def test_columns_are_in_the_address(owner: Client, runs: dict[str, UUID]) -> None:
    page = text_of(owner.get("/runs/?show=energy&show=sweep&sort=-energy"))
    heads = re.findall(r"sort=-?(\w+)[^>]*>[A-Z]\w+</a>", page.partition("<thead>")[2])
    assert heads == ["name", "sweep", "energy"]
    assert "show=sweep&amp;show=energy" in page
    assert "show=" not in text_of(owner.get("/runs/")).partition("</form>")[2]


@pytest.mark.parametrize(
    ("group", "keys"),
    [
        ("project", {"demo": 14_000, "vision": 7_000}),
        ("sweep", {"": 5_000, "lr, wide": 16_000}),
        ("model", {"resnet": 14_000, "vit": 7_000}),
    ],
)
def test_groups_sum_to_the_total(
    owner: Client, runs: dict[str, UUID], group: str, keys: dict[str, int]
) -> None:
    page = text_of(owner.get(f"/runs/?group={group}"))
    found = re.findall(r'data-group="([^"]*)"', page)
    *sums, total = sums_on(page)
    assert dict(zip(found, sums, strict=True)) == keys
    assert sum(sums) == total == 21_000
    assert names_on(page) == ""
    assert page.count('aria-expanded="false"') >= 2


@pytest.mark.parametrize("sort", ["energy", "-energy", "duration", "-duration"])
def test_runs_without_a_sweep_are_the_last_group(
    owner: Client, runs: dict[str, UUID], sort: str
) -> None:
    page = text_of(owner.get(f"/runs/?group=sweep&sort={sort}"))
    assert re.findall(r'data-group="([^"]*)"', page) == ["lr, wide", ""]


def test_closed_groups_have_the_columns_with_sums_only(
    owner: Client, runs: dict[str, UUID]
) -> None:
    address = "/runs/?group=sweep&show=project&show=started&show=energy&columns=lr"
    heads = []
    for more in ("", "&open=lr%2C%20wide"):
        head = text_of(owner.get(address + more)).partition("<thead>")[2].partition("</thead>")[0]
        heads.append(re.findall(r">\s*(Project|Started|Energy|lr)\s*<", head))
    assert heads == [["Energy"], ["Project", "Started", "Energy", "lr"]]


def test_the_number_of_filters_is_that_of_the_address(owner: Client, runs: dict[str, UUID]) -> None:
    for query, number in (("", 0), ("?project=demo&state=finished&group=sweep&columns=lr", 2)):
        assert f'data-filters="{number}"' in text_of(owner.get(f"/runs/{query}"))


def test_an_open_group_has_its_runs_in_order(owner: Client, runs: dict[str, UUID]) -> None:
    page = text_of(owner.get("/runs/?group=sweep&sort=-energy&open=lr%2C+wide"))
    assert names_on(page) == "cdb"
    assert "open=" not in text_of(owner.get("/runs/?group=sweep")).partition("<tbody>")[0]
    assert assert_each_figure_explains_itself(owner, page) == 4


def test_groups_of_people_respect_the_policy(
    lab: SmallLab, owner: Client, runs: dict[str, UUID]
) -> None:
    other = User.objects.create_user(username="grace")
    Membership.objects.create(lab=lab.lab, user=other, role=Role.MEMBER)
    Run.objects.filter(uuid=runs["c"]).update(charged_person=other, user=other)
    Run.objects.filter(uuid=runs["d"]).update(charged_person=None, user=None)
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.LAB)
    page = text_of(owner.get("/runs/?group=person"))
    assert set(re.findall(r'data-group="([^"]*)"', page)) == {
        str(other.pk), str(lab.owner.pk), "",
    }  # fmt: skip
    assert names_on(text_of(owner.get("/runs/?person=grace"))) == "c"
    assert names_on(text_of(owner.get("/runs/?person=~none"))) == "d"
    assert owner.get("/runs/?person=nobody").status_code == 400
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.OWN)
    client = client_of(other)
    page = text_of(client.get("/runs/?group=person&show=energy"))
    assert set(re.findall(r'data-group="([^"]*)"', page)) == {str(other.pk), "", "~hidden"}
    assert lab.owner.get_username() not in page
    for hidden in (lab.owner.get_username(), "nobody"):
        assert client.get(f"/runs/?person={hidden}").status_code == 403
    own = text_of(client.get("/runs/?sort=-user"))
    assert names_on(own)[0] == "c"  # the names of others do not order the list


@pytest.mark.parametrize(
    "query", ["show=mass", "group=mass", "sort=metric:", "open=%00&group=sweep", "sort=-%00"]
)
def test_an_invalid_view_is_an_error(owner: Client, query: str) -> None:
    assert owner.get(f"/runs/?{query}").status_code == 400


@pytest.mark.parametrize(
    "address",
    ["/runs/?sort=-energy&columns=lr,val_acc&show=model&show=energy", "/runs/?group=project"],
)
def test_queries_do_not_grow(lab: SmallLab, owner: Client, runs: object, address: str) -> None:
    before = queries(owner, address)
    for i in range(30):
        slug = f"p-{i}"
        project = Project.objects.create(lab=lab.lab, slug=slug, name=slug, created_us=T0)
        Run.objects.create(
            lab=lab.lab, uuid=uuid4(), name=slug, started_us=T0, charged_project=project
        )
    assert queries(owner, address) == before


def test_the_five_most_expensive_of_a_sweep_are_two_clicks_away(
    owner: Client, runs: dict[str, UUID]
) -> None:
    """The sweep of a run orders its runs by energy; two checkboxes and a button compare."""
    page = text_of(owner.get(f"/runs/{runs['c']}/"))
    [href] = set(re.findall(r'href="(/runs/\?sweep=[^"]*)"', page))
    listed = text_of(owner.get(href.replace("&amp;", "&")))
    assert names_on(listed) == "cdb"
    boxes = re.findall(r'name="run" value="([^"]+)"', listed)[:2]
    assert boxes == [str(runs["c"]), str(runs["d"])]
    assert owner.get("/runs/compare/", {"run": boxes}).status_code == 200


@pytest.mark.parametrize("sort", ["started", "name", "project", "ended", "duration", "metric:acc"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_of_many_runs_a_page_is_read_without_sums_in_the_same_order(
    runs: dict[str, UUID], owner: Client, monkeypatch: pytest.MonkeyPatch, sort: str, sign: str
) -> None:
    for name, value in (("a", 0.5), ("c", 0.7)):
        run = Run.objects.get(uuid=runs[name])
        Metric.objects.create(run=run, name="acc", last_value=value, count=1)
    Run.objects.filter(uuid=runs["d"]).update(ended_us=None, state="running")
    address = f"/runs/?sort={sign}{sort}"
    few = text_of(owner.get(address))
    monkeypatch.setattr("apps.dashboard.runs.runs_page.MOST_SUMMED", 3)
    many = text_of(owner.get(address))
    assert names_on(many) == names_on(few)
    assert 'data-total="4"' in many
    assert "data-sum=" not in many
    assert figures_on(many) == figures_on(few[: few.index("<tfoot>")])
    href = unescape(re.findall(r'href="([^"]+)" data-show-sums', many)[0])
    summed = text_of(owner.get(f"/runs/{href}"))
    assert names_on(summed) == names_on(few)
    assert "data-sum=" in summed
    assert "data-show-sums" not in summed


def test_sums_of_many_runs_are_read_without_rows_and_costs(
    runs: dict[str, UUID], owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = text_of(owner.get("/runs/?sort=-energy"))
    monkeypatch.setattr("apps.dashboard.runs.runs_page.MOST_SUMMED", 3)
    many = text_of(owner.get("/runs/?sort=-energy"))
    assert names_on(many) == names_on(few)
    assert "data-sum=" not in many
    assert figures_on(many) == figures_on(few[: few.index("<tfoot>")])
    href = unescape(re.findall(r'<tr data-total="4" hx-get="([^"]+)"', many)[0])
    with CaptureQueriesContext(connection) as captured:
        summed = text_of(owner.get(f"/runs/{href}"))
    [sql] = [query["sql"] for query in captured if "carbon_runtotal" in query["sql"]]
    assert "carbon_runcost" not in sql
    assert "energy_key" not in sql
    assert names_on(summed) == ""
    assert sums_on(summed) == [21_000]
    numbers = re.findall(r'exactly[^"]*">([^<]+)<', summed.partition("<tfoot>")[2])
    whole = text_of(owner.get("/runs/?sort=-energy&sums=1")).partition("<tfoot>")[2]
    assert len(numbers) == 2  # in the units of the page
    assert all(f">{number}<" in whole for number in numbers)
    assert owner.get("/runs/?sums=1&largest=1").status_code == 400


def suggestions(page: str) -> list[str]:
    part = page.partition('<datalist id="column-suggestions">')[2].partition("</datalist>")[0]
    return re.findall(r'<option value="([^"]*)">', part)


def test_metrics_of_the_listed_runs_are_suggested_as_columns(
    lab: SmallLab, owner: Client, outsider: Client, runs: dict[str, UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for run, names in (("a", ("acc", "loss")), ("b", ("acc", '"><b>', "x,y")), ("c", ("rare",))):
        for name in names:
            Metric.objects.create(run=Run.objects.get(uuid=runs[run]), name=name, last_value=1)
    assert suggestions(text_of(owner.get("/runs/"))) == [
        "&quot;&gt;&lt;b&gt;", "acc", "loss", "rare",
    ]  # fmt: skip
    assert suggestions(text_of(owner.get("/runs/?text=a&columns=lr,loss"))) == ["lr, loss, acc"]
    assert suggestions(text_of(owner.get("/runs/?group=project"))) == []
    assert suggestions(text_of(owner.get("/runs/?columns=1,2,3,4,5,6,7,8"))) == []
    assert suggestions(text_of(outsider.get("/runs/"))) == []
    monkeypatch.setattr("apps.dashboard.runs.runs_page.MOST_SUGGESTIONS", 2)
    assert len(suggestions(text_of(owner.get("/runs/")))) == 2
