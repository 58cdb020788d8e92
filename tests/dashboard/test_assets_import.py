"""/assets/import/ and what was read: shown first, written when confirmed, all or none."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.assets.models import Asset, RegisterImport
from apps.core.jobs import run_until_idle
from tests.assets.gpus import SNIPE_IT, own_csv
from tests.assets.hardware_list import xlsx
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of


def brought(client: Client, lines: str, **more: str) -> str:
    """Bring lines; return the address of what was read."""
    answer = client.post("/assets/import/", {"lines": lines, **more})
    assert answer.status_code == 302, text_of(answer)
    return str(answer["Location"])


def test_what_each_line_becomes_is_shown_and_confirming_writes_it(
    lab: SmallLab, owner: Client
) -> None:
    file = SimpleUploadedFile("gpus.csv", b"\xef\xbb\xbf" + own_csv().encode())
    address = owner.post("/assets/import/", {"file": file})["Location"]
    page = text_of(owner.get(address))
    assert 'data-state="read" data-new="41" data-known="0" data-wrong="0"' in page
    assert 'data-source="model" data-count="37"' in page
    assert 'data-source="category" data-count="4"' in page
    assert "NVIDIA A100-SXM4-80GB" in page
    assert 'data-would title="150' in page
    assert not Asset.objects.exists()
    assert owner.post(address, {"action": "register"}).status_code == 302
    assert Asset.objects.count() == 41
    assert 'data-state="done" data-new="41"' in text_of(owner.get(address))
    assert AuditEntry.objects.get(action="assets.imported").details["file"] == "gpus.csv"
    again = text_of(owner.get(brought(owner, own_csv())))
    assert 'data-state="read" data-new="0" data-known="41"' in again
    assert 'value="register"' not in again


def test_wrong_lines_are_shown_with_their_column_and_nothing_can_be_written(
    lab: SmallLab, owner: Client
) -> None:
    address = brought(owner, "name,kind,bought_on\ngood,gpu,2024-03-01\nbad,gpu,soon\n")
    page = text_of(owner.get(address))
    assert 'data-wrong="1"' in page
    assert "is not a day" in page
    assert 'value="register"' not in page
    refused = owner.post(address, {"action": "register"})
    assert refused.status_code == 400
    assert "Line 3" in text_of(refused)
    assert not Asset.objects.exists()


def test_unknown_is_said_and_is_not_zero(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(brought(owner, "name,kind,bought_on\nchair,other,2024-03-01\n")))
    assert 'data-source="unknown" data-count="1"' in page
    assert 'data-unmarked="1"' in page
    assert 'data-would title="0' not in page


def test_the_preview_shows_kind_of_end_mass_and_lease(lab: SmallLab, owner: Client) -> None:
    lines = (
        "name,kind,bought_on,disposed_on,end_of_life,mass_kg,recipient,leased,lessor\n"
        "a,laptop,2022-03-01,2024-03-01,stolen,1.8,,,\n"
        "b,laptop,2022-03-01,2024-03-01,recycled,2,Recycler,,\n"
        "c,laptop,2022-03-01,,,,,yes,Leasing AG\n"
    )
    page = text_of(owner.get(brought(owner, lines)))
    endings = re.findall(r"data-ending>([^<]+)<", page)
    assert [ending.replace("\xa0", " ") for ending in endings] == [
        "stolen, 1.8 kg",
        "recycled, 2 kg, to Recycler",
    ]
    assert re.findall(r"data-lease>([^<]+)<", page) == ["leased from Leasing AG"]


def test_a_foreign_export_needs_the_currency_once(lab: SmallLab, owner: Client) -> None:
    address = str(owner.get(brought(owner, SNIPE_IT))["Location"])
    page = text_of(owner.get(address))
    assert 'name="currency"' in page
    posted = {
        f"column{i}": field for i, field in enumerate(re.findall(r'<tr data-field="(.*?)">', page))
    }
    for wrong in ("", "money", "xyz"):
        answer = owner.post(address, posted | {"currency": wrong})
        assert answer.status_code == 400
        assert 'data-field-error="currency"' in text_of(answer)
    preview = str(owner.post(address, posted | {"currency": "eur"})["Location"])
    page = text_of(owner.get(preview))
    assert "Format: Snipe-IT." in page
    assert "\u00a0EUR" in page
    assert "data-ignored>Ignored columns: Model No., Checked Out To" in page
    assert 'value="EUR"' in text_of(owner.get(address)), "it can be changed"
    assert "\u00a0EUR" in text_of(owner.get(brought(owner, SNIPE_IT))), "remembered"
    assert "\u00a0USD" in text_of(owner.get(brought(owner, SNIPE_IT, currency="usd")))


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"lines": ""}, 400, "The file is empty"),
        ({"lines": ",,"}, 400, "names no columns"),
        (
            {"lines": "name,kind,bought_on\na,gpu,2024-01-01", "currency": "money"},
            400,
            "not a currency",
        ),
        ({"file": SimpleUploadedFile("x.csv", b"name\n\x01\xa0\x80")}, 400, "XLSX"),
        ({"file": SimpleUploadedFile("x.csv", b"\x89PNG\r\n\x1a\n\x00\xff")}, 400, "a picture"),
    ],
)
def test_a_wrong_file_is_told(
    lab: SmallLab, owner: Client, sent: dict[str, str], status: int, words: str
) -> None:
    answer = owner.post("/assets/import/", sent)
    assert answer.status_code == status
    assert words in text_of(answer)
    assert not RegisterImport.objects.exists()


def test_a_long_file_tells_its_progress(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.assets.services.csv_import.SYNCHRONOUS_LINES", 10)
    address = brought(owner, own_csv())
    page = text_of(owner.get(address))
    assert 'data-state="reading"' in page
    assert 'hx-trigger="every 2s"' in page
    run_until_idle(worker="test")
    assert 'data-state="read" data-new="41"' in text_of(owner.get(address))
    owner.post(address, {"action": "register"})
    assert 'data-state="writing"' in text_of(owner.get(address))
    run_until_idle(worker="test")
    assert 'data-state="done" data-new="41"' in text_of(owner.get(address))


def test_hostile_names_stay_text(lab: SmallLab, owner: Client) -> None:
    quoted = HOSTILE.replace('"', '""')
    page = text_of(
        owner.get(
            brought(owner, f'name,kind,bought_on,model\n"{quoted}",gpu,2024-03-01,"{quoted}"\n')
        )
    )
    assert "<script>alert" not in page
    assert "onerror=alert(2)>" not in page.replace("&gt;", "")


def test_queries_do_not_grow_with_lines(lab: SmallLab, owner: Client) -> None:
    few = brought(owner, own_csv((("A100-SXM4-80GB", 1),)))
    many = brought(owner, own_csv((("A100-SXM4-80GB", 150),)))
    assert queries(owner, few) == queries(owner, many)


def test_roles_methods_and_other_labs(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    address = brought(owner, own_csv())
    for where in ("/assets/import/", address):
        assert viewer.get(where).status_code == 403
        assert viewer.post(where, {"action": "register"}).status_code == 403
        assert_needs_sign_in(where)
        assert_only(owner, where, "GET", "POST")
    assert outsider.get(address).status_code == 404
    assert outsider.post(address, {"action": "register"}).status_code == 404
    assert not Asset.objects.exists()


OWN_LIST = "Gerät;Modell;Kaufdatum;Preis;Währung;Anzahl\nKarte;RTX 3090;03/04/2024;1.500;EUR;2\n"


def mapping(client: Client, text: str = OWN_LIST) -> str:
    """Upload a file of own columns; return the address of its mapping page."""
    file = SimpleUploadedFile("liste.csv", text.encode("cp1252"))
    preview = client.post("/assets/import/", {"file": file})["Location"]
    answer = client.get(preview)
    assert answer.status_code == 302
    assert answer["Location"] == f"{preview}mapping/"
    return str(answer["Location"])


COLUMNS = {
    "column0": "name", "column1": "model", "column2": "bought_on", "column3": "price",
    "column4": "currency", "column5": "quantity",
}  # fmt: skip


def test_columns_are_proposed_confirmed_and_remembered(lab: SmallLab, owner: Client) -> None:
    address = mapping(owner)
    page = text_of(owner.get(address))
    for field in COLUMNS.values():
        assert f'data-field="{field}"' in page
    assert "3 April 2024" in page
    assert "4 March 2024" in page
    answer = owner.post(address, COLUMNS)
    assert answer.status_code == 400
    assert "Choose one." in text_of(answer)
    answer = owner.post(address, COLUMNS | {"date_order": "mdy", "decimal": ","})
    assert answer.status_code == 302
    page = text_of(owner.get(answer["Location"]))
    assert 'data-new="2"' in page
    assert 'data-items="2"' in page
    assert "2024-03-04" in page
    assert "1\u202f500.00\u00a0EUR" in page
    assert "data-default=" in page
    assert owner.get(address).status_code == 200, "columns can be changed until it is registered"
    file = SimpleUploadedFile("liste.csv", OWN_LIST.encode("cp1252"))
    again = owner.post("/assets/import/", {"file": file})["Location"]
    assert owner.get(again).status_code == 200


def test_a_date_column_that_is_assigned_by_hand_is_asked_about(
    lab: SmallLab, owner: Client
) -> None:
    address = mapping(owner, "Was;Wann\nRTX 3090;03/04/2024\n")
    assert "April 2024" not in text_of(owner.get(address))
    answer = owner.post(address, {"column0": "model", "column1": "bought_on"})
    assert answer.status_code == 400
    assert "3 April 2024" in text_of(answer)
    sent = {"column0": "model", "column1": "bought_on", "date_order": "dmy"}
    assert owner.post(address, sent).status_code == 302


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"column0": "password"}, "Choose one of the list"),
        ({"column0": "name", "column1": "name"}, "Two columns are assigned"),
        ({"column2": "bought_on", "date_order": "dmy"}, "No column names the assets"),
        ({"column0": "name", "column2": "bought_on", "date_order": "ymd"}, "Choose one."),
        ({}, "No column names the assets"),
    ],
)
def test_wrong_columns_are_refused(
    lab: SmallLab, owner: Client, sent: dict[str, str], words: str
) -> None:
    answer = owner.post(mapping(owner), sent)
    assert answer.status_code == 400
    assert words in text_of(answer)
    assert RegisterImport.objects.get().state == "mapping"


def test_hostile_headings_and_cells_stay_text(lab: SmallLab, owner: Client) -> None:
    quoted = HOSTILE.encode("cp1252", "replace").decode("cp1252").replace('"', '""')
    page = text_of(owner.get(mapping(owner, f'"{quoted}";"x{quoted}"\n"{quoted}";1\n')))
    assert "<script>alert" not in page
    assert "onerror=alert(2)>" not in page.replace("&gt;", "")


def test_who_may_assign_columns(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    address = mapping(owner)
    assert viewer.get(address).status_code == 403
    assert viewer.post(address, COLUMNS).status_code == 403
    assert outsider.get(address).status_code == 404
    assert outsider.post(address, COLUMNS).status_code == 404
    assert_needs_sign_in(address)
    assert_only(owner, address, "GET", "POST")
    assert RegisterImport.objects.get().state == "mapping"


def test_a_workbook_is_read(lab: SmallLab, owner: Client) -> None:
    file = SimpleUploadedFile("inventar.xlsx", xlsx(), content_type="text/html")
    address = owner.post("/assets/import/", {"file": file, "currency": "EUR"})["Location"]
    page = text_of(owner.get(f"{address}mapping/"))
    names = re.findall(r'name="(column\d+)"', page)
    fields = re.findall(r'data-field="(\w*)"', page)
    answer = owner.post(f"{address}mapping/", dict(zip(names, fields, strict=True)))
    assert answer.status_code == 302
    page = text_of(owner.get(address))
    assert "data-sheets" in page
    assert 'data-new="122"' in page
