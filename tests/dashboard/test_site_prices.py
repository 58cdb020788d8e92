"""/sites/<id>/prices/ : a week of prices, tariffs, and hourly prices from a file."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.carbon.figures.cost import cost_of
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.carbon.models import HourPrice
from apps.core.jobs import run_until_idle
from apps.fleet.models import SitePrice, SitePriceHour
from apps.fleet.price_files import MAX_BYTES
from tests.builders import SmallLab
from tests.dashboard.support import (
    HOSTILE,
    HOUR,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    queries,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
TARIFF = {
    "action": "tariff", "periods": "Mon-Fri 07-20 0.34\nother 0.22", "currency": "eur",
    "time_zone": "Europe/Berlin", "from_day": "2026-10-01",
}  # fmt: skip
HEADER = "hour,price_per_mwh\n"
GOOD = HEADER + "2026-11-02T08:00Z,91.5\n2026-11-02T10:00+01:00,-3.21\n"


def path(lab: SmallLab) -> str:
    return f"/sites/{lab.site.pk}/prices/"


def upload(client: Client, lab: SmallLab, text: str | bytes, currency: str = "EUR") -> str:
    """Return the page that shows the preview or the errors of a file."""
    content = text.encode() if isinstance(text, str) else text
    file = SimpleUploadedFile("market.csv", content)
    return text_of(client.post(path(lab), {"action": "hours", "file": file, "currency": currency}))


def record(client: Client, lab: SmallLab, text: str, currency: str = "EUR") -> None:
    body = {
        "action": "record-hours", "text": text, "file_name": "market.csv", "currency": currency
    }  # fmt: skip
    response = client.post(path(lab), body)
    assert response.status_code == 302, text_of(response)
    run_until_idle(worker="test")


def cells(page: str) -> list[str]:
    return re.findall(r'data-price="([^"]*)"', page)


def test_a_tariff_is_recorded_and_shown_by_local_hour(owner: Client, lab: SmallLab) -> None:
    assert owner.post(path(lab), TARIFF).status_code == 302
    page = text_of(owner.get(path(lab) + "?week=2026-11-05"))
    assert 'data-week="2026-11-02"' in page
    day, night = "340000", "220000"
    assert cells(page) == [night] * 7 + [day] * 5 + [night] * 2 + [night] * 7
    assert 'data-kind="tariff"' in page
    assert "data-unknown-hours" not in page
    site = text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert "0.22 to 0.34 EUR per kWh by time of use" in site
    assert AuditEntry.objects.filter(action="site.price").count() == 1


def test_hours_without_a_price_are_unknown_not_zero(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.get(path(lab)))
    assert 'data-unknown-hours="168"' in page
    assert set(cells(page)) == {""}
    assert 'data-files="none"' in page
    assert 'data-prices="none"' in page


def test_the_week_in_which_clocks_go_back_has_169_hours(owner: Client, lab: SmallLab) -> None:
    record(
        owner, lab,
        "hour,price_per_kwh\n2026-10-25T02:00+02:00,0.1\n2026-10-25T02:00+01:00,-0.2\n",
    )  # fmt: skip
    page = text_of(owner.get(path(lab) + "?week=2026-10-25"))
    assert 'data-unknown-hours="167"' in page
    assert "100000 -200000" in cells(page)
    assert "no such hour" not in page
    assert "no such hour" in text_of(owner.get(path(lab) + "?week=2026-03-29"))


def test_a_file_is_previewed_with_its_effect_and_recorded(owner: Client, lab: SmallLab) -> None:
    use(lab)
    page = upload(owner, lab, "\ufeff" + GOOD)
    assert 'data-new="2" data-changed="0" data-same="0"' in page
    assert not SitePrice.objects.exists()
    assert not HourPrice.objects.exists()
    [text] = re.findall(r"<textarea[^>]*name=\"text\"[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    record(owner, lab, text)
    lab.lab.refresh_from_db()
    assert SitePriceHour.objects.count() == 2
    cost = cost_of(lab.lab, FigureQuery(COST, HOUR, HOUR + 1))
    assert (cost.known_ppm, cost.own.currency) == (1_000_000, "EUR")
    assert cost.own.cost_ucurrency > 0
    page = upload(owner, lab, HEADER + "2026-11-02T08:00Z,91.5\n2026-11-02T09:00Z,5\n")
    assert 'data-new="0" data-changed="1" data-same="1"' in page
    entry = AuditEntry.objects.get(action="site.price")
    assert entry.details["hours"] == 2


def test_wrong_rows_are_listed_by_line_and_nothing_is_recorded(
    owner: Client, lab: SmallLab
) -> None:
    text = HEADER + "2026-11-02T08:00Z,91.5\nyesterday,1\n2026-11-02T08:00Z,2\n2026-11-02T09:00Z,x"
    page = upload(owner, lab, text)
    assert re.findall(r'data-bad-line="(\d+)"', page) == ["3", "4", "5"]
    assert "data-new=" not in page
    assert not SitePrice.objects.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"hour;price_per_kwh\n", b"\xff\xfe", HEADER.encode(), b"x" * (MAX_BYTES + 1)],
)
def test_a_file_that_is_no_table_is_an_error_of_the_field(
    owner: Client, lab: SmallLab, content: bytes
) -> None:
    page = upload(owner, lab, content)
    assert 'data-field-error="file"' in page
    assert not SitePrice.objects.exists()


def test_a_withdrawn_file_stays_listed_and_has_no_effect(owner: Client, lab: SmallLab) -> None:
    record(owner, lab, GOOD)
    price = SitePrice.objects.get()
    body = {"action": "withdraw-hours", "price": price.pk}
    assert owner.post(path(lab), body).status_code == 302
    run_until_idle(worker="test")
    assert not HourPrice.objects.exists()
    page = text_of(owner.get(path(lab)))
    assert "data-withdrawn" in page
    assert f'value="{price.pk}"' not in page
    assert owner.post(path(lab), body).status_code == 409
    assert owner.post(path(lab), {**body, "price": "x"}).status_code == 400


def test_a_flat_price_is_withdrawn_while_hourly_prices_stay(owner: Client, lab: SmallLab) -> None:
    owner.post(path(lab), TARIFF)
    record(owner, lab, GOOD)
    tariff = SitePrice.objects.get(kind="tariff")
    body = {"action": "withdraw", "kind": "price", "fact": tariff.pk}
    assert owner.post(f"/sites/{lab.site.pk}/", body).status_code == 302
    run_until_idle(worker="test")
    assert HourPrice.objects.count() == 2
    hourly = SitePrice.objects.get(kind="hourly")
    response = owner.post(f"/sites/{lab.site.pk}/", {**body, "fact": hourly.pk})
    assert response.status_code == 409  # it is no dated fact


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"periods": "Mon-Fri 07-20 0.34"}, "periods"),
        ({"periods": ""}, "periods"),
        ({"periods": HOSTILE}, "periods"),
        ({"currency": "XXX"}, "currency"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"time_zone": "\x00"}, "time_zone"),
        ({"from_day": ""}, "from_day"),
        ({"from_day": "2014-12-31"}, "from_day"),
    ],
)
def test_wrong_tariffs_are_errors_of_their_field(
    owner: Client, lab: SmallLab, change: dict[str, str], field: str
) -> None:
    response = owner.post(path(lab), {**TARIFF, **change})
    assert response.status_code == 400
    assert fields_with_errors(text_of(response)) == [field]
    assert HOSTILE not in text_of(response)
    assert not SitePrice.objects.exists()


def test_each_wrong_line_of_a_tariff_is_listed(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.post(path(lab), {**TARIFF, "periods": "x\nother 1\nMon 5-4 1"}))
    assert "Line 1: " in page
    assert "Line 3: " in page


def test_a_second_tariff_of_a_day_is_a_conflict(owner: Client, lab: SmallLab) -> None:
    owner.post(path(lab), TARIFF)
    assert owner.post(path(lab), TARIFF).status_code == 409


@pytest.mark.parametrize("week", ["x", "1970-01-01", "9999-01-01", "2026-02-30"])
def test_a_wrong_week_is_refused(owner: Client, lab: SmallLab, week: str) -> None:
    assert owner.get(path(lab), {"week": week}).status_code == 400


def test_the_explanation_names_each_price_with_its_source(owner: Client, lab: SmallLab) -> None:
    use(lab)
    owner.post(path(lab), TARIFF)
    record(owner, lab, GOOD)
    page = text_of(
        owner.get(
            "/explain/?metric=cost_ucurrency&from=2026-11-02T00:00Z&to=2026-11-03T00:00Z&currency=EUR"
        )
    )
    assert "of the hours in the file market.csv" in page
    assert "data-order-of-prices" in page
    assert "data-mean" in page


def test_queries_do_not_grow_with_prices(owner: Client, lab: SmallLab) -> None:
    owner.post(path(lab), TARIFF)
    owner.get(path(lab))
    few = queries(owner, path(lab))
    for month in range(11, 13):
        owner.post(path(lab), {**TARIFF, "from_day": f"2026-{month}-01"})
    assert queries(owner, path(lab)) == few


def test_others_may_not(
    lab: SmallLab, viewer: Client, member: Client, outsider: Client, owner: Client
) -> None:
    assert_only(owner, path(lab), "GET", "POST")
    assert_needs_sign_in(path(lab))
    for client in (viewer, member):
        assert client.get(path(lab)).status_code == 200
        assert "Upload hourly prices" not in text_of(client.get(path(lab)))
        assert client.post(path(lab), TARIFF).status_code == 403
    assert outsider.get(path(lab)).status_code == 404
    assert outsider.post(path(lab), TARIFF).status_code == 404
    assert owner.post(path(lab), {"action": "nothing"}).status_code == 400
