"""/sites/<id>/ : choosing the zone and recording a PUE."""

from datetime import date

import pytest
from django.test import Client

from apps.carbon.calc import FigureQuery
from apps.carbon.selectors import figure
from apps.core.jobs import work_until_empty
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOUR, assert_needs_sign_in, assert_only, text_of, use


@pytest.mark.parametrize("typed", ["FR", "fr", "France", " france ", "France (FR)"])
def test_choosing_a_zone_prices_the_past(db: None, typed: str) -> None:
    lab = small_lab(zone="")
    use(lab)
    client = client_of(lab.owner)
    assert "no grid zone is chosen" in text_of(client.get(f"/sites/{lab.site.pk}/"))
    response = client.post(f"/sites/{lab.site.pk}/", {"zone": typed})
    assert response["Location"] == f"/sites/{lab.site.pk}/"
    work_until_empty(worker="test")
    assert "draws from the grid of France (FR)" in text_of(client.get(f"/sites/{lab.site.pk}/"))
    found = figure(lab.lab, FigureQuery(metric="emission_ug", from_hour=HOUR, to_hour=HOUR + 1))
    assert found.emission_ug > 0
    assert found.without_factor_mj == 0


@pytest.mark.parametrize(
    ("typed", "words"), [("Germny", "Did you mean Germany (DE)"), ("", "No zone was chosen"), ("????", "Germany")]
)
def test_an_unknown_zone_is_told_its_neighbours(lab: SmallLab, owner: Client, typed: str, words: str) -> None:
    response = owner.post(f"/sites/{lab.site.pk}/", {"zone": typed})
    assert response.status_code == 400
    assert words in text_of(response)
    lab.site.refresh_from_db()
    assert lab.site.zone == "DE"


def test_a_pue_holds_from_its_day_on(lab: SmallLab, owner: Client) -> None:
    response = owner.post(f"/sites/{lab.site.pk}/", {"pue": "1,4", "from_day": "2026-11-02", "note": "measured"})
    assert response.status_code == 302
    row = lab.site.pues.order_by("-from_hour").first()
    assert row is not None
    assert (row.pue_ppm, row.note) == (1_400_000, "measured")
    # Midnight of Berlin is 23 UTC of the day before.
    assert row.from_hour * 3600 == int((date(2026, 11, 1) - date(1970, 1, 1)).total_seconds()) + 23 * 3600
    assert "1.400" in text_of(owner.get(f"/sites/{lab.site.pk}/"))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"pue": "0.9", "from_day": "2026-11-02"}, "is not a PUE"),
        ({"pue": "NaN", "from_day": "2026-11-02"}, "is not a PUE"),
        ({"pue": "", "from_day": "2026-11-02"}, "is not a PUE"),
        ({"pue": "1.2", "from_day": ""}, "no day"),
        ({"pue": "1.2", "from_day": "2026-13-40"}, "no day"),
    ],
)
def test_a_bad_pue_is_told(lab: SmallLab, owner: Client, form: dict[str, str], words: str) -> None:
    response = owner.post(f"/sites/{lab.site.pk}/", form)
    assert response.status_code == 400
    assert words in text_of(response)
    assert lab.site.pues.count() == 1


def test_anonymous_wrong_method_outsider_and_viewer(lab: SmallLab, owner: Client, outsider: Client, viewer: Client) -> None:
    address = f"/sites/{lab.site.pk}/"
    assert_needs_sign_in(address)
    assert_only(owner, address, "GET", "POST")
    assert outsider.get(address).status_code == 404
    assert outsider.post(address, {"zone": "FR"}).status_code == 404
    assert viewer.get(address).status_code == 200
    assert viewer.post(address, {"zone": "FR"}).status_code == 403
    assert owner.get("/sites/99999999999999999999999/").status_code == 404
    lab.site.refresh_from_db()
    assert lab.site.zone == "DE"
