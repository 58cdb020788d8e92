"""/assets.csv and /assets/labels/: what leaves the register."""

import csv
import re

import pytest
from django.test import Client

from apps.assets.models import Asset
from apps.assets.spreadsheets.formats import OWN
from apps.dashboard.assets.printed_labels import code
from apps.dashboard.csv_response import cell
from tests.assets.support import bought
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of


def test_the_register_as_csv_runs_in_no_spreadsheet(
    lab: SmallLab, owner: Client, viewer: Client
) -> None:
    bought(lab, name="=cmd|' /C calc'!A0", note="@SUM(1)", tag="INV-1", kg=120)
    bought(lab, name="'=1+1", kg=None)
    answer = viewer.get("/assets.csv")
    assert answer["Content-Disposition"].startswith("attachment")
    first, second = csv.DictReader(text_of(answer).splitlines())
    assert tuple(first) == OWN
    assert (first["name"], first["note"]) == ("'=cmd|' /C calc'!A0", "'@SUM(1)")
    assert second["name"] == "''=1+1", (
        "what looks like an apostrophe of ours gets one too: it can be taken away again"
    )
    assert (first["embodied_kg"], second["embodied_kg"]) == ("120", "unknown")
    assert first["bought_on"] == "2026-11-02T08:00Z"


@pytest.mark.parametrize(
    "text", ["=1", "'=1", "''-1", " x", "' x", "plain", "'plain", "", "\t1", "'"]
)
def test_what_a_cell_says_can_be_had_back(text: str) -> None:
    from apps.assets.spreadsheets.cells import unescaped

    assert unescaped(cell(text)) == text


def test_labels_are_drawn_here_and_name_the_page(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, name=HOSTILE[:180], tag="INV-1", serial="SN-1")
    other = bought(lab, name="monitor", kind="monitor")
    page = text_of(owner.get("/assets/labels/"))
    assert page.count('<svg class="code"') == 2
    assert f"/assets/{asset.pk}/</span>" in page
    assert "INV-1" in page
    assert "<script>alert" not in page
    assert "data:image" not in page
    assert text_of(owner.get(f"/assets/labels/?id={other.pk}")).count('<svg class="code"') == 1
    assert 'data-labels="0"' in text_of(owner.get("/assets/labels/?kind=cpu"))


def test_a_code_is_what_the_reference_encoder_draws() -> None:
    from qrcode.main import QRCode

    text = "https://lab.example/assets/12345/"
    path, side = code(text)
    dark = set()
    for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1H\d+z", path):
        dark |= {(int(x) + i, int(y)) for i in range(int(length))}
    made = QRCode(error_correction=0, border=4)
    made.add_data(text)
    rows = made.get_matrix()
    assert side == len(rows)
    assert dark == {(x, y) for y, row in enumerate(rows) for x, filled in enumerate(row) if filled}


@pytest.mark.parametrize("query", ["kind=toaster", "state=lost", "id=x", "id=-1", f"id={'9' * 30}"])
def test_wrong_choices_are_told(lab: SmallLab, owner: Client, query: str) -> None:
    assert owner.get(f"/assets/labels/?{query}").status_code == 400


def test_other_labs_methods_queries(lab: SmallLab, owner: Client, outsider: Client) -> None:
    asset = bought(lab, name="ours-only")
    assert "ours-only" not in text_of(outsider.get("/assets.csv"))
    assert "ours-only" not in text_of(outsider.get(f"/assets/labels/?id={asset.pk}"))
    before = queries(owner, "/assets.csv"), queries(owner, "/assets/labels/")
    for i in range(5):
        bought(lab, name=f"more {i}")
    assert (queries(owner, "/assets.csv"), queries(owner, "/assets/labels/")) == before
    assert Asset.objects.count() == 6
    for address in ("/assets.csv", "/assets/labels/"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")
