"""Formulas of artifacts: match keys, storage energy and emissions, break-even, savings of
fine-tuning. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low

from labcarbon_collect.lc1 import manifest_hash, role_hash

from apps.artifacts.choices import Form, Medium
from apps.catalog.storage_power import MEDIUM_POWER, storage_mj
from apps.core.units import HOURS_PER_YEAR, emission_ug

_PPM = 10**6


def content_hash(form: str, digest: str, size: int) -> str:
    """Return the manifest hash (docs/fingerprint.md) of a file or folder, as used in fingerprints.

    ``digest``: 64 hex digits. The digest of a folder is its manifest hash already.
    """
    return digest if form == Form.FOLDER else manifest_hash([(b"", size, bytes.fromhex(digest))])


def start_match_key(form: str, digest: str, size: int) -> str:
    """Return part M of the fingerprint of a run that starts from this content alone."""
    return role_hash("start", [("", content_hash(form, digest, size))])


def data_match_key(form: str, digest: str, size: int) -> str:
    """Return part D of the fingerprint of a run that reads this content as its only data."""
    return role_hash("data", [("data", content_hash(form, digest, size))])


def break_even(storage_mj_a_year: int | None, retrain_mj: int | None) -> Fraction | None:
    """Return the reuse probability per year above which storing takes less energy than retraining.

    None if one of the two is unknown, or if retraining takes no measured energy.
    """
    return (
        Fraction(storage_mj_a_year, retrain_mj)
        if storage_mj_a_year is not None and retrain_mj
        else None
    )


def to_ppm(chance: Fraction | None) -> int | None:
    """Return a probability in parts per million, half up; None for None."""
    return None if chance is None else int(chance * _PPM + Fraction(1, 2))


@dataclass(frozen=True)
class Spread:
    """Energy or emissions of several runs, mJ or µg: lower median (an actual value), minimum and
    maximum.
    """

    runs: int
    median: int
    low: int
    high: int


def compute_spread(values: Sequence[int]) -> Spread | None:
    """Return the spread of values; None without values."""
    return Spread(len(values), median_low(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Saving:
    """What fine-tuning saves compared with training, with its range: 0 <= low <= saved <= high <=
    training.
    """

    saved: int
    low: int
    high: int


def compute_saving(training: int | None, fine_tuning: Spread | None) -> Saving | None:
    """Return training minus fine-tuning; None if either is unknown. The saving is never
    negative.
    """
    if training is None or fine_tuning is None:
        return None
    return Saving(
        *(
            max(0, training - amount)
            for amount in (fine_tuning.median, fine_tuning.high, fine_tuning.low)
        )
    )


@dataclass(frozen=True)
class StoredBytes:
    """Bytes on a medium. ``pue_ppm``: PUE of the building, None if unknown."""

    medium: str
    bytes: int
    pue_ppm: int | None = None


@dataclass(frozen=True)
class StorageEnergy:
    """Storage energy of a period, mJ, with its range.

    ``unknown_bytes``: bytes on an unknown medium, not included. ``without_pue_bytes``: bytes
    included without the share of the building.
    """

    energy_mj: int = 0
    low_mj: int = 0
    high_mj: int = 0
    unknown_bytes: int = 0
    without_pue_bytes: int = 0

    def __add__(self, other: "StorageEnergy") -> "StorageEnergy":
        return StorageEnergy(
            self.energy_mj + other.energy_mj,
            self.low_mj + other.low_mj,
            self.high_mj + other.high_mj,
            self.unknown_bytes + other.unknown_bytes,
            self.without_pue_bytes + other.without_pue_bytes,
        )

    @property
    def is_known(self) -> bool:
        """Return whether some of the energy is known."""
        return self.high_mj > 0 or not self.unknown_bytes


def storage_energy(stored: StoredBytes, hours: int = HOURS_PER_YEAR) -> StorageEnergy:
    """Return the energy of storing bytes for ``hours``. The range is that of the medium."""
    power = MEDIUM_POWER.get(Medium(stored.medium))
    if power is None:
        return StorageEnergy(unknown_bytes=stored.bytes)
    pue = _PPM if stored.pue_ppm is None else stored.pue_ppm
    energy, low, high = (
        storage_mj(stored.bytes, hours, uwh, pue)
        for uwh in (power.uwh, power.low_uwh, power.high_uwh)
    )
    return StorageEnergy(
        energy, low, high, without_pue_bytes=stored.bytes if stored.pue_ppm is None else 0
    )


def total_storage_energy(lots: Iterable[StoredBytes], hours: int = HOURS_PER_YEAR) -> StorageEnergy:
    """Return the exact sum of the storage energy of ``lots``.

    Errors of one table of media are correlated, so the ends of the ranges are added.
    """
    return sum((storage_energy(lot, hours) for lot in lots), StorageEnergy())


def format_bytes(number: int) -> str:
    """Return a number of bytes as text in decimal units with three digits: 91.2 MB."""
    value, unit = Fraction(number), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if value < Fraction(9995, 10) or unit == "EB":
            break
        value /= 1000
    whole = unit == "B" or value >= Fraction(9995, 100)
    return f"{float(value):.0f} {unit}" if whole else f"{float(value):.3g} {unit}"


@dataclass(frozen=True)
class StorageLot:
    """Copies of one project on one medium of one node.

    ``project_id`` None: no project. ``node_id`` None: at an address. ``ug_per_kwh``: emission
    factor of the site, None if unknown.
    """

    project_id: int | None
    medium: str
    node_id: int | None
    copies: int
    bytes: int
    pue_ppm: int | None = None
    ug_per_kwh: int | None = None


@dataclass(frozen=True)
class StorageCost:
    """Cost of storing copies for a period: energy (mJ) and emissions (µg CO2e), with their ranges.

    ``priced_bytes``: bytes with known energy and a factor. ``unpriced_bytes``: bytes with known
    energy (``unpriced_mj``) but no factor, not in the emissions. Bytes on an unknown medium are in
    neither.
    """

    copies: int = 0
    bytes: int = 0
    energy: StorageEnergy = StorageEnergy()
    emission_ug: int = 0
    low_ug: int = 0
    high_ug: int = 0
    priced_bytes: int = 0
    unpriced_bytes: int = 0
    unpriced_mj: int = 0

    def __add__(self, other: "StorageCost") -> "StorageCost":
        return StorageCost(
            self.copies + other.copies,
            self.bytes + other.bytes,
            self.energy + other.energy,
            self.emission_ug + other.emission_ug,
            self.low_ug + other.low_ug,
            self.high_ug + other.high_ug,
            self.priced_bytes + other.priced_bytes,
            self.unpriced_bytes + other.unpriced_bytes,
            self.unpriced_mj + other.unpriced_mj,
        )

    @property
    def is_emission_known(self) -> bool:
        """Return whether some of the emissions are known."""
        return self.priced_bytes > 0 or not self.bytes

    @property
    def is_emission_complete(self) -> bool:
        """Return whether all emissions are known."""
        return self.priced_bytes == self.bytes and not self.energy.without_pue_bytes


def storage_cost(lot: StorageLot, hours: int = HOURS_PER_YEAR) -> StorageCost:
    """Return the cost of storing a lot for ``hours``: its energy × the factor, rounded half up
    once.
    """
    year = storage_energy(StoredBytes(lot.medium, lot.bytes, lot.pue_ppm), hours)
    if year.unknown_bytes:
        return StorageCost(lot.copies, lot.bytes, year)
    if lot.ug_per_kwh is None:
        return StorageCost(
            lot.copies, lot.bytes, year, unpriced_bytes=lot.bytes, unpriced_mj=year.energy_mj
        )
    ug, low, high = (
        emission_ug(mj, _PPM, lot.ug_per_kwh) for mj in (year.energy_mj, year.low_mj, year.high_mj)
    )
    return StorageCost(lot.copies, lot.bytes, year, ug, low, high, priced_bytes=lot.bytes)


def total_storage_cost(lots: Iterable[StorageLot], hours: int = HOURS_PER_YEAR) -> StorageCost:
    """Return the exact sum of the costs of ``lots``, independent of order and grouping."""
    return sum((storage_cost(lot, hours) for lot in lots), StorageCost())
