"""/nodes/<uuid>/move/ : a look at what a move changes, the move, its undoing; and enrolment at a
site.
"""

import re
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import OneTimeCode
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, Placement, Site
from apps.fleet.selectors import stays_of
from apps.fleet.services import (
    create_site,
    delete_site,
    enrol_node,
    move_node,
    register_node,
    set_static_power,
)
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.support import (
    HOSTILE,
    HOUR,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    queries,
    text_of,
)

FIELD_ERROR = 'data-field-error="{}"'
NOON = {"action": "move", "when": "from", "from_day": "2026-11-02", "from_time": "12:00"}
NOON_HOUR = HOUR + 3


@pytest.fixture
def paris(lab: SmallLab) -> Site:
    return create_site(
        lab=lab.lab, name="Paris", kind=SiteKind.MACHINE_ROOM, zone="FR", pue_ppm=1_250_000
    )


def _address(lab: SmallLab) -> str:
    return f"/nodes/{lab.node.uuid}/move/"


def _use(lab: SmallLab) -> None:
    later = T0 + 4 * US_PER_HOUR
    push(
        lab.node,
        [W(gpu(), 3_000_001), W(gpu(), 5_000_003, start_us=later, end_us=later + MINUTE, seq=1)],
    )


def _stays(lab: SmallLab) -> list[tuple[int, str]]:
    return [(stay.from_hour, stay.placement.site.name) for stay in stays_of(lab.node)]


def _told(page: str) -> int:
    found = re.search(
        r"would change from .*?class=\"would\" data-would title=\"([\d\u202f]+)", page, re.DOTALL
    )
    assert found
    return int(found[1].replace("\u202f", ""))


def test_a_look_a_move_and_its_undoing(lab: SmallLab, owner: Client, paris: Site) -> None:
    _use(lab)
    since_noon = FigureQuery(metric="emission_ug", from_hour=NOON_HOUR, to_hour=HOUR + 100)
    before = figure(lab.lab, since_noon).emission_ug
    form = {**NOON, "site": str(paris.pk)}
    page = text_of(owner.get(_address(lab), form))
    words = re.sub(r"<[^>]+>", "", page)
    assert "France 2025, 41.4 g/kWh, PUE 1.250 instead of Germany 2025" in words
    assert [value for _, value in figures_on(page)] == [before]
    assert_each_figure_explains_itself(owner, page)
    assert _stays(lab) == [(0, "Room 1")]
    response = owner.post(_address(lab), form)
    assert response["Location"] == f"/nodes/{lab.node.uuid}/#place"
    run_until_idle(worker="test")
    moved = figure(lab.lab, since_noon).emission_ug
    assert _told(page) == moved != before
    shown = text_of(owner.get(f"/nodes/{lab.node.uuid}/"))
    assert f'data-site="{paris.pk}"' in shown
    assert "2 Nov 2026 12:00" in shown
    [link] = re.findall(r'href="(/nodes/[^"]*action=undo[^"]*)"', shown)
    page = text_of(owner.get(link.replace("&amp;", "&")))
    assert _told(page) == before
    latest = Placement.objects.get(ACTIVE, node=lab.node, site=paris)
    undo = {"action": "undo", "placement": str(latest.pk)}
    assert owner.post(_address(lab), undo).status_code == 302
    run_until_idle(worker="test")
    assert figure(lab.lab, since_noon).emission_ug == before
    assert owner.post(_address(lab), undo).status_code == 409


def test_always_there_is_a_correction(lab: SmallLab, owner: Client, paris: Site) -> None:
    _use(lab)
    form = {"action": "move", "when": "always", "site": str(paris.pk)}
    page = text_of(owner.get(_address(lab), form))
    assert "from <time" in page, "since its first energy, not since 1970"
    assert "1970" not in re.sub(r"<[^>]+>", "", page)
    assert owner.post(_address(lab), form).status_code == 302
    run_until_idle(worker="test")
    assert _stays(lab) == [(0, "Paris")]
    assert (
        _told(page)
        == figure(
            lab.lab, FigureQuery(metric="emission_ug", from_hour=0, to_hour=HOUR + 9)
        ).emission_ug
    )


def test_the_rest_of_a_node_is_in_the_preview(lab: SmallLab, owner: Client, paris: Site) -> None:
    set_static_power(node=lab.node, static_power_mw=100_000)
    _use(lab)
    form = {**NOON, "site": str(paris.pk)}
    page = text_of(owner.get(_address(lab), form))
    owner.post(_address(lab), form)
    run_until_idle(worker="test")
    assert (
        _told(page)
        == figure(
            lab.lab, FigureQuery(metric="emission_ug", from_hour=NOON_HOUR, to_hour=HOUR + 9)
        ).emission_ug
    )


def test_a_place_without_zone_is_told_and_not_zero(lab: SmallLab, owner: Client) -> None:
    _use(lab)
    nowhere = create_site(lab=lab.lab, name="Nowhere", kind=SiteKind.WORKSTATION, zone="")
    page = text_of(owner.get(_address(lab), {**NOON, "site": str(nowhere.pk)}))
    assert "no factor, PUE 1.000" in page
    assert "no factor: choose a zone" in page


def test_a_move_to_come_and_a_move_to_the_same_grid_change_no_figure_of_today(
    lab: SmallLab, owner: Client, paris: Site
) -> None:
    _use(lab)
    later = {"action": "move", "when": "from", "from_day": "2120-01-01", "site": str(paris.pk)}
    page = text_of(owner.get(_address(lab), later))
    assert 'data-change="none"' in page
    assert owner.post(_address(lab), later).status_code == 302
    shown = text_of(owner.get(f"/nodes/{lab.node.uuid}/"))
    assert f"Planned: {lab.node.hostname} moves to Paris on 1 Jan 2120." in shown
    assert f"{lab.node.hostname} moved to" not in shown
    assert 'data-stay="future"' in shown
    assert f'data-site="{lab.site.pk}"' in shown
    same = create_site(lab=lab.lab, name="Room 2", kind=SiteKind.WORKSTATION, zone="DE")
    assert 'data-change="none"' in text_of(owner.get(_address(lab), {**NOON, "site": str(same.pk)}))


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({**NOON, "site": ""}, 400, FIELD_ERROR.format("site")),
        ({**NOON, "site": "x"}, 400, FIELD_ERROR.format("site")),
        ({**NOON, "site": "9" * 30}, 400, FIELD_ERROR.format("site")),
        ({"action": "move", "when": "from", "from_day": ""}, 400, FIELD_ERROR.format("from_day")),
        ({"action": "move"}, 400, FIELD_ERROR.format("when")),
        ({**NOON, "from_day": "0001-01-01"}, 400, FIELD_ERROR.format("from_day")),
        ({"action": "undo", "placement": "7"}, 409, "no longer exists"),
        ({"action": "undo"}, 409, "no longer exists"),
        ({}, 400, "Unknown action"),
    ],
)
def test_bad_input_is_told(
    lab: SmallLab, owner: Client, paris: Site, form: dict[str, str], status: int, words: str
) -> None:
    filled = {"site": str(paris.pk), **form} if form else form
    response = owner.post(_address(lab), filled)
    assert response.status_code == status
    assert words in text_of(response)
    if form:
        assert owner.get(_address(lab), filled).status_code == status
    assert _stays(lab) == [(0, "Room 1")]


def test_a_site_of_another_lab_is_no_choice(lab: SmallLab, owner: Client) -> None:
    theirs = small_lab(name="Theirs")
    assert owner.post(_address(lab), {**NOON, "site": str(theirs.site.pk)}).status_code == 400
    assert owner.post("/nodes/enrol/", {"site": str(theirs.site.pk)}).status_code == 200, (
        "one site: no choice is asked"
    )
    create_site(lab=lab.lab, name="Room 2", kind=SiteKind.WORKSTATION, zone="DE")
    assert owner.post("/nodes/enrol/", {"site": str(theirs.site.pk)}).status_code == 400


def test_anonymous_wrong_method_outsider_and_viewer(
    lab: SmallLab, owner: Client, outsider: Client, viewer: Client, paris: Site
) -> None:
    form = {**NOON, "site": str(paris.pk)}
    assert_needs_sign_in(_address(lab))
    assert_only(owner, _address(lab), "GET", "POST")
    assert outsider.get(_address(lab)).status_code == 404
    assert outsider.post(_address(lab), form).status_code == 404
    page = text_of(viewer.get(_address(lab)))
    assert "data-read-only" in page
    assert f'<form method="get" action="{_address(lab)}' in text_of(owner.get(_address(lab)))
    assert f'<form method="get" action="{_address(lab)}' not in page
    assert viewer.get(_address(lab), form).status_code == 403
    assert viewer.post(_address(lab), form).status_code == 403
    assert 'class="stacked"' not in text_of(viewer.get(f"/nodes/{lab.node.uuid}/"))
    assert _stays(lab) == [(0, "Room 1")]


def test_declared_use_has_no_form(lab: SmallLab, owner: Client) -> None:
    site = create_site(lab=lab.lab, name="Elsewhere", kind=SiteKind.DECLARED, zone="FR")
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname="cloud", facts={}, site=site, now=T0)
    page = text_of(owner.get(f"/nodes/{node.uuid}/move/"))
    assert "data-declared" in page
    assert f"/sites/{site.pk}/" not in page


def test_queries_do_not_grow_with_moves(lab: SmallLab, owner: Client, paris: Site) -> None:
    _use(lab)
    form = f"?action=move&when=always&site={paris.pk}"
    move_node(node=lab.node, site=paris, from_us=T0 + US_PER_HOUR, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    one = [queries(owner, f"{_address(lab)}{asked}") for asked in ("", form)]
    for i in range(2, 20):
        site = lab.site if i % 2 else paris
        move_node(node=lab.node, site=site, from_us=T0 + i * US_PER_HOUR, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert [queries(owner, f"{_address(lab)}{asked}") for asked in ("", form)] == one


def test_hostile_names_are_text(lab: SmallLab, owner: Client, paris: Site) -> None:
    Site.objects.filter(pk=paris.pk).update(name=HOSTILE)
    page = text_of(owner.get(_address(lab), {**NOON, "site": str(paris.pk), HOSTILE: HOSTILE}))
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_a_machine_is_enrolled_at_the_site_of_its_code(
    lab: SmallLab, owner: Client, paris: Site
) -> None:
    assert '<select name="site"' in text_of(owner.get("/nodes/enrol/"))
    page = text_of(owner.post("/nodes/enrol/", {"site": str(paris.pk)}))
    assert f'data-site="{paris.pk}"' in page
    found = re.search(r'id="code">([A-Z0-9-]+)<', page)
    assert found
    uuid = uuid4()
    node, _ = enrol_node(code=found[1], uuid=uuid, hostname="gpu-7", facts={}, now=now_us())
    assert [stay.placement.site for stay in stays_of(node)] == [paris]
    response = owner.post("/nodes/enrol/")
    assert response.status_code == 400
    assert FIELD_ERROR.format("site") in text_of(response)


def test_a_code_for_a_place_that_is_gone_enrols_nowhere(
    lab: SmallLab, owner: Client, paris: Site
) -> None:
    owner.post("/nodes/enrol/", {"site": str(paris.pk)})
    delete_site(site=paris, by=lab.owner, now=T0)
    assert OneTimeCode.objects.count() == 0
