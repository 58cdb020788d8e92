"""Writes of electricity prices: flat prices, tariffs, and hourly prices from a file."""

import hashlib
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import Conflict, InvalidInput
from apps.core.text import is_unstorable
from apps.fleet.choices import PriceKind
from apps.fleet.models import ACTIVE, Site, SitePrice, SitePriceHour
from apps.fleet.price_files import parse_prices
from apps.fleet.services.currency import check_currency, replace_unused_currency
from apps.fleet.services.dated_facts import (
    enqueue_site_updates,
    record_audit,
    require_free_hour,
    whole_hour,
    withdraw,
)
from apps.fleet.services.sites import locked
from apps.fleet.tariffs import parse_tariff

FIRST_TARIFF_HOUR = int(datetime(2015, 1, 1, tzinfo=UTC).timestamp()) // 3600
MAX_FILE_NAME = 120
_BATCH = 1000


def set_price(
    *, site: Site, ucurrency_per_kwh: int, currency: str, from_us: int, by: User | None, now: int
) -> SitePrice:
    """Record the electricity price of a site from a UTC hour on, in millionths of ``currency``
    per kWh.
    """
    check_currency(currency)
    if ucurrency_per_kwh < 0:
        raise InvalidInput(
            "The price is below zero.", field="price", hint="Enter the price of one kWh, e.g. 0.31."
        )
    values = {"kind": PriceKind.FLAT, "ucurrency_per_kwh": ucurrency_per_kwh}
    details = {"ucurrency_per_kwh": ucurrency_per_kwh}
    return _record(site, whole_hour(from_us), currency, values, details, by, now)


def set_tariff(
    *,
    site: Site,
    periods: str,
    time_zone: str,
    currency: str,
    from_us: int,
    by: User | None,
    now: int,
) -> SitePrice:
    """Record a time-of-use tariff of a site from a UTC hour on, in the local hours of
    ``time_zone``. ``periods`` as of :func:`apps.fleet.tariffs.parse_tariff`.
    """
    check_currency(currency)
    check_time_zone(time_zone)
    tariff, hour = parse_tariff(periods), whole_hour(from_us)
    if hour < FIRST_TARIFF_HOUR:
        raise InvalidInput(
            "A tariff begins in 2015 or later.",
            field="from_day",
            hint="Record a flat price for earlier years.",
        )
    content = {
        "time_zone": time_zone,
        "text": tariff.text,
        "week": list(tariff.week),
        "range": [min(tariff.week), max(tariff.week)],
    }
    values = {"kind": PriceKind.TARIFF, "content": content}
    details = {"tariff": tariff.text, "time_zone": time_zone}
    return _record(site, hour, currency, values, details, by, now)


def check_time_zone(name: str) -> None:
    """Raise InvalidInput unless ``name`` is a time zone."""
    try:
        if is_unstorable(name):
            raise ValueError
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidInput(
            f"{name[:40]!r} is not a time zone.",
            field="time_zone",
            hint="Enter a name such as Europe/Berlin.",
        ) from error


@transaction.atomic
def _record(
    site: Site,
    hour: int,
    currency: str,
    values: dict[str, Any],
    details: dict[str, Any],
    by: User | None,
    now: int,
) -> SitePrice:
    """Record a price that is valid from an hour on."""
    facts = locked(site).prices.filter(ACTIVE).exclude(kind=PriceKind.HOURLY)
    Lab.objects.filter(pk=site.lab_id, currency="").update(currency=currency)
    site_price = SitePrice.objects.create(
        site=site,
        from_hour=require_free_hour(facts, hour, f"A price of {site.name}"),
        currency=currency,
        recorded_us=now,
        recorded_by=by,
        **values,
    )
    enqueue_site_updates(site.lab)
    details = {**details, "currency": currency, "from_hour": hour}
    record_audit(site.lab, by, Act.SITE_PRICE, site.name, details, now)
    return site_price


@transaction.atomic
def record_hourly_prices(
    *, site: Site, text: str, file_name: str, currency: str, by: User | None, now: int
) -> SitePrice:
    """Record the hourly prices of a CSV file, all or none. They precede prices of other kinds, and
    hours of earlier files.
    """
    check_currency(currency)
    file = parse_prices(text)
    if file.bad_rows:
        raise InvalidInput(
            f"{len(file.bad_rows)} bad rows. Nothing was recorded.",
            field="file",
            hint="Correct the rows and upload the file again.",
        )
    locked(site)
    Lab.objects.filter(pk=site.lab_id, currency="").update(currency=currency)
    prices = file.hours.values()
    content = {
        "file_name": file_name[:MAX_FILE_NAME],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "hours": len(file.hours),
        "last_hour": max(file.hours),
        "range": [min(prices), max(prices)],
    }
    price = SitePrice.objects.create(
        site=site,
        kind=PriceKind.HOURLY,
        from_hour=min(file.hours),
        currency=currency,
        content=content,
        recorded_us=now,
        recorded_by=by,
    )
    rows = (
        SitePriceHour(price=price, hour=hour, ucurrency_per_kwh=value)
        for hour, value in sorted(file.hours.items())
    )
    SitePriceHour.objects.bulk_create(rows, batch_size=_BATCH)
    enqueue_site_updates(site.lab)
    details = {**content, "currency": currency, "from_hour": price.from_hour}
    record_audit(site.lab, by, Act.SITE_PRICE, site.name, details, now)
    return price


@transaction.atomic
def withdraw_hourly_prices(*, price: SitePrice, by: User | None, now: int) -> None:
    """Withdraw the hourly prices of a file. What they replaced applies again."""
    site = locked(price.site)
    facts = SitePrice.objects.filter(ACTIVE, pk=price.pk, kind=PriceKind.HOURLY)
    if not facts.exists():
        raise Conflict(
            "These prices are already withdrawn.", hint="Reload the page to see the current prices."
        )
    withdraw(facts, by, now)
    replace_unused_currency(site.lab)
    enqueue_site_updates(site.lab)
    details = {"entry": str(price), "file_name": price.content["file_name"]}
    record_audit(site.lab, by, Act.SITE_WITHDRAWN, site.name, details, now)
