"""Pages of activities: list, filters, CSV, add with preview, detail, withdrawal."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client, override_settings

from apps.accounts.models import AuditEntry
from apps.activity.kinds import KINDS
from apps.activity.models import Activity
from apps.activity.services import record_activity
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH, US_PER_HOUR
from apps.energy.models import LedgerEntry
from tests.activity.support import draft
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, queries, text_of
from tests.properties.archives import seal

LIST = "/activities/"
ADD = "/activities/add/cloud_storage/"
FORM = {
    "name": "Backup",
    "project": "demo",
    "first_day": "2026-10-01",
    "last_day": "2026-10-31",
    "zone": "DE",
    "provider": "aws",
    "tb_months": "12",
    "medium": "hdd",
    "replicas": "1",
}


def record(lab: SmallLab, **changes: Any) -> Activity:
    activity, _ = record_activity(lab=lab.lab, draft=draft(**changes), by=lab.owner, now=now_us())
    return activity


def page(client: Client, address: str, status: int = 200) -> str:
    reply = client.get(address)
    assert reply.status_code == status, text_of(reply)[:2000]
    return text_of(reply)


def post(client: Client, address: str, status: int, **data: Any) -> str:
    reply = client.post(address, data)
    assert reply.status_code == status, text_of(reply)[:3000]
    return reply["Location"] if status == 302 else text_of(reply)


def form_key(text: str) -> str:
    found = re.search(r'name="form_key" value="([0-9a-f-]{36})"', text)
    assert found, text[:3000]
    return found[1]


def test_a_form_that_is_sent_twice_records_once(
    owner: Client, member: Client, outsider: Client, lab: SmallLab
) -> None:
    key = form_key(page(owner, ADD))
    assert key != form_key(page(owner, ADD))
    assert form_key(post(owner, ADD, 200, **FORM, form_key=key, preview="1")) == key
    assert form_key(post(owner, ADD, 400, **{**FORM, "name": ""}, form_key=key)) == key
    first = post(owner, ADD, 302, **FORM, form_key=key)
    assert post(owner, ADD, 302, **FORM, form_key=key) == first
    assert post(owner, ADD, 302, **{**FORM, "tb_months": "7"}, form_key=key) == first
    assert post(member, ADD, 302, **FORM, form_key=key) == first
    activity = Activity.objects.get()
    assert activity.inputs["tb_months"] == "12"
    text = page(owner, first)
    assert "so nothing was recorded" in text
    assert key not in text  # nobody entered it
    other = post(outsider, ADD, 302, **{**FORM, "project": ""}, form_key=key)
    assert other != first
    assert AuditEntry.objects.filter(action="activity.recorded").count() == 2
    run_until_idle(worker="test")
    post(owner, first, 302, reason="wrong")
    assert post(owner, ADD, 302, **FORM, form_key=key) == first  # it does not come back
    post(owner, ADD, 302, **FORM, form_key=form_key(page(owner, ADD)))
    assert Activity.objects.filter(lab=lab.lab).count() == 2
    assert "Reload the page" in post(owner, ADD, 400, **FORM, form_key="x")


def test_a_form_with_an_external_id_keeps_it(owner: Client) -> None:
    key = form_key(page(owner, ADD))
    first = post(owner, ADD, 302, **FORM, external_id="bill-1", form_key=key)
    assert post(owner, ADD, 302, **FORM, external_id="bill-1", form_key=key) == first
    assert Activity.objects.get().external_id == "bill-1"


def test_hours_and_zeros_are_refused_at_their_field(owner: Client) -> None:
    address = "/activities/add/other_device/"
    form = {**FORM, "device": "laptop", "watts": "30", "count": "2", "last_day": "2026-10-01"}
    for button in ({}, {"preview": "1"}):
        text = post(owner, address, 400, **form, hours="25", **button)
        assert 'data-field-error="hours"' in text
        assert "25 hours are more than the 24 hours of the period" in text
    assert 'data-field-error="count"' in post(
        owner, address, 400, **{**form, "count": "0"}, hours="1"
    )
    text = post(owner, address, 400, **FORM, device="laptop", kwh="0")
    assert "Energy (kWh) is 0" in text
    text = post(owner, address, 400, **FORM, device="laptop", watts="5")
    assert "Hours is missing" in text


@pytest.mark.parametrize("number", ["1_000", "١٢", "-0", "1e3", "1 000", "+5"])
def test_other_numbers_than_plain_ones(owner: Client, number: str) -> None:
    text = post(owner, ADD, 400, **{**FORM, "tb_months": number})
    assert 'data-field-error="tb_months"' in text


def test_the_preview_states_the_exact_energy(owner: Client) -> None:
    address = "/activities/add/file_server/"
    text = post(owner, address, 200, **FORM, kwh=" 295,5 ", preview="1")
    assert 'title="1\u202f063\u202f800\u202f000\u202f000 mJ exactly">296' in text
    assert "exact 1\u202f063\u202f800\u202f000\u202f000 mJ" in text
    assert 'data-preview="1063800000000"' in text


def test_empty_list_offers_every_kind(owner: Client, viewer: Client) -> None:
    text = page(owner, LIST)
    assert 'data-empty="activities"' in text
    for kind in KINDS:
        assert f"/activities/add/{kind}/" in text
        page(owner, f"/activities/add/{kind}/")
    assert "/activities/add/" not in page(viewer, LIST)
    page(viewer, ADD, 403)
    page(owner, "/activities/add/nope/", 404)


def test_preview_saves_nothing_and_save_shows_the_figures(owner: Client, lab: SmallLab) -> None:
    energy_mj = 5_694 * MJ_PER_KWH // 1000
    text = post(owner, ADD, 200, **FORM, preview="1")
    assert f'data-preview="{energy_mj}"' in text
    assert not Activity.objects.exists()
    address = post(owner, ADD, 302, **FORM)
    assert "data-not-counted" in page(owner, address)
    run_until_idle(worker="test")
    text = page(owner, address)
    assert "data-not-counted" not in text
    assert f'data-value="{energy_mj}"' in text
    assert "metric=emission_ug" in text
    assert "data-source" in text


@pytest.mark.parametrize("button", [{}, {"preview": "1"}])
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"zone": "Atlantis"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"tb_months": "x"}, "tb_months"),
        ({"tb_months": ""}, "tb_months"),
        ({"medium": "paper"}, "medium"),
        ({"last_day": "2026-09-01"}, "last_day"),
        ({"last_day": "9999-12-31"}, "last_day"),
        ({"last_day": "2199-12-31"}, "last_day"),
        ({"first_day": "0001-01-01"}, "first_day"),
        ({"pue": "0.5"}, "pue"),
        ({"project": "nope"}, "project"),
    ],
)
def test_errors_are_at_their_fields(
    owner: Client, button: dict[str, str], changes: dict[str, str], field: str
) -> None:
    assert f'data-field-error="{field}"' in post(owner, ADD, 400, **{**FORM, **changes, **button})
    assert not Activity.objects.exists()


def test_the_last_day_is_included_in_form_and_error(owner: Client) -> None:
    text = post(owner, ADD, 400, **{**FORM, "last_day": "2026-09-30"}, preview="1")
    assert "It is not included" not in text
    assert 'data-preview="' in post(
        owner, ADD, 200, **{**FORM, "last_day": "2026-10-01"}, preview="1"
    )


def test_gpus_of_the_catalogue_are_suggested(owner: Client) -> None:
    text = page(owner, "/activities/add/cloud_compute/")
    suggestions = text[text.index('<datalist id="activity-gpus">') :].partition("</datalist>")[0]
    name = re.findall(r'value="([^"]*)"', suggestions)[0]
    form = {**FORM, "hours": "1", "utilization": "50", "gpus": "1", "gpu": unescape(name)}
    address = "/activities/add/cloud_compute/"
    assert 'data-preview="' in post(owner, address, 200, **form, preview="1")
    assert 'id="activity-gpus"' not in page(owner, ADD)


def test_an_external_id_of_another_activity(owner: Client) -> None:
    post(owner, ADD, 302, **FORM, external_id="x")
    post(owner, ADD, 302, **FORM, external_id="x")  # equal content
    text = post(owner, ADD, 409, **{**FORM, "tb_months": "1"}, external_id="x")
    assert 'data-field-error="external_id"' in text
    assert Activity.objects.count() == 1


def test_filters_and_csv(owner: Client, lab: SmallLab) -> None:
    first = record(lab, name="=cmd()", external_id="7")
    second = record(lab, name="other", kind="network_transfer", inputs={"gigabytes": 1}, project="")
    for query, rows in (
        ("", {first, second}),
        ("kind=file_server", {first}),
        ("project=demo", {first}),
        ("first_day=2026-11-01&last_day=2026-11-30", {first, second}),
        ("last_day=2026-10-01", set()),
        ("first_day=2026-11-20", set()),
    ):
        text = page(owner, f"{LIST}?{query}")
        found = {each for each in (first, second) if f'data-activity="{each.uuid}"' in text}
        assert found == rows
        assert ('data-empty="filters"' in text) == (not rows)
        reply = owner.get(f"/activities.csv?{query}")
        lines = b"".join(reply.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
        assert len(lines) == 1 + len(rows)
        if rows == {first}:
            assert f",{first.energy_mj},{first.low_mj},{first.high_mj}," in lines[1]
            assert ",'=cmd()," in lines[1]
    for query in ("kind=nope", "first_day=x", "first_day=9999-12-31", "page=0", "project=%00"):
        page(owner, f"{LIST}?{query}", 400)


def test_withdrawal(owner: Client, member: Client, viewer: Client, lab: SmallLab) -> None:
    activity = record(lab)
    address = f"{LIST}{activity.uuid}/"
    for client in (member, viewer):  # somebody else's
        assert 'data-form="withdraw"' not in page(client, address)
        post(client, address, 403, reason="x")
    assert 'data-field-error="reason"' in post(owner, address, 400, reason=" ")
    post(owner, address, 302, reason=HOSTILE)
    text = page(owner, address)
    assert "data-withdrawn" in text
    assert "<script>alert" not in text
    assert 'data-form="withdraw"' not in text
    assert "data-withdrawn" in page(owner, LIST)
    post(owner, address, 409, reason="again")


def test_archived_energy_cannot_be_withdrawn(owner: Client, lab: SmallLab, tmp_path: Path) -> None:
    activity = record(lab)
    run_until_idle(worker="test")
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        assert seal(activity.end_us // US_PER_HOUR + 1).windows == 1
    ledger = sorted(LedgerEntry.objects.values_list("device", "hour", "energy_mj"))
    refused = post(owner, f"{LIST}{activity.uuid}/", 409, reason="wrong")
    assert "is archived, so it cannot be withdrawn" in refused
    assert "restatement" in refused
    activity.refresh_from_db()
    assert activity.withdrawn_us is None
    assert sorted(LedgerEntry.objects.values_list("device", "hour", "energy_mj")) == ledger


def test_other_labs_and_methods(owner: Client, outsider: Client, lab: SmallLab) -> None:
    activity = record(lab, name=HOSTILE)
    address = f"{LIST}{activity.uuid}/"
    assert "<script>alert" not in page(owner, address) + page(owner, LIST)
    page(outsider, address, 404)
    post(outsider, address, 404, reason="x")
    assert str(activity.uuid) not in page(outsider, LIST)
    page(owner, f"{LIST}{uuid4()}/", 404)
    post(owner, LIST, 405)
    assert_needs_sign_in(LIST)
    activity.refresh_from_db()
    assert activity.withdrawn_us is None


def test_the_list_needs_a_constant_number_of_queries(owner: Client, lab: SmallLab) -> None:
    record(lab)
    page(owner, LIST)
    few = queries(owner, LIST)
    for i in range(4):
        record(lab, name=f"nas-{i}")
    assert queries(owner, LIST) == few
