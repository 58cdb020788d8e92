"""Fetch the hours of a provider: request them, store whole hours as factors, record the result.

A failure changes no factor: the next level of factors applies to the missing hours.
"""

from collections.abc import Mapping
from typing import Protocol

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab
from apps.carbon.providers.connection import ProviderConnection, read_folder
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.readings import HourValues, ProviderError, Readings, whole_hours
from apps.carbon.providers.schedule import is_review_due, next_attempt_us, ranges_to_request
from apps.carbon.providers.services import connection_of
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR, hour_of

RECENT_ONLY = "The plan of the token has only the last 24 hours. Earlier hours stay without."


class HourWriter(Protocol):
    """Stores hours of a zone as factors. Returns the number of new and changed hours."""

    def __call__(
        self,
        *,
        lab: Lab,
        zone: str,
        basis: str,
        is_actual: bool,
        source: str,
        licence: str,
        hours: Mapping[int, int],
        now: int,
    ) -> int: ...


class _Stopped(Exception):
    """The provider was disabled or removed meanwhile."""


def fetch_provider(row: GridProvider, write: HourWriter) -> None:
    """Fetch what is due and record the result. Never raises for a failure of the provider."""
    now = now_us()
    has_review = is_review_due(row.reviewed_us, now)
    remarks: list[str] = []
    try:
        connection = connection_of(row)
        if connection.provider.web is None:
            _store_folder(row, connection, write, remarks, now)
            is_complete = True
        else:
            is_complete = _store_ranges(row, connection, write, remarks, has_review, now)
    except ProviderError as error:
        failures = row.failures + 1
        _save(
            row,
            tried_us=now,
            problem=error.message[:400],
            failures=failures,
            due_us=next_attempt_us(now, failures=failures, wait_s=error.wait_s),
        )
    except _Stopped:
        return
    else:
        _save(
            row,
            tried_us=now,
            succeeded_us=now,
            problem="",
            message=" ".join(dict.fromkeys(remarks))[:400],
            failures=0,
            reviewed_us=now if has_review and is_complete else row.reviewed_us,
            due_us=next_attempt_us(now, failures=0, is_complete=is_complete),
        )


def _save(row: GridProvider, **values: object) -> None:
    GridProvider.objects.filter(pk=row.pk).update(**values)
    for name, value in values.items():
        setattr(row, name, value)


def _store_folder(
    row: GridProvider,
    connection: ProviderConnection,
    write: HourWriter,
    remarks: list[str],
    now: int,
) -> None:
    readings = read_folder(row.lab.slug, connection)
    _add_remarks(readings, remarks)
    end_hour = hour_of(now)
    _store(row, connection, whole_hours(readings.accepted, end_hour=end_hour), write, end_hour, now)


def _store_ranges(
    row: GridProvider,
    connection: ProviderConnection,
    write: HourWriter,
    remarks: list[str],
    has_review: bool,
    now: int,
) -> bool:
    """Fetch and store range by range. Return whether no hours remain. Raises ProviderError."""
    assert connection.provider.web is not None
    end_hour = hour_of(now)
    ranges = ranges_to_request(
        row.fetched_to_hour,
        end_hour=end_hour,
        max_days=connection.provider.web.max_days,
        has_review=has_review,
    )
    for start, end in ranges:
        try:
            body, is_recent = _fetch(connection, start, end)
            readings = connection.parse(body)
        except ProviderError as error:
            if not error.is_empty or end == end_hour:
                raise
            remarks.append("The provider has no values of some earlier days.")
            _save(row, fetched_to_hour=max(end, row.fetched_to_hour or 0))
            continue
        _add_remarks(readings, remarks)
        hours = whole_hours(readings.accepted, end_hour=end_hour if is_recent else end)
        if is_recent:
            remarks.append(RECENT_ONLY)
        else:
            hours = HourValues(
                {hour: ug for hour, ug in hours.actual.items() if hour >= start},
                {hour: ug for hour, ug in hours.estimated.items() if hour >= start},
            )
        _store(row, connection, hours, write, end_hour if is_recent else end, now)
        if is_recent:
            return True
    return not ranges or ranges[-1][1] == end_hour


def _fetch(connection: ProviderConnection, start: int, end: int) -> tuple[bytes, bool]:
    """Return the response for hours, and whether it is that for the last 24 hours, because the plan
    of the token has no ranges.
    """
    web = connection.provider.web
    try:
        return connection.fetch_range(start * US_PER_HOUR, end * US_PER_HOUR), False
    except ProviderError as error:
        if error.status not in (401, 403) or web is None or web.recent_path is None:
            raise
        try:
            return connection.fetch_recent(), True
        except ProviderError:
            raise error from None


def _add_remarks(readings: Readings, remarks: list[str]) -> None:
    """Add a remark about refused readings. Raises ProviderError if all are refused."""
    if not readings.refused:
        return
    number, first = len(readings.refused), readings.refused[0]
    if not readings.accepted:
        raise ProviderError(f"All {number} readings were refused, the first at {first}.")
    remarks.append(f"{number} readings were refused, the first at {first}.")


@transaction.atomic
def _store(
    row: GridProvider,
    connection: ProviderConnection,
    hours: HourValues,
    write: HourWriter,
    fetched_to_hour: int,
    now: int,
) -> None:
    """Store hours as factors. Raises _Stopped."""
    lab = audit.hold(row.lab)
    current = GridProvider.objects.select_for_update().get(pk=row.pk)
    if not current.enabled or current.removed_us is not None:
        raise _Stopped
    provider = connection.provider
    for is_actual, values in ((True, hours.actual), (False, hours.estimated)):
        if values:
            write(
                lab=lab,
                zone=row.zone,
                basis=connection.basis,
                is_actual=is_actual,
                source=provider.source,
                licence=provider.licence,
                hours=values,
                now=now,
            )
    _save(row, fetched_to_hour=max(fetched_to_hour, row.fetched_to_hour or 0))
