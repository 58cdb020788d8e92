"""/assets/<id>/ : what is refused, and to whom."""

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.services import Entry, record
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, text_of
from tests.dashboard.test_asset import DAY, NOW, at, page_of, state


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


REFUSED: tuple[tuple[dict[str, str], int, str], ...] = (
        ({"do": "dance"}, 400, "Nothing was chosen"), ({"do": "move"}, 400, "no day"),
        ({"do": "transfer", "owner": "nobody", **DAY}, 400, "no such project"),
        ({"do": "move", "parent": "99999", **DAY}, 400, "no such asset"),
        ({"do": "dispose", "kg": "much", **DAY}, 400, "not a weight"),
        ({"do": "dispose", "kg": "-1", **DAY}, 400, "not a weight"),
        ({"do": "dispose", "kg": "NaN", **DAY}, 400, "not a weight"),
        ({"do": "repair", "kg": "5", **DAY}, 400, "Where is this value from"),
        ({"do": "life_change", **DAY}, 400, "Nothing would change"),
        ({"do": "life_change", "end_day": "x", **DAY}, 400, "no day"),
        ({"do": "return", **DAY}, 409, "not lent"), ({"do": "reverse", "entry": "7777"}, 409, "not there"),
        ({"do": "reverse", "entry": "x"}, 409, "not there"), ({"do": "meter", "meter": "device:1", **DAY}, 400, "not there"),
        ({"do": "store", "terabytes": "", **DAY}, 400, "not a volume"),
        ({"do": "retire", "from_day": "2050-01-01"}, 400, "did not happen yet"),
        ({"do": "opening", **DAY}, 400, "Say what it brought"),
        ({"do": "retire", "note": "\x00", **DAY}, 400, "cannot be kept"),
)  # fmt: skip


def test_what_cannot_be_is_told_and_kept_nowhere(lab: SmallLab, owner: Client, subtests: pytest.Subtests) -> None:
    address = f"/assets/{bought(lab).pk}/"
    before = state()
    for asked, status, words in REFUSED:
        with subtests.test(asked=asked):
            for response in (owner.post(address, asked), owner.get(address, asked)):
                assert response.status_code == status
                assert words in text_of(response)
            assert state() == before


def test_who_may(lab: SmallLab, viewer: Client, outsider: Client, owner: Client) -> None:
    asset = bought(lab)
    address = f"/assets/{asset.pk}/"
    assert_needs_sign_in(address)
    assert viewer.get(address).status_code == 200
    assert viewer.get(address, {"do": "retire", **DAY}).status_code == 403
    assert viewer.post(address, {"do": "retire", **DAY}).status_code == 403
    for response in (
        outsider.get(address), outsider.post(address, {"do": "retire", **DAY}), outsider.get(f"{address}life.csv"),
        owner.get("/assets/999999/"), owner.get("/assets/99999999999999999999999/"),
    ):  # fmt: skip
        assert response.status_code == 404
    assert_only(owner, address, "GET", "POST")
    assert_only(owner, f"{address}life.csv", "GET")


def test_names_and_notes_are_text(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, name=HOSTILE, note=HOSTILE, supplier=HOSTILE)
    record(asset=asset, entry=Entry("retire", at(5), note=HOSTILE, evidence=HOSTILE), by=lab.owner, now=NOW)
    assert "<script>alert" not in page_of(owner, asset)


def test_another_labs_project_is_no_owner(lab: SmallLab, owner: Client) -> None:
    other = small_lab(name="Other")
    create_project(lab=other.lab, slug="theirs", name="Theirs", now=T0)
    response = owner.post(f"/assets/{bought(lab).pk}/", {"do": "transfer", "owner": "theirs", **DAY})
    assert "no such project" in text_of(response)
