"""Content of the page of a file with own factors: its preview, and its result."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from apps.accounts.choices import Basis
from apps.carbon.choices import Resolution
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.progress import repriced_percent
from apps.carbon.own_factors.summary import sites_json
from apps.carbon.own_factors.withdrawal import withdrawal_effect
from apps.dashboard.formatting import grams_per_kwh
from apps.fleet.models import Site
from apps.fleet.selectors import sites_of
from apps.fleet.zones import zones


@dataclass(frozen=True)
class FactorRow:
    """A year or month of a file, with the value that applied before."""

    values: Mapping[str, Any]

    @property
    def value(self) -> str:
        return grams_per_kwh(self.values["ug_per_kwh"])

    @property
    def before(self) -> str:
        before_ug = self.values["before_ug"]
        return "" if before_ug is None else grams_per_kwh(before_ug)

    @property
    def resolution(self) -> str:
        return str(Resolution(self.values["resolution"]).label)

    @property
    def basis(self) -> str:
        return str(Basis(self.values["basis"]).label)


@dataclass(frozen=True)
class HoursRow:
    """Hours of a zone from one source."""

    values: Mapping[str, Any]

    @property
    def zone_name(self) -> str:
        return zones()[self.values["zone"]].name

    @property
    def first(self) -> str:
        return iso_hour(self.values["first_hour"])

    @property
    def last(self) -> str:
        return iso_hour(self.values["last_hour"])

    @property
    def range_text(self) -> str:
        low, high = (grams_per_kwh(self.values[name]) for name in ("low_ug", "high_ug"))
        return low if low == high else f"{low}–{high}"

    @property
    def quality(self) -> str:
        is_actual = self.values["resolution"] == Resolution.HOURLY_ACTUAL
        return "measured" if is_actual else "estimated"

    @property
    def basis(self) -> str:
        return str(Basis(self.values["basis"]).label)


@dataclass(frozen=True)
class SiteRow:
    """A site whose emissions change. ``months`` as 'January to March 2026'."""

    site: Site
    zones: list[str]
    months: list[str]
    number: int


@dataclass(frozen=True)
class FactorFilePage:
    """A file. ``unusual``: number of values to be checked. ``percent``: how far figures are priced
    again, None before it began.
    """

    file: OwnFactorFile
    counts: Mapping[str, int]
    rows: list[FactorRow]
    hours: list[HoursRow]
    bad_rows: list[Mapping[str, Any]]
    more_bad: int
    more: int
    unusual: int
    sites: list[SiteRow]
    other_bases: list[str]
    percent: int | None
    is_withdrawal: bool

    @property
    def is_confirmed(self) -> bool:
        return self.file.confirmed_us is not None

    @property
    def is_withdrawn(self) -> bool:
        return self.file.withdrawn_us is not None

    @property
    def is_running(self) -> bool:
        return self.is_confirmed and self.percent != 100

    @property
    def can_confirm(self) -> bool:
        is_changed = bool(self.counts["new"] or self.counts["changed"])
        return is_changed and not self.is_confirmed and not self.counts["wrong"]


def factor_file_page(
    file: OwnFactorFile, now: int, *, is_withdrawal: bool = False
) -> FactorFilePage:
    """Return the page of a file. ``is_withdrawal``: with the sites that change if its factors are
    withdrawn, instead of those that its import changed.
    """
    summary: dict[str, Any] = file.summary
    bad_rows, changed = summary["bad_rows"], summary["sites"]
    is_withdrawal &= file.confirmed_us is not None and file.withdrawn_us is None
    if is_withdrawal:
        changed = sites_json(withdrawal_effect(file, now))
    sites = {site.pk: site for site in sites_of(file.lab)}
    percent = None
    if file.confirmed_us is not None:
        percent = repriced_percent(
            file.lab,
            from_hour=file.from_hour,
            to_hour=file.to_hour,
            since_us=file.withdrawn_us or file.confirmed_us,
            now=now,
        )
    return FactorFilePage(
        file=file,
        counts=summary["counts"],
        rows=[FactorRow(row) for row in summary["rows"]],
        hours=[HoursRow(row) for row in summary["hours"]],
        bad_rows=bad_rows,
        more_bad=summary["counts"]["wrong"] - len(bad_rows),
        more=summary["more"],
        unusual=summary["unusual"],
        sites=[
            SiteRow(
                sites[each["site"]],
                each["zones"],
                month_ranges(each["months"]),
                len(each["months"]),
            )
            for each in changed
            if each["site"] in sites
        ],
        other_bases=[
            str(Basis(basis).label) for basis in summary["bases"] if basis != file.lab.basis
        ],
        percent=percent,
        is_withdrawal=is_withdrawal,
    )


def month_ranges(months: Iterable[str]) -> list[str]:
    """Return consecutive months (as 2026-01) as texts: 'November 2025 to January 2026'."""
    ranges: list[tuple[date, date]] = []
    for month in (date.fromisoformat(f"{text}-01") for text in sorted(months)):
        if ranges and _number(month) == _number(ranges[-1][1]) + 1:
            ranges[-1] = (ranges[-1][0], month)
        else:
            ranges.append((month, month))
    return [
        f"{first:%B %Y}" if first == last else f"{first:%B %Y} to {last:%B %Y}"
        for first, last in ranges
    ]


def _number(month: date) -> int:
    return month.year * 12 + month.month
