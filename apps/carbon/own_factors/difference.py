"""Compare a file with the factors that a lab has. Reads only."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apps.accounts.models import Lab
from apps.carbon.choices import Resolution
from apps.carbon.factor_files import Difference, HourlyFactor, find_difference
from apps.carbon.factors import loaded_factors
from apps.carbon.models import HourFactor
from apps.carbon.own_factors.parsing import OwnTable

_BATCH = 500


class HourGroup(NamedTuple):
    """Hours of one zone from one source."""

    zone: str
    basis: str
    resolution: str
    source: str
    licence: str


@dataclass
class HourDifference:
    """Hours of a file by group. ``unchanged``: number of equal ones. ``kept``: number of estimated
    hours that do not replace a measured one.
    """

    new: dict[HourGroup, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    changed: dict[HourGroup, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    unchanged: int = 0
    kept: int = 0

    @property
    def written(self) -> dict[HourGroup, dict[int, int]]:
        """Return the hours to be written {group: {UTC hour: µg per kWh}}."""
        groups = sorted({*self.new, *self.changed})
        return {group: self.new.get(group, {}) | self.changed.get(group, {}) for group in groups}


@dataclass(frozen=True)
class OwnDifference:
    """Effect of a file on the factors of a lab."""

    periods: Difference
    hours: HourDifference

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rows by outcome."""
        return {
            "new": len(self.periods.new) + sum(map(len, self.hours.new.values())),
            "changed": len(self.periods.changed) + sum(map(len, self.hours.changed.values())),
            "same": self.periods.unchanged + self.hours.unchanged,
            "kept": self.hours.kept,
        }

    @property
    def is_empty(self) -> bool:
        return not self.counts["new"] and not self.counts["changed"]

    def digest(self) -> str:
        """Return a hash of what would be written and replaced."""
        parts = [
            [factor.key for factor in self.periods.new],
            [[old.factor_id, factor.key] for old, factor in self.periods.changed],
            [[*group, sorted(hours)] for group, hours in sorted(self.hours.new.items())],
            [[*group, sorted(hours)] for group, hours in sorted(self.hours.changed.items())],
            self.counts,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def own_difference(lab: Lab, table: OwnTable) -> OwnDifference:
    """Compare a file with the current own factors of a lab, and with its hours of any source."""
    return OwnDifference(
        find_difference(table.factors, loaded_factors(lab)), _hour_difference(lab, table.hours)
    )


def _hour_difference(lab: Lab, factors: Iterable[HourlyFactor]) -> HourDifference:
    difference = HourDifference()
    by_zone: dict[tuple[str, str], list[HourlyFactor]] = defaultdict(list)
    for factor in factors:
        by_zone[factor.zone, factor.basis].append(factor)
    for (zone, basis), rows in by_zone.items():
        current = _current_hours(lab, zone, basis, sorted(row.hour for row in rows))
        for row in rows:
            group = HourGroup(row.zone, row.basis, row.resolution, row.source, row.licence)
            old = current.get(row.hour)
            if old is None:
                difference.new[group][row.hour] = row.ug_per_kwh
            elif old == (row.ug_per_kwh, *group[2:]):
                difference.unchanged += 1
            elif old[1] == Resolution.HOURLY_ACTUAL != row.resolution:
                difference.kept += 1
            else:
                difference.changed[group][row.hour] = row.ug_per_kwh
    return difference


def _current_hours(
    lab: Lab, zone: str, basis: str, hours: Sequence[int]
) -> dict[int, tuple[int, str, str, str]]:
    """Return {hour: value, resolution, source and licence} of the hours that have a factor."""
    rows = HourFactor.objects.filter(
        series__lab=lab, series__zone=zone, series__basis=basis, superseded_us__isnull=True
    )
    names = ("ug_per_kwh", "factor__resolution", "factor__source", "factor__licence")
    return {
        hour: (value, resolution, source, licence)
        for part in _batches(hours)
        for hour, value, resolution, source, licence in rows.filter(hour__in=part).values_list(
            "hour", *names
        )
    }


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _BATCH):
        yield numbers[start : start + _BATCH]
