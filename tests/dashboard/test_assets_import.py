"""/assets/import/ and what was read: shown first, written when confirmed, all or none."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.assets.models import Asset, RegisterImport
from apps.core.jobs import run_until_idle
from tests.assets.gpus import SNIPE_IT, own_csv
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


def test_a_foreign_export_needs_the_currency_once(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(brought(owner, SNIPE_IT)))
    assert "The currency of the price is missing" in page
    page = text_of(owner.get(brought(owner, SNIPE_IT, currency="eur")))
    assert "Format: Snipe-IT." in page
    assert "data-ignored>Ignored columns: Model No., Checked Out To" in page


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"lines": ""}, 400, "The file is empty"),
        ({"lines": "colour\nred"}, 400, "no column that is known"),
        (
            {"lines": "name,kind,bought_on\na,gpu,2024-01-01", "currency": "money"},
            400,
            "not a currency",
        ),
        ({"file": SimpleUploadedFile("x.csv", b"name\n\xed\xa0\x80")}, 400, "UTF-8"),
        ({"file": SimpleUploadedFile("x.csv", b"\x89PNG\r\n\x1a\n\x00\xff")}, 400, "UTF-8"),
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
