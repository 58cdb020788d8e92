"""/market/instruments/ : list, add, one instrument, withdrawal, and its document."""

import re
from hashlib import sha256
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.carbon.market.models import Instrument, InstrumentEvidence
from apps.dashboard.market.instrument_forms import InstrumentForm
from apps.dashboard.market.instrument_pages import PAGE_ROWS
from tests.builders import SmallLab
from tests.carbon.market.instruments import add
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    queries,
    text_of,
)

LIST = "/market/instruments/"
ADD = f"{LIST}add/"
FORM = {
    "kind": "go", "name": "Wind park North", "market": "DE, Norway", "first_day": "2025-01-01",
    "last_day": "2025-12-31", "g_per_kwh": "0", "volume": "3,25", "granularity": "year",
    "certificates": "GO-1 to GO-3", "registry": "HKNR", "retired_on": "2026-02-01",
    "beneficiary": "Cell Lab",
}  # fmt: skip
RESIDUAL_MIX = {"kind": "residual_mix", "market": "DE", "certificates": "", "retired_on": ""}
PDF = b"%PDF-1.7 proof"


def post(client: Client, address: str = ADD, **changes: Any) -> Any:
    return client.post(address, {**(FORM if address == ADD else {}), **changes})


def test_an_instrument_is_added_listed_and_shown(owner: Client, viewer: Client) -> None:
    assert 'data-empty="instruments"' in text_of(viewer.get(LIST))
    evidence = SimpleUploadedFile("../proof <1>.pdf", PDF)
    answer = post(owner, evidence=evidence)
    assert answer.status_code == 302, text_of(answer)[:3000]
    row = Instrument.objects.get()
    assert answer["Location"] == f"{LIST}{row.pk}/"
    assert (row.market, row.volume_wh, row.ug_per_kwh) == (["DE", "NO"], 3_250_000, 0)
    assert f'data-instrument="{row.pk}"' in text_of(viewer.get(LIST))
    page = text_of(viewer.get(f"{LIST}{row.pk}/"))
    assert 'data-volume-wh="3250000"' in page
    assert "GO-1 to GO-3" in page
    assert f'href="{LIST}"' in text_of(viewer.get("/market/"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"kind": "nope"}, "kind"),
        ({"market": "Atlantis"}, "market"),
        ({"market": ","}, "market"),
        ({"first_day": "2025-13-01"}, "first_day"),
        ({"last_day": "2024-12-31"}, "last_day"),
        ({"g_per_kwh": "-1"}, "g_per_kwh"),
        ({"g_per_kwh": "NaN"}, "g_per_kwh"),
        ({"g_per_kwh": "1e400"}, "g_per_kwh"),
        ({"g_per_kwh": "99999"}, "g_per_kwh"),
        ({"volume": ""}, "volume"),
        ({"volume": "0"}, "volume"),
        ({"volume": "1e9"}, "volume"),
        ({**RESIDUAL_MIX, "g_per_kwh": "724.6"}, "volume"),
        ({**RESIDUAL_MIX, "volume": ""}, "g_per_kwh"),
        ({"kind": "ppa", "retired_on": ""}, "certificates"),
        ({"volumes": "1 x", "volumes_by": "month", "volume": ""}, "volumes"),
        ({"volumes": "1 NaN", "volumes_by": "month", "volume": ""}, "volumes"),
        ({"volumes": "1 2", "volumes_by": "month", "volume": ""}, "volumes"),
        ({"volumes": "1 2", "volumes_by": "", "volume": ""}, "volumes_by"),
        ({"retired_on": "2199-01-01"}, "retired_on"),
        ({"plant_zone": "Atlantis"}, "plant_zone"),
        ({"notes": "x\0"}, "notes"),
        ({"evidence": SimpleUploadedFile("a.pdf", b"<svg onload=alert(1)>")}, "evidence"),
        ({"evidence": SimpleUploadedFile("a.html", b"<script>1</script>")}, "evidence"),
        ({"evidence": SimpleUploadedFile("a.pdf", PDF + b"x" * (5 * 2**20))}, "evidence"),
    ],
)
def test_errors_are_at_their_fields(owner: Client, changes: dict[str, Any], field: str) -> None:
    answer = post(owner, **changes)
    assert answer.status_code in (400, 413), changes
    assert fields_with_errors(text_of(answer)) == [field]
    assert not Instrument.objects.exists()


def test_monthly_volumes_are_those_of_the_months(owner: Client) -> None:
    months = "\n".join(["0.25", "0,5", *["0"] * 10])
    assert post(owner, volume="", volumes=months, volumes_by="month").status_code == 302
    row = Instrument.objects.get()
    assert row.volume_wh == 750_000
    assert row.volumes_wh == [250_000, 500_000, *[0] * 10]
    assert "known by month" in text_of(owner.get(f"{LIST}{row.pk}/"))


def test_the_zone_of_a_plant_is_one_of_the_suggestions(owner: Client) -> None:
    page = text_of(owner.get(ADD))
    assert 'list="instrument-zones"' in page
    listed = page.split('id="instrument-zones"')[1].split("</datalist>")[0]
    label = next(each for each in re.findall(r'value="([^"]+)"', listed) if "Germany" in each)
    assert post(owner, plant_zone=label).status_code == 302
    assert Instrument.objects.get().plant_zone == "DE"


def test_a_certificate_is_used_once(owner: Client) -> None:
    post(owner)
    answer = post(owner, name="Again", certificates="GO-3 to GO-9")
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == ["certificates"]
    assert f"of {FORM['name']}." in text_of(answer)
    row = Instrument.objects.get()
    assert post(owner, f"{LIST}{row.pk}/", action="withdraw", reason="").status_code == 400
    assert (
        post(owner, f"{LIST}{row.pk}/", action="withdraw", reason="Sold <again>").status_code == 302
    )
    page = text_of(owner.get(f"{LIST}{row.pk}/"))
    assert "Sold &lt;again&gt;" in page
    assert 'name="reason"' not in page
    assert "?withdraw" not in page
    assert 'name="reason"' not in text_of(owner.get(f"{LIST}{row.pk}/?withdraw"))
    assert "data-withdrawn" in text_of(owner.get(LIST))
    assert post(owner, f"{LIST}{row.pk}/", action="withdraw", reason="Twice").status_code == 409
    assert post(owner, name="Again", certificates="GO-3 to GO-9").status_code == 302


def test_the_document_is_a_download_for_managers(
    owner: Client, viewer: Client, member: Client, outsider: Client
) -> None:
    post(owner, evidence=SimpleUploadedFile("..\\<b>proof\r\n.html", PDF))
    address = f"{LIST}{Instrument.objects.get().pk}/evidence/"
    answer = owner.get(address)
    assert answer.content == PDF
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"].startswith("attachment")
    assert "\r" not in answer["Content-Disposition"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    for client, status in ((viewer, 403), (member, 403), (outsider, 404)):
        assert client.get(address).status_code == status
    InstrumentEvidence.objects.all().delete()
    assert owner.get(address).status_code == 404


def test_a_withdrawal_is_confirmed_on_a_page_of_its_own(lab: SmallLab, owner: Client) -> None:
    address = f"{LIST}{add(lab.lab).pk}/"
    page = text_of(owner.get(address))
    assert 'href="?withdraw#withdraw"' in page
    assert 'name="reason"' not in page
    page = text_of(owner.get(f"{address}?withdraw"))
    assert 'data-form="withdraw"' in page
    assert 'value="withdraw"' in page
    assert f'href="{address}">Cancel' in page
    answer = post(owner, address, action="withdraw", reason=" ")
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == ["reason"]
    for action in ({}, {"action": "nope"}):
        assert post(owner, address, reason="x", **action).status_code == 400
    assert Instrument.objects.get().withdrawn_us is None


def test_a_document_is_added_later_and_once(
    lab: SmallLab, owner: Client, viewer: Client, member: Client, outsider: Client
) -> None:
    address = f"{LIST}{add(lab.lab).pk}/"
    assert 'data-form="document"' in text_of(owner.get(address))

    def upload(client: Client, content: bytes = PDF, name: str = "proof.pdf") -> Any:
        return post(client, address, action="document", evidence=SimpleUploadedFile(name, content))

    for client, status in ((viewer, 403), (member, 403), (outsider, 404)):
        assert upload(client).status_code == status
    for content, status in (
        (b"", 400), (b"<svg onload=alert(1)>", 400), (PDF + b"x" * (5 * 2**20), 413),
    ):  # fmt: skip
        answer = upload(owner, content)
        assert answer.status_code == status
        assert fields_with_errors(text_of(answer)) == ["evidence"]
    assert post(owner, address, action="document").status_code == 400
    assert not InstrumentEvidence.objects.exists()
    assert upload(owner).status_code == 302
    assert owner.get(f"{address}evidence/").content == PDF
    page = text_of(owner.get(address))
    assert "proof.pdf" in page
    assert 'data-form="document"' not in page
    assert upload(owner, name="other.pdf").status_code == 409
    [entry] = AuditEntry.objects.filter(action="instrument.document_added")
    assert entry.details["evidence_sha256"] == sha256(PDF).hexdigest()


def test_a_withdrawn_instrument_gets_no_document(lab: SmallLab, owner: Client) -> None:
    address = f"{LIST}{add(lab.lab).pk}/"
    post(owner, address, action="withdraw", reason="Sold")
    assert 'data-form="document"' not in text_of(owner.get(address))
    file = SimpleUploadedFile("proof.pdf", PDF)
    assert post(owner, address, action="document", evidence=file).status_code == 409
    assert not InstrumentEvidence.objects.exists()


def test_each_field_of_the_form_has_a_help_text(owner: Client) -> None:
    form = text_of(owner.get(ADD)).split('enctype="multipart/form-data"')[1].split("</form>")[0]
    assert (
        form.count('class="field"') == form.count('class="help"') == len(InstrumentForm.base_fields)
    )


def test_long_lists_have_pages(lab: SmallLab, owner: Client) -> None:
    for number in range(PAGE_ROWS + 3):
        add(lab.lab, name=f"Park {number}")
    first, second = (text_of(owner.get(f"{LIST}{query}")) for query in ("", "?page=2"))
    assert first.count("data-instrument=") == PAGE_ROWS
    assert second.count("data-instrument=") == 3
    assert 'href="?page=2" rel="next"' in first
    assert 'href="?page=1" rel="prev"' in second
    assert f'data-count="{PAGE_ROWS + 3}"' in first
    for query in ("?page=0", "?page=x", "?page=-1", f"?page={10**30}"):
        assert owner.get(f"{LIST}{query}").status_code == 400


def test_hostile_texts_are_texts(owner: Client) -> None:
    texts = dict.fromkeys(("name", "registry", "beneficiary", "notes"), HOSTILE[:100])
    assert post(owner, **texts).status_code == 302
    for address in (LIST, f"{LIST}{Instrument.objects.get().pk}/"):
        assert "<script>alert" not in text_of(owner.get(address))


def test_only_pis_and_admins_write(
    lab: SmallLab, viewer: Client, member: Client, outsider: Client
) -> None:
    row = add(lab.lab)
    for client in (viewer, member):
        assert f'href="{ADD}"' not in text_of(client.get(LIST))
        assert client.get(ADD).status_code == post(client).status_code == 403
        for query in ("", "?withdraw"):
            page = text_of(client.get(f"{LIST}{row.pk}/{query}"))
            assert 'name="reason"' not in page
            assert 'data-form="document"' not in page
        assert post(client, f"{LIST}{row.pk}/", action="withdraw", reason="x").status_code == 403
    assert 'data-empty="instruments"' in text_of(outsider.get(LIST))
    assert outsider.get(f"{LIST}{row.pk}/").status_code == 404
    assert post(outsider, f"{LIST}{row.pk}/", action="withdraw", reason="x").status_code == 404
    assert Instrument.objects.get().withdrawn_us is None


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    add(lab.lab)
    one = queries(owner, LIST)
    for number in range(5):
        add(lab.lab, name=f"Park {number}")
    assert queries(owner, LIST) == one
    assert len(re.findall(r"data-instrument=", text_of(owner.get(LIST)))) == 6


def test_access(lab: SmallLab, owner: Client) -> None:
    row = add(lab.lab)
    for address in (LIST, ADD, f"{LIST}{row.pk}/", f"{LIST}{row.pk}/evidence/"):
        assert_needs_sign_in(address)
    assert_only(owner, LIST, "GET")
    assert_only(owner, ADD, "GET", "POST")
    assert_only(owner, f"{LIST}{row.pk}/", "GET", "POST")
    assert_only(owner, f"{LIST}{row.pk}/evidence/", "GET")
    assert owner.get(f"{LIST}{2**63}/").status_code == 404
    assert owner.get(f"{LIST}{2**63}/evidence/").status_code == 404
