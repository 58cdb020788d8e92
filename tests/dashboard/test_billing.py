"""/billing/: upload, accounts, preview, recording, and the page of a month."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.activity.models import Activity
from apps.activity.services import record_activity
from apps.billing.models import BilledMonth, BillingFile
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from tests.activity.support import draft
from tests.billing.exports import aws_row, csv_bytes
from tests.billing.pages import LIST, assigned, uploaded
from tests.billing.support import recorded
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

pytestmark = pytest.mark.django_db


def test_an_export_from_upload_to_month(lab: SmallLab, member: Client) -> None:
    first = csv_bytes(aws_row(hour=hour) for hour in range(4))
    second = csv_bytes([aws_row(LineItemType="Credit", UnblendedCost="-5"), aws_row(project="x")])
    address = uploaded(member, first, second)
    assert 'data-state="mapping"' in text_of(member.get(address, follow=True))
    assigned(member, address)
    preview = text_of(member.get(address))
    assert 'data-state="checked"' in preview
    assert not Activity.objects.exists()
    assert member.post(address).status_code == 302
    assert 'data-state="recording"' in text_of(member.get(address))
    run_until_idle(worker="test")
    assert 'data-state="done"' in text_of(member.get(address))
    month = BilledMonth.objects.get()
    page = text_of(member.get(f"/billing/months/{month.pk}/"))
    assert 'data-hours="5000000"' in page
    assert f'data-cost="{5 * 3_823_000 - 5_000_000}"' in page
    activities = Activity.objects.order_by("pk")
    assert {each.project.slug if each.project else "" for each in activities} == {"demo", ""}
    for activity in activities:
        assert f'data-activity="{activity.uuid}"' in page
    assert f'data-month="{month.month}"' in text_of(member.get(LIST))


def test_the_csv_sums_to_the_page(lab: SmallLab, member: Client) -> None:
    recorded(lab, csv_bytes([aws_row(), aws_row(LineItemType="Tax", UnblendedCost="1")]))
    month = BilledMonth.objects.get()
    lines = text_of(member.get(f"/billing/months/{month.pk}.csv")).splitlines()
    assert len(lines) == 3
    assert ",1000000,hours,0,3823000,USD,1," in lines[2]
    assert lines[1].startswith("tax,,,,")


def test_a_rejected_file_says_why(lab: SmallLab, member: Client) -> None:
    address = uploaded(member, b"a,b\n1,2\n")
    page = text_of(member.get(address))
    assert 'data-state="refused"' in page
    assert "Cost and Usage Report" in page


def test_uploads_that_are_refused_at_once(lab: SmallLab, member: Client) -> None:
    assert member.post(LIST).status_code == 400
    empty = SimpleUploadedFile("a.csv", b"")
    assert member.post(LIST, {"files_of_export": [empty]}).status_code == 400
    same = csv_bytes([aws_row()])
    twice = [SimpleUploadedFile(name, same) for name in ("a.csv", "b.csv")]
    assert member.post(LIST, {"files_of_export": twice}).status_code == 400
    assert not BillingFile.objects.exists()


@pytest.mark.parametrize("utilization", ["", "101", "-1", "NaN", "fifty", "１"])
def test_bad_utilization(lab: SmallLab, member: Client, utilization: str) -> None:
    address = uploaded(member, csv_bytes([aws_row()]))
    values = {"account0": "on", "utilization": utilization}
    assert member.post(f"{address}accounts/", values).status_code == 400


def test_no_account_chosen_and_an_unknown_project(lab: SmallLab, member: Client) -> None:
    address = uploaded(member, csv_bytes([aws_row()]))
    assert member.post(f"{address}accounts/", {"utilization": "50"}).status_code == 400
    values = {"account0": "on", "account0_project": "nowhere", "utilization": "50"}
    assert member.post(f"{address}accounts/", values).status_code == 400


def test_hostile_names_are_text(lab: SmallLab, member: Client) -> None:
    row = aws_row(project=HOSTILE, UsageAccountId=HOSTILE[:100], instanceType=HOSTILE[:100])
    address = uploaded(member, csv_bytes([row, aws_row()]))
    assert HOSTILE not in text_of(member.get(address, follow=True))
    assigned(member, address)
    assert HOSTILE not in text_of(member.get(address))
    member.post(address)
    run_until_idle(worker="test")
    for month in BilledMonth.objects.all():
        assert HOSTILE not in text_of(member.get(f"/billing/months/{month.pk}/"))


def test_other_labs_roles_and_methods(
    lab: SmallLab, member: Client, viewer: Client, outsider: Client
) -> None:
    recorded(lab, csv_bytes([aws_row()]))
    month, file = BilledMonth.objects.get(), BillingFile.objects.get()
    pages = (LIST, f"/billing/months/{month.pk}/", f"/billing/months/{month.pk}.csv")
    for address in pages:
        assert viewer.get(address).status_code == 200
        assert_needs_sign_in(address)
    assert "111111111111" not in text_of(outsider.get(LIST))
    for address in pages[1:]:
        assert outsider.get(address).status_code == 404
    assert_only(member, pages[2], "GET")
    assert outsider.post(pages[1]).status_code == 404
    assert viewer.post(pages[1]).status_code == 403
    assert viewer.post(LIST, {}).status_code == 403
    for address in (f"/billing/{file.uuid}/", f"/billing/{file.uuid}/accounts/"):
        assert viewer.get(address).status_code == 403
        assert outsider.get(address).status_code == 404
        assert_needs_sign_in(address)


def test_pages_need_few_queries(lab: SmallLab, member: Client) -> None:
    recorded(lab, csv_bytes(aws_row(day=day) for day in range(1, 29)))
    few = queries(member, LIST)
    month = BilledMonth.objects.get()
    of_month = queries(member, f"/billing/months/{month.pk}/")
    recorded(lab, csv_bytes(aws_row(day=day, hour=2) for day in range(1, 29)))
    assert queries(member, LIST) <= few
    assert of_month <= 16


def test_activities_are_filtered_by_origin(lab: SmallLab, member: Client) -> None:
    recorded(lab, csv_bytes([aws_row()]))
    entered, _ = record_activity(lab=lab.lab, draft=draft(), by=lab.owner, now=now_us())
    billed = Activity.objects.get(billed_use__isnull=False)
    for origin, shown in (("", {entered, billed}), ("entered", {entered}), ("bill", {billed})):
        page = text_of(member.get(f"/activities/?origin={origin}"))
        for each in (entered, billed):
            assert (f'data-activity="{each.uuid}"' in page) == (each in shown)
    assert member.get("/activities/?origin=other").status_code == 400


def test_a_bill_is_removed_and_its_activities_lead_to_it(lab: SmallLab, member: Client) -> None:
    recorded(lab, csv_bytes([aws_row()]))
    month, activity = BilledMonth.objects.get(), Activity.objects.get()
    page = text_of(member.get(f"/activities/{activity.uuid}/"))
    assert f"/billing/months/{month.pk}/" in page
    assert 'data-form="withdraw"' not in page
    assert 'data-form="remove"' in text_of(member.get(f"/billing/months/{month.pk}/"))
    assert member.post(f"/billing/months/{month.pk}/").status_code == 400
    answer = member.post(f"/billing/months/{month.pk}/", {"reason": "not ours"})
    assert answer.status_code == 302
    activity.refresh_from_db()
    assert activity.withdrawn_us is not None
    assert not BilledMonth.objects.exists()
    assert member.post(f"/billing/months/{month.pk}/").status_code == 404
