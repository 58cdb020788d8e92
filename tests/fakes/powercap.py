"""A fake powercap tree: RAPL domains with counters that wrap, mirror each other or cannot be
read.
"""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262_143_328_850  # the value of most Intel servers: 2³² units of 61 µJ


class FakePowercap:
    """Domains by folder name (``intel-rapl:0``, ``intel-rapl:0:0``). Energy in µJ."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._raw_uj: dict[str, int] = {}
        self._range_uj: dict[str, int] = {}

    def add(
        self,
        zone: str,
        name: str,
        *,
        raw_uj: int = 1_000_000,
        range_uj: int | None = RANGE_UJ,
        limit_w: int = 200,
    ) -> None:
        """Add a domain. ``range_uj=None``: its range cannot be read."""
        folder = self.root / zone
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "constraint_0_max_power_uw").write_text(f"{limit_w * 1_000_000}\n")
        if range_uj is not None:
            (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
        self._range_uj[zone] = range_uj or RANGE_UJ
        self.set(zone, raw_uj)

    def set(self, zone: str, raw_uj: int) -> None:
        """Set the raw counter to any value below its range."""
        self._raw_uj[zone] = raw_uj
        (self.root / zone / "energy_uj").write_text(f"{raw_uj}\n")

    def draw(self, zone: str, energy_uj: int) -> None:
        """Let a domain draw energy. Its counter wraps like the hardware's."""
        self.set(zone, (self._raw_uj[zone] + energy_uj) % self._range_uj[zone])

    def forbid(self, zone: str) -> None:
        """Make the counter unreadable, for root too, by a folder in its place."""
        (self.root / zone / "energy_uj").unlink()
        (self.root / zone / "energy_uj").mkdir()
