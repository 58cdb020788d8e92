"""/assets/<id>/ : what is refused, and to whom."""

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.services import Entry, record
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    text_of,
)
from tests.dashboard.test_asset import DAY, NOW, at, page_of, state


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


REFUSED: tuple[tuple[dict[str, str], int, list[str]], ...] = (
    ({"action": "dance"}, 400, []),
    ({"action": "move", "from_day": ""}, 400, ["from_day"]),
    ({"action": "transfer", "owner": "nobody", **DAY}, 400, ["owner"]),
    ({"action": "move", "parent": "99999", **DAY}, 400, ["parent"]),
    ({"action": "dispose", "kg": "much", **DAY}, 400, ["kg"]),
    ({"action": "dispose", "kg": "-1", **DAY}, 400, ["kg"]),
    ({"action": "dispose", "kg": "NaN", **DAY}, 400, ["kg"]),
    ({"action": "repair", "kg": "5", **DAY}, 400, ["source"]),
    ({"action": "repair", "kg": "x", "from_day": "y"}, 400, ["kg", "from_day"]),
    ({"action": "life_change", **DAY}, 400, ["end_day"]),
    ({"action": "life_change", "end_day": "x", **DAY}, 400, ["end_day"]),
    ({"action": "lend", **DAY}, 400, ["borrower"]),
    ({"action": "return", **DAY}, 409, []),
    ({"action": "reverse", "entry": "7777"}, 409, []),
    ({"action": "reverse", "entry": "x"}, 409, []),
    ({"action": "meter", "meter": "device:1", **DAY}, 400, ["meter"]),
    ({"action": "store", "terabytes": "", **DAY}, 400, ["terabytes"]),
    ({"action": "retire", "from_day": "2050-01-01"}, 400, ["from_day"]),
    ({"action": "retire", "from_day": "0001-01-01"}, 400, ["from_day"]),
    ({"action": "life_change", "end_day": "0001-01-01", **DAY}, 409, []),
    ({"action": "opening", **DAY}, 400, ["figure"]),
    ({"action": "retire", "note": "\x00", **DAY}, 400, ["note"]),
)


def test_what_cannot_be_is_told_and_kept_nowhere(
    lab: SmallLab, owner: Client, subtests: pytest.Subtests
) -> None:
    address = f"/assets/{bought(lab).pk}/"
    before = state()
    for asked, status, fields in REFUSED:
        with subtests.test(asked=asked):
            for response in (owner.post(address, asked), owner.get(address, asked)):
                assert response.status_code == status
                assert fields_with_errors(text_of(response)) == fields
                assert 'role="alert"' in text_of(response) or asked["action"] == "dance"
            assert state() == before


def test_who_may(lab: SmallLab, viewer: Client, outsider: Client, owner: Client) -> None:
    asset = bought(lab)
    address = f"/assets/{asset.pk}/"
    assert_needs_sign_in(address)
    assert viewer.get(address).status_code == 200
    assert viewer.get(address, {"action": "retire", **DAY}).status_code == 403
    assert viewer.post(address, {"action": "retire", **DAY}).status_code == 403
    for response in (
        outsider.get(address),
        outsider.post(address, {"action": "retire", **DAY}),
        outsider.get(f"{address}life.csv"),
        owner.get("/assets/999999/"),
        owner.get("/assets/99999999999999999999999/"),
    ):
        assert response.status_code == 404
    assert_only(owner, address, "GET", "POST")
    assert_only(owner, f"{address}life.csv", "GET")


def test_names_and_notes_are_text(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, name=HOSTILE, note=HOSTILE, supplier=HOSTILE)
    record(
        asset=asset,
        entry=Entry("retire", at(5), note=HOSTILE, evidence=HOSTILE),
        by=lab.owner,
        now=NOW,
    )
    assert "<script>alert" not in page_of(owner, asset)


def test_another_labs_project_is_no_owner(lab: SmallLab, owner: Client) -> None:
    other = small_lab(name="Other")
    create_project(lab=other.lab, slug="theirs", name="Theirs", now=T0)
    response = owner.post(
        f"/assets/{bought(lab).pk}/", {"action": "transfer", "owner": "theirs", **DAY}
    )
    assert fields_with_errors(text_of(response)) == ["owner"]
