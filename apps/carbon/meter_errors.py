"""Typical relative errors of meters and factors."""

# Typical relative errors of meters, (down, up) in parts per million: docs/methodology.md. DECLARED:
# of energy whose import stored no range of its own.
METER_ERROR_PPM: dict[str, tuple[int, int]] = {
    "COUNTER": (50_000, 50_000),
    "SAMPLED": (100_000, 100_000),
    "MODELLED": (400_000, 400_000),
    "OVERHEAD": (300_000, 600_000),
    "DECLARED": (400_000, 400_000),
}
# Defaults of declared energy: a stated amount, and hours × rated power.
DECLARED_ENERGY_PPM, DECLARED_POWER_PPM = 100_000, 400_000
# A factor without a range of its own.
FACTOR_ERROR_PPM = 200_000
