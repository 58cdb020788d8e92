"""/sites/ and /sites/<id>/ : zone, PUE and price as dated histories; a change and a correction
are told apart.
"""

import re
from datetime import date
from uuid import uuid4

import pytest
from django.test import Client

from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, Site, SitePrice, SitePue, SiteZone
from apps.fleet.selectors import zone_at
from apps.fleet.services import create_site, move_node, register_node, set_price, set_pue
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
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
    use,
)

FIELD_ERROR = 'data-field-error="{}"'
ALWAYS = {"action": "zone", "when": "always"}
# Noon of Berlin is 11 UTC.
NOON = {"when": "from", "from_day": "2026-11-02", "from_time": "12:00"}
NOON_HOUR = HOUR + 3


def facts(lab: SmallLab) -> list[tuple[int, str]]:
    found = SiteZone.objects.filter(ACTIVE, site=lab.site).order_by("from_hour")
    return list(found.values_list("from_hour", "zone"))


@pytest.mark.parametrize("typed", ["FR", "fr", "France", " france ", "France (FR)"])
def test_choosing_the_first_zone_prices_the_past(db: None, typed: str) -> None:
    lab = small_lab(zone="")
    use(lab)
    client = client_of(lab.owner)
    assert 'data-zone=""' in text_of(client.get(f"/sites/{lab.site.pk}/"))
    response = client.post(f"/sites/{lab.site.pk}/", {**ALWAYS, "zone": typed})
    assert response["Location"] == f"/sites/{lab.site.pk}/"
    run_until_idle(worker="test")
    assert 'data-zone="France (FR)"' in text_of(client.get(f"/sites/{lab.site.pk}/"))
    found = figure(lab.lab, FigureQuery(metric="emission_ug", from_hour=HOUR, to_hour=HOUR + 1))
    assert found.emission_ug > 0
    assert found.without_factor_mj == 0


@pytest.mark.parametrize(
    ("typed", "words"),
    [("Germny", "Did you mean Germany (DE)"), ("", 'data-field-error="zone"'), ("????", "Germany")],
)
def test_an_unknown_zone_is_told_its_neighbours(
    lab: SmallLab, owner: Client, typed: str, words: str
) -> None:
    response = owner.post(f"/sites/{lab.site.pk}/", {**ALWAYS, "zone": typed})
    assert response.status_code == 400
    assert words in text_of(response)
    assert facts(lab) == [(0, "DE")]


def test_a_cloud_region_is_recorded_as_its_grid_zone(lab: SmallLab, owner: Client) -> None:
    address = f"/sites/{lab.site.pk}/"
    assert owner.post(address, {**ALWAYS, "zone": "sa-east-1"}).status_code == 302
    assert [zone for _, zone in facts(lab)][-1] == "BR-CS"
    page = text_of(owner.get(address))
    assert "Southeast and Central-West (BR-CS)" in page
    assert "Brazil 20" in page  # its factor is that of the country


def test_the_overview_names_a_zone_of_an_earlier_version(lab: SmallLab, owner: Client) -> None:
    assert 'data-alert="unlisted-zone"' not in text_of(owner.get("/"))
    SiteZone.objects.filter(site=lab.site).update(zone="SA-EAST-1")
    page = text_of(owner.get("/"))
    assert 'data-alert="unlisted-zone"' in page
    assert "BR-CS" in page


def _used_before_and_after_noon(lab: SmallLab) -> None:
    later = T0 + 4 * US_PER_HOUR
    push(
        lab.node,
        [W(gpu(), 3_000_001), W(gpu(), 5_000_003, start_us=later, end_us=later + MINUTE, seq=1)],
    )


def test_a_change_of_zone_shows_what_it_changes_before_it_is_recorded(
    lab: SmallLab, owner: Client
) -> None:
    _used_before_and_after_noon(lab)
    address = f"/sites/{lab.site.pk}/"
    asked = {"action": "zone", "zone": "France", **NOON}
    page = text_of(owner.get(address, asked))
    assert facts(lab) == [(0, "DE")], "looking records nothing"
    words = re.sub(r"<[^>]+>", "", page)
    assert "would use France 2025, 41.4 g/kWh, PUE 1.000 instead of Germany 2025" in words
    assert "2 Nov 2026 12:00" in words
    [before] = [value for query, value in figures_on(page) if "subject=node" in query]
    told = re.search(
        r"would change from .*?class=\"would\" data-would title=\"([\d\u202f]+)", page, re.DOTALL
    )
    assert told
    form = page[page.index('id="effect"') :].split("</form>")[0]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
    assert {name: hidden[name] for name in asked} == asked
    assert_each_figure_explains_itself(owner, page)
    assert owner.post(address, asked).status_code == 302
    run_until_idle(worker="test")
    assert facts(lab) == [(0, "DE"), (NOON_HOUR, "FR")]
    query = FigureQuery(metric="emission_ug", from_hour=NOON_HOUR, to_hour=HOUR + 100)
    after = figure(lab.lab, query).emission_ug
    assert int(told[1].replace("\u202f", "")) == after != before, "it came out as it was told"


def test_a_correction_replaces_the_history_and_says_so(lab: SmallLab, owner: Client) -> None:
    _used_before_and_after_noon(lab)
    address = f"/sites/{lab.site.pk}/"
    owner.post(address, {"action": "zone", "zone": "FR", **NOON})
    page = text_of(owner.get(address, {**ALWAYS, "zone": "NO"}))
    assert page.count("data-price-change") == 2, "of Germany's hours and of France's"
    owner.post(address, {**ALWAYS, "zone": "NO"})
    assert facts(lab) == [(0, "NO")]
    assert zone_at(lab.site, 0) == "NO"
    assert SiteZone.objects.filter(site=lab.site).count() == 3, (
        "what stood before is kept as withdrawn"
    )


def test_since_when_is_never_guessed(lab: SmallLab, owner: Client) -> None:
    for when in ({}, {"when": "sometimes"}):
        response = owner.post(
            f"/sites/{lab.site.pk}/",
            {"action": "zone", "zone": "FR", "from_day": "2026-11-02", **when},
        )
        assert response.status_code == 400
        assert 'data-field-error="when"' in text_of(response)
    assert facts(lab) == [(0, "DE")]


def test_a_pue_holds_from_its_day_on(lab: SmallLab, owner: Client) -> None:
    form = {
        "action": "pue",
        "pue": "1,4",
        "when": "from",
        "from_day": "2026-11-02",
        "note": "measured",
    }
    assert owner.post(f"/sites/{lab.site.pk}/", form).status_code == 302
    row = lab.site.pues.order_by("-from_hour").first()
    assert row is not None
    assert (row.pue_ppm, row.note, row.recorded_by) == (1_400_000, "measured", lab.owner)
    # Midnight of Berlin is 23 UTC of the day before.
    assert (
        row.from_hour * 3600
        == int((date(2026, 11, 1) - date(1970, 1, 1)).total_seconds()) + 23 * 3600
    )
    page = text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert "1.400" in page
    assert lab.owner.username in page
    assert owner.post(f"/sites/{lab.site.pk}/", form).status_code == 409


def test_the_latest_pue_is_withdrawn_after_a_look(lab: SmallLab, owner: Client) -> None:
    _used_before_and_after_noon(lab)
    fact = set_pue(
        site=lab.site, pue_ppm=1_400_000, from_us=NOON_HOUR * US_PER_HOUR, by=lab.owner, now=T0
    )
    run_until_idle(worker="test")
    address = f"/sites/{lab.site.pk}/"
    page = text_of(owner.get(address))
    [link] = re.findall(r'href="(\?action=withdraw[^"#]*)', page)
    page = text_of(owner.get(address + link.replace("&amp;", "&")))
    assert "PUE 1.000</b> instead of Germany 2025" in page
    assert SitePue.objects.filter(ACTIVE, pk=fact.pk).exists()
    form = {"action": "withdraw", "kind": "pue", "fact": str(fact.pk)}
    assert owner.post(address, form).status_code == 302
    assert not SitePue.objects.filter(ACTIVE, pk=fact.pk).exists()
    assert owner.post(address, form).status_code == 409


def test_a_price_is_a_history_of_its_own(lab: SmallLab, owner: Client) -> None:
    address = f"/sites/{lab.site.pk}/"
    assert 'data-price="none"' in text_of(owner.get(address))
    form = {"action": "price", "price": "0,314", "currency": "eur", "from_day": "2026-11-02"}
    assert owner.post(address, form).status_code == 302
    price = SitePrice.objects.get()
    assert (price.ucurrency_per_kwh, price.currency) == (314_000, "EUR")
    assert "0.314 EUR per kWh" in text_of(owner.get(address))
    assert "0.314 EUR per kWh" in text_of(owner.get("/sites/"))
    page = text_of(
        owner.get(address, {"action": "withdraw", "kind": "price", "fact": str(price.pk)})
    )
    assert 'data-change="none"' in page


def test_a_price_to_come_is_not_the_price_of_today(lab: SmallLab, owner: Client) -> None:
    set_price(
        site=lab.site, ucurrency_per_kwh=1, currency="EUR", from_us=2**51, by=lab.owner, now=T0
    )
    assert 'data-price="none"' in text_of(owner.get("/sites/"))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "pue", "pue": "0.9", **NOON}, FIELD_ERROR.format("pue")),
        ({"action": "pue", "pue": "NaN", **NOON}, FIELD_ERROR.format("pue")),
        ({"action": "pue", "pue": "", **NOON}, FIELD_ERROR.format("pue")),
        (
            {"action": "pue", "pue": "1.2", "when": "from", "from_day": ""},
            FIELD_ERROR.format("from_day"),
        ),
        (
            {"action": "pue", "pue": "1.2", "when": "from", "from_day": "2026-13-40"},
            FIELD_ERROR.format("from_day"),
        ),
        (
            {
                "action": "pue",
                "pue": "1.2",
                "when": "from",
                "from_day": "2026-11-02",
                "from_time": "25:00",
            },
            FIELD_ERROR.format("from_time"),
        ),
        (
            {"action": "pue", "pue": "1.2", "when": "from", "from_day": "1960-01-01"},
            FIELD_ERROR.format("from_day"),
        ),
        (
            {"action": "price", "price": "-1", "currency": "EUR", **NOON},
            FIELD_ERROR.format("price"),
        ),
        (
            {"action": "price", "price": "1", "currency": "XXX", **NOON},
            FIELD_ERROR.format("currency"),
        ),
        (
            {"action": "price", "price": "", "currency": "-1", "from_day": ""},
            FIELD_ERROR.format("currency"),
        ),
        ({"action": "withdraw", "kind": "pue", "fact": "x"}, "No such entry"),
        ({"action": "withdraw", "kind": "lab", "fact": "1"}, "No such entry"),
        ({"action": "rename", "name": " "}, FIELD_ERROR.format("name")),
        ({"action": "explode"}, "Unknown action"),
        ({}, "Unknown action"),
    ],
)
def test_bad_input_is_told(lab: SmallLab, owner: Client, form: dict[str, str], words: str) -> None:
    response = owner.post(f"/sites/{lab.site.pk}/", form)
    assert response.status_code == 400
    assert words in text_of(response)
    assert lab.site.pues.count() == 1
    if form.get("action") != "price":
        assert owner.get(f"/sites/{lab.site.pk}/", {"action": "", **form}).status_code == 400


def test_make_rename_and_delete(lab: SmallLab, owner: Client) -> None:
    assert (
        owner.post(
            "/sites/", {"name": "Annex", "kind": "machine_room", "zone": "France"}
        ).status_code
        == 302
    )
    made = Site.objects.get(name="Annex")
    assert (zone_at(made, 0), made.pues.get().pue_ppm) == ("FR", 1_560_000)
    address = f"/sites/{made.pk}/"
    assert owner.post(address, {"action": "rename", "name": "Cellar"}).status_code == 302
    response = owner.post(address, {"action": "rename", "name": "Room 1"})
    assert response.status_code == 409
    assert "<h1>Cellar" in text_of(response)
    assert 'data-deletable="yes"' in text_of(owner.get(address))
    assert owner.post(f"/sites/{lab.site.pk}/", {"action": "delete"}).status_code == 409
    assert 'data-deletable="no"' in text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert owner.post(address, {"action": "delete"})["Location"] == "/sites/"
    assert owner.get(address).status_code == 404


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"name": "", "kind": "workstation"}, 400, FIELD_ERROR.format("name")),
        ({"name": "Room 1", "kind": "workstation"}, 409, "already"),
        ({"name": "X", "kind": "declared"}, 400, FIELD_ERROR.format("kind")),
        ({"name": "X", "kind": "workstation", "zone": "Germny"}, 400, "Did you mean"),
    ],
)
def test_a_site_that_cannot_be_made(
    lab: SmallLab, owner: Client, form: dict[str, str], status: int, words: str
) -> None:
    response = owner.post("/sites/", form)
    assert response.status_code == status
    assert words in text_of(response)
    assert Site.objects.filter(lab=lab.lab).count() == 1


def test_nodes_now_before_and_to_come(lab: SmallLab, owner: Client) -> None:
    paris = create_site(lab=lab.lab, name="Paris", kind=SiteKind.MACHINE_ROOM, zone="FR")
    move_node(node=lab.node, site=paris, from_us=T0, by=lab.owner, now=T0)
    page = text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert 'data-nodes="past"' in page
    assert 'data-current-nodes="0"' in page
    assert 'data-nodes="now"' in text_of(owner.get(f"/sites/{paris.pk}/"))
    move_node(node=lab.node, site=lab.site, from_us=2**51, by=lab.owner, now=T0)
    assert 'data-nodes="future"' in text_of(owner.get(f"/sites/{lab.site.pk}/"))


def test_anonymous_wrong_method_outsider_and_viewer(
    lab: SmallLab, owner: Client, outsider: Client, viewer: Client
) -> None:
    address = f"/sites/{lab.site.pk}/"
    form = {**ALWAYS, "zone": "FR"}
    for page in ("/sites/", address):
        assert_needs_sign_in(page)
        assert_only(owner, page, "GET", "POST")
        assert viewer.get(page).status_code == 200
    assert outsider.get(address).status_code == 404
    assert outsider.post(address, form).status_code == 404
    assert "Room 1" not in text_of(outsider.get("/sites/"))
    assert viewer.post(address, form).status_code == 403
    assert viewer.get(address, form).status_code == 403
    assert viewer.post("/sites/", {"name": "X", "kind": "workstation"}).status_code == 403
    assert 'action="#effect"' in text_of(owner.get(address))
    for told in ('action="#effect"', "?action=", 'name="action"'):
        assert told not in text_of(viewer.get(address))
    assert owner.get("/sites/99999999999999999999999/").status_code == 404
    assert facts(lab) == [(0, "DE")]


def test_another_labs_entry_is_not_withdrawn(lab: SmallLab, owner: Client) -> None:
    theirs = small_lab(name="Theirs")
    fact = set_pue(site=theirs.site, pue_ppm=1_400_000, from_us=T0, by=theirs.owner, now=T0)
    form = {"action": "withdraw", "kind": "pue", "fact": str(fact.pk)}
    assert owner.post(f"/sites/{lab.site.pk}/", form).status_code == 409
    assert SitePue.objects.filter(ACTIVE, pk=fact.pk).exists()


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    _used_before_and_after_noon(lab)
    address = f"/sites/{lab.site.pk}/"
    preview = f"{address}?action=pue&pue=1.5&when=always"
    first = [queries(owner, page) for page in ("/sites/", address, preview)]
    for i in range(20):
        node = register_node(
            lab=lab.lab, uuid=uuid4(), hostname=f"gpu-{i}", facts={}, site=lab.site, now=T0
        )
        push(node, [W(gpu(i + 10), 50_000)], settle=False)
        set_pue(
            site=lab.site, pue_ppm=1_200_000, from_us=T0 + i * US_PER_HOUR, by=lab.owner, now=T0
        )
        create_site(lab=lab.lab, name=f"Room {i + 2}", kind=SiteKind.WORKSTATION, zone="FR")
    run_until_idle(worker="test")
    assert [queries(owner, page) for page in ("/sites/", address, preview)] == first


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    Site.objects.filter(pk=lab.site.pk).update(name=HOSTILE)
    set_pue(site=lab.site, pue_ppm=1_200_000, from_us=T0, note=HOSTILE, by=lab.owner, now=T0)
    hostile = {"action": "zone", "zone": HOSTILE, "from_day": HOSTILE, HOSTILE: HOSTILE}
    for page in (
        text_of(owner.get("/sites/")),
        text_of(owner.get(f"/sites/{lab.site.pk}/")),
        text_of(owner.get(f"/sites/{lab.site.pk}/", hostile)),
        text_of(owner.get(f"/sites/{lab.site.pk}/", {**ALWAYS, "zone": "FR", HOSTILE: HOSTILE})),
    ):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
