"""Power of stored data by medium, with ranges and sources. Pure."""

from dataclasses import dataclass
from fractions import Fraction

_TB = 10**12
_PPM = 10**6
# 1 µWh is 3.6 mJ.
_MJ_PER_UWH = Fraction(36, 10)


@dataclass(frozen=True)
class MediumPower:
    """Constant power of a terabyte on a medium, µWh per TB-hour, with its range and source."""

    uwh: int
    low_uwh: int
    high_uwh: int
    source: str


_CCF = (
    "Cloud Carbon Footprint, Methodology (2020), after Cloud Jewels (Etsy) and the 2016 US Data "
    "Center Energy Usage Report; "
    "Apache-2.0"
)
# An unknown medium has no power: no value is assumed.
MEDIUM_POWER: dict[str, MediumPower] = {
    "hdd": MediumPower(650_000, 250_000, 1_000_000, f"{_CCF}: 6.5 W for a disk of 10 TB"),
    "ssd": MediumPower(1_200_000, 300_000, 2_000_000, f"{_CCF}: 6 W for 5 TB"),
    "object": MediumPower(
        1_950_000,
        1_300_000,
        3_900_000,
        f"{_CCF}: hard disk × three copies (assumption of LabCarbon)",
    ),
    "tape": MediumPower(
        0,
        0,
        20_000,
        (
            "An idle cartridge uses no power. The tape library is not included (assumption of "
            "LabCarbon)"
        ),
    ),
}


def storage_mj(size: int, hours: int, uwh_per_tb_hour: int, pue_ppm: int = _PPM) -> int:
    """Return the energy (mJ, half up) of storing ``size`` bytes for ``hours``: bytes × Wh per
    TB-hour × hours × PUE.
    """
    exact = Fraction(size * hours * uwh_per_tb_hour * pue_ppm, _TB * _PPM) * _MJ_PER_UWH
    return int(exact + Fraction(1, 2))
