"""/projects/ and /projects/<slug>/ ."""

import re

import pytest
from django.test import Client

from apps.accounts.models import Project
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    many_projects,
    queries,
    text_of,
    use,
)

LIST, DEMO = f"/projects/?{PERIOD}", f"/projects/demo/?{PERIOD}"


def _amounts(page: str, metric: str) -> tuple[list[int], int]:
    body, foot = (
        page[page.rindex("<tbody>") : page.rindex("<tfoot>")],
        page[page.rindex("<tfoot>") :],
    )
    rows = [figures_on(row) for row in body.split("<tr>")[1:]]
    found = [next(value for query, value in row if metric in query) for row in rows if row]
    return found, next(value for query, value in figures_on(foot) if metric in query)


def test_list_works_and_adds_up(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 7)
    use(lab, project=None, first=20)
    Project.objects.create(lab=lab.lab, slug="quiet", name="Quiet", created_us=T0)
    page = text_of(owner.get(LIST))
    for metric in ("energy_mj", "emission_ug"):
        rows, headline = _amounts(page, metric)
        assert sum(rows) == headline
    assert 'data-measured="no"' in page
    assert assert_each_figure_explains_itself(owner, page) > 20


def test_project_works_and_adds_up(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=4)
    page = text_of(owner.get(DEMO))
    assert "Demo used" in page
    assert "ada" in page
    for metric in ("energy_mj", "emission_ug"):
        rows, headline = _amounts(page, metric)
        assert sum(rows) == headline
        assert len(rows) == 4
    assert_each_figure_explains_itself(owner, page)


def test_more_than_fifty_runs_are_told(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=52)
    assert 'data-more-rows="2"' in text_of(owner.get(DEMO))


def test_data_table_and_csv(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=2)
    page = text_of(owner.get(f"/projects/demo/table/?{PERIOD}"))
    assert_each_figure_explains_itself(owner, page)
    response = owner.get(f"/projects/demo/energy.csv?{PERIOD}")
    assert (
        sum(int(line.split(",")[2]) for line in text_of(response).splitlines()[1:]) == 2 * 6_000_001
    )


def test_anonymous_and_wrong_method(lab: SmallLab, owner: Client) -> None:
    for address in (
        "/projects/",
        "/projects/demo/",
        "/projects/demo/table/",
        "/projects/demo/energy.csv",
    ):
        assert_needs_sign_in(address)
    assert_only(owner, "/projects/", "GET", "POST")
    assert_only(owner, "/projects/demo/", "GET")


def test_an_outsider_gets_404(lab: SmallLab, outsider: Client) -> None:
    Project.objects.create(lab=lab.lab, slug="secret", name="Secret", created_us=T0)
    assert outsider.get("/projects/secret/").status_code == 404
    assert outsider.get("/projects/secret/energy.csv").status_code == 404
    assert "Secret" not in text_of(outsider.get("/projects/"))


def test_empty_project_says_the_command(lab: SmallLab, owner: Client) -> None:
    assert "labcarbon-collect run --project demo -- python3 -c" in text_of(owner.get(DEMO))


def test_create(lab: SmallLab, owner: Client) -> None:
    response = owner.post("/projects/", {"name": "Cell Atlas", "slug": ""})
    assert response["Location"] == "/projects/cell-atlas/"
    assert "--project cell-atlas" in text_of(owner.get("/projects/cell-atlas/"))


@pytest.mark.parametrize(
    ("name", "slug", "status", "fields"),
    [
        ("", "", 400, {"name"}),
        ("x" * 201, "", 400, {"name"}),
        ("A", "Not A Slug", 400, {"slug"}),
        ("+++", "", 400, {"slug"}),
        ("A", "a" * 61, 400, {"slug"}),
        ("", "a" * 61, 400, {"name", "slug"}),
        ("", "<b>", 400, {"name", "slug"}),
        ("Demo again", "demo", 409, {"slug"}),
    ],
)
def test_create_with_bad_input(
    lab: SmallLab, owner: Client, name: str, slug: str, status: int, fields: set[str]
) -> None:
    response = owner.post("/projects/", {"name": name, "slug": slug})
    assert response.status_code == status
    page = text_of(response)
    assert set(re.findall(r'data-field-error="(\w+)"', page)) == fields
    assert f'value="{name}"' in page or not name
    assert lab.lab.projects.count() == 1


def test_a_viewer_may_not_create(lab: SmallLab, viewer: Client) -> None:
    assert 'id="new-title"' not in text_of(viewer.get("/projects/"))
    response = viewer.post("/projects/", {"name": "Mine"})
    assert response.status_code == 403
    assert "read-only" in text_of(response)


def test_create_needs_a_csrf_token(lab: SmallLab) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    response = client.post("/projects/", {"name": "Forged"})
    assert response.status_code == 403
    assert 'data-error="csrf"' in text_of(response)
    assert lab.lab.projects.count() == 1


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 1)
    one = queries(owner, LIST)
    many_projects(lab, 49, first=2)
    assert queries(owner, LIST) == one
    use(lab, first=60)
    single = queries(owner, DEMO)
    use(lab, runs=49, first=61)
    assert queries(owner, DEMO) == single


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    lab.lab.projects.filter(slug="demo").update(name=HOSTILE)
    use(lab, name=HOSTILE)
    for address in (LIST, DEMO):
        page = text_of(owner.get(address))
        assert "<script>alert" not in page
        assert "<img src=x" not in page
