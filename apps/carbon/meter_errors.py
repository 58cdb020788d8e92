"""Typical relative errors of meters."""

# Typical relative errors of meters, (down, up) in parts per million: docs/methodology.md. Declared
# energy has none known.
METER_ERROR_PPM: dict[str, tuple[int, int]] = {
    "COUNTER": (50_000, 50_000),
    "SAMPLED": (100_000, 100_000),
    "MODELLED": (400_000, 400_000),
    "OVERHEAD": (300_000, 600_000),
    "DECLARED": (0, 0),
}
