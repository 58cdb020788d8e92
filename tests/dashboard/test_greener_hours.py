"""The page Greener hours: the greenest start of a job, and what is unknown."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.carbon.hourly_factors import record_hours
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import ProviderInput, add_provider
from apps.core.clock import now_us
from apps.core.units import UG_PER_G, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import correct_zone, create_site
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db


def record_four_weeks(small: SmallLab) -> int:
    """Record 400 g/kWh, and 100 in the hours that come in three and four hours. Return the
    current hour.
    """
    now = now_us()
    first = hour_of(now)
    lab = small.lab
    zone = ZoneInfo(lab.time_zone)  # the usual hour follows the local clock

    def clock(hour: int) -> int:
        return datetime.fromtimestamp(hour * 3600, tz=zone).hour

    low = {clock(first + 3), clock(first + 4)}
    hours = {
        hour: (100 if clock(hour) in low else 400) * UG_PER_G
        for hour in range(first - 28 * 24, first)
    }
    record_hours(
        lab=lab, zone="DE", basis=lab.basis, is_actual=True, source="S", licence="CC0",
        hours=hours, now=now,
    )  # fmt: skip
    return first


def test_the_greenest_start_with_chart_table_and_command() -> None:
    small = small_lab()
    first = record_four_weeks(small)
    page = text_of(client_of(small.owner).get("/greener-hours/?hours=2&wait=12"))
    assert hour_of(now_us()) == first
    assert f'data-best="{first + 3}" data-ug="{100 * UG_PER_G}"' in page
    assert "75 %" in re.sub(r"\s|&nbsp;", " ", page[page.index("<h1") : page.index("</h1>")])
    assert page.count("data-greenest") == 2
    assert 'data-chart="greener-hours"' in page
    command = page[page.index('id="wait-command"') :]
    assert "labcarbon-collect run --wait-greenest --hours 2 --latest-start 20" in command


def test_now_if_no_later_start_is_greener() -> None:
    small = small_lab()
    now = now_us()
    first = hour_of(now)
    record_hours(
        lab=small.lab, zone="DE", basis=small.lab.basis, is_actual=True, source="S",
        licence="CC0", hours=dict.fromkeys(range(first - 28 * 24, first), 9 * UG_PER_G), now=now,
    )  # fmt: skip
    page = text_of(client_of(small.owner).get("/greener-hours/"))
    assert f'data-best="{first}"' in page


def test_what_is_unknown_is_stated_and_not_zero() -> None:
    small = small_lab()
    owner = client_of(small.owner)
    assert "data-no-hours" in text_of(owner.get("/greener-hours/"))
    correct_zone(site=small.site, zone="", by=small.owner, now=T0)
    assert "data-no-zone" in text_of(owner.get("/greener-hours/"))
    assert "data-chart" not in text_of(owner.get("/greener-hours/"))


def test_a_job_longer_than_the_known_hours_has_no_start() -> None:
    small = small_lab()
    now = now_us()
    first = hour_of(now)
    hours = {first - week * 168 + offset: 300 * UG_PER_G for week in (1, 2) for offset in range(5)}
    record_hours(
        lab=small.lab, zone="DE", basis=small.lab.basis, is_actual=True, source="S",
        licence="CC0", hours=hours, now=now,
    )  # fmt: skip
    owner = client_of(small.owner)
    assert "data-no-start" in text_of(owner.get("/greener-hours/?hours=8"))
    assert "data-best" in text_of(owner.get("/greener-hours/?hours=4"))


def test_the_reason_for_a_missing_forecast() -> None:
    small = small_lab()
    record_four_weeks(small)
    provider = add_provider(
        lab=small.lab, values=ProviderInput("energy_charts", "DE"), by=small.owner, now=now_us()
    )
    GridProvider.objects.filter(pk=provider.pk).update(forecast_problem="No <access>.")
    page = text_of(client_of(small.owner).get("/greener-hours/"))
    assert "No &lt;access&gt;." in page[page.index("data-forecast-problem") :]


def test_sites_of_the_lab_only() -> None:
    small, other = small_lab(), small_lab(name="Other")
    owner = client_of(small.owner)
    second = create_site(
        lab=small.lab, name="Attic", kind=SiteKind.WORKSTATION, zone="FR", by=small.owner, now=T0
    )
    assert owner.get(f"/greener-hours/?site={second.pk}").status_code == 200
    assert owner.get(f"/greener-hours/?site={other.site.pk}").status_code == 400


@pytest.mark.parametrize("query", ["hours=0", "hours=5", "wait=1", "site=x", "hours=%00"])
def test_invalid_choices(query: str) -> None:
    assert client_of(small_lab().owner).get(f"/greener-hours/?{query}").status_code == 400


def test_csv_with_exact_integers() -> None:
    small = small_lab()
    record_four_weeks(small)
    response = client_of(small.owner).get("/greener-hours/hours.csv?hours=1&wait=12")
    lines = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "hour_utc,zone,ug_per_kwh,source"
    assert len(lines) == 14
    assert lines[4].endswith(",DE,100000000,usual")


def test_the_number_of_queries() -> None:
    small = small_lab()
    record_four_weeks(small)
    owner = client_of(small.owner)
    owner.get("/greener-hours/")
    with CaptureQueriesContext(connection) as short:
        owner.get("/greener-hours/?hours=1&wait=12")
    with CaptureQueriesContext(connection) as long:
        owner.get("/greener-hours/?hours=72&wait=72")
    assert len(long) == len(short) <= 20
