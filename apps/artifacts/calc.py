"""Artifacts: keys that join them with fingerprints, the energy that keeping them takes, when keeping pays. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from labcarbon_collect.lc1 import manifest_hash, role_hash

from apps.artifacts.choices import Form, Medium

HOURS_A_YEAR = 8760
_TB = 10**12
_PPM = 10**6
# 1 µWh is 3.6 mJ.
_MJ_PER_UWH = Fraction(36, 10)


@dataclass(frozen=True)
class MediumPower:
    """What a terabyte draws on a medium all the time, µWh per TB-hour, with its range and where that is from."""

    uwh: int
    low_uwh: int
    high_uwh: int
    source: str


_CCF = (
    "Cloud Carbon Footprint, Methodology (2020), after Cloud Jewels (Etsy) and the 2016 US Data Center Energy Usage Report; "
    "Apache-2.0"
)
# Of an unknown medium nothing is known: no figure stands in for it.
POWER = {
    Medium.HDD: MediumPower(650_000, 250_000, 1_000_000, f"{_CCF}: 6.5 W for a disk of 10 TB"),
    Medium.SSD: MediumPower(1_200_000, 300_000, 2_000_000, f"{_CCF}: 6 W for 5 TB"),
    Medium.OBJECT: MediumPower(1_950_000, 1_300_000, 3_900_000, f"{_CCF}: a hard disk times three copies (our assumption)"),
    Medium.TAPE: MediumPower(0, 0, 20_000, "A cartridge at rest draws nothing; its library is left out (our assumption)"),
}


def content_hash(form: str, digest: str, size: int) -> str:
    """Return what a fingerprint calls content: the manifest hash (docs/fingerprint.md) of a file or folder.

    ``digest``: 64 hex digits; a folder's is that hash already.
    """
    return digest if form == Form.FOLDER else manifest_hash([(b"", size, bytes.fromhex(digest))])


def start_key(form: str, digest: str, size: int) -> str:
    """Return part M of the fingerprint of a run that begins from this and nothing else."""
    return role_hash("start", [("", content_hash(form, digest, size))])


def data_key(form: str, digest: str, size: int) -> str:
    """Return part D of the fingerprint of a run that reads this as its only data."""
    return role_hash("data", [("data", content_hash(form, digest, size))])


def storage_mj(size: int, hours: int, uwh_per_tb_hour: int, pue_ppm: int = _PPM) -> int:
    """Return the energy (mJ, half up) of keeping ``size`` bytes for ``hours``: bytes × Wh per TB-hour × hours × PUE."""
    exact = Fraction(size * hours * uwh_per_tb_hour * pue_ppm, _TB * _PPM) * _MJ_PER_UWH
    return int(exact + Fraction(1, 2))


def break_even(storage_mj_a_year: int, retrain_mj: int) -> Fraction | None:
    """Return the chance of reuse within a year above which keeping takes less energy than making it again; None where
    making it takes nothing that is known of."""
    return Fraction(storage_mj_a_year, retrain_mj) if retrain_mj > 0 else None


@dataclass(frozen=True)
class Lying:
    """Bytes that lie on a medium. ``pue_ppm``: of the building they lie in, None where nobody knows it."""

    medium: str
    bytes: int
    pue_ppm: int | None = None


@dataclass(frozen=True)
class Keeping:
    """What keeping bytes for a time takes, mJ, with its range. ``unknown_bytes`` lie on a medium that nobody named and are
    in no sum; ``without_pue_bytes`` are in it by what they draw themselves."""

    energy_mj: int = 0
    low_mj: int = 0
    high_mj: int = 0
    unknown_bytes: int = 0
    without_pue_bytes: int = 0

    def __add__(self, other: "Keeping") -> "Keeping":
        return Keeping(
            self.energy_mj + other.energy_mj,
            self.low_mj + other.low_mj,
            self.high_mj + other.high_mj,
            self.unknown_bytes + other.unknown_bytes,
            self.without_pue_bytes + other.without_pue_bytes,
        )

    @property
    def known(self) -> bool:
        """Return whether anything of it is known."""
        return self.high_mj > 0 or not self.unknown_bytes


def keeping(lying: Lying, hours: int = HOURS_A_YEAR) -> Keeping:
    """Return what keeping one lot of bytes takes for ``hours``; its range is the medium's."""
    power = POWER.get(Medium(lying.medium))
    if power is None:
        return Keeping(unknown_bytes=lying.bytes)
    pue = _PPM if lying.pue_ppm is None else lying.pue_ppm
    energy, low, high = (storage_mj(lying.bytes, hours, uwh, pue) for uwh in (power.uwh, power.low_uwh, power.high_uwh))
    return Keeping(energy, low, high, without_pue_bytes=lying.bytes if lying.pue_ppm is None else 0)


def kept(lots: Iterable[Lying], hours: int = HOURS_A_YEAR) -> Keeping:
    """Return what keeping all of ``lots`` takes: the sum of what each takes, exactly. Ranges of one table of media are
    taken to err together, so their ends add."""
    return sum((keeping(lot, hours) for lot in lots), Keeping())


def amount(number: int) -> str:
    """Return a number of bytes in plain text, decimal, three digits: 91.2 MB."""
    value, unit = Fraction(number), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if value < Fraction(9995, 10) or unit == "EB":
            break
        value /= 1000
    whole = unit == "B" or value >= Fraction(9995, 100)
    return f"{float(value):.0f} {unit}" if whole else f"{float(value):.3g} {unit}"
