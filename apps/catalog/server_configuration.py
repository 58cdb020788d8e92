"""Embodied carbon of a server from its configuration, bottom-up. Pure.

The formulas and constants are those of BoaviztAPI (docs/docs/Explanations, components and devices,
https://github.com/Boavizta/boaviztapi, accessed 2026-11-25), after UBA, *Green Cloud Computing*,
Texte 94/2021:

- CPU: (cores × 0.245 cm² + 0.491 cm²) × 1.97 kg/cm² + 9.14 kg
- memory module: GB ÷ 1.79 GB/cm² × 2.20 kg/cm² + 5.22 kg
- SSD: GB ÷ 48.5 GB/cm² × 2.20 kg/cm² + 6.34 kg; hard disk: 31.11 kg
- mainboard 66.1 kg, power supply 2.99 kg × 24.3 kg/kg, rack chassis 150 kg, assembly 6.68 kg

Accelerators are not part of these formulas: the figure of their model is added. Manufacture only.

**Range.** CPU: 70 to 160 %. Memory: 0.29 kg/GB (ACT) to the density 0.625 GB/cm². SSD: 3.9 kg/TB
(assessments of vendors) to the density 16.4 GB/cm². Other parts: ±30 %. The ends are added.
"""

from dataclasses import dataclass
from fractions import Fraction

from apps.core.errors import InvalidInput
from apps.core.units import UG_PER_KG

SOURCE = "Bottom-up formulas of BoaviztAPI (UBA 2021), from the configuration: "
DIE_CM2_PER_CORE = Fraction("0.245")
MEMORY_GB_PER_CM2 = Fraction("1.79")
SSD_GB_PER_CM2 = Fraction("48.5")
_DIE_BASE_CM2, _CPU_KG_PER_CM2, _CPU_BASE_KG = Fraction("0.491"), Fraction("1.97"), Fraction("9.14")
_CHIP_KG_PER_CM2 = Fraction("2.20")
_MEMORY_BASE_KG, _SSD_BASE_KG, _DISK_KG = Fraction("5.22"), Fraction("6.34"), Fraction("31.11")
_MAINBOARD_KG, _CHASSIS_KG, _ASSEMBLY_KG = Fraction("66.1"), Fraction(150), Fraction("6.68")
_SUPPLY_KG = Fraction("2.99") * Fraction("24.3")
_LEAST_MEMORY_KG_PER_GB, _LEAST_MEMORY_GB_PER_CM2 = Fraction("0.29"), Fraction("0.625")
_LEAST_SSD_KG_PER_GB, _LEAST_SSD_GB_PER_CM2 = Fraction("0.0039"), Fraction("16.4")
_LOW, _HIGH = Fraction(7, 10), Fraction(13, 10)
_CPU_HIGH = Fraction(16, 10)
_MOST = {
    "cpus": (1, 16),
    "cores": (1, 512),
    "memory_modules": (1, 256),
    "module_gb": (1, 2048),
    "ssds": (0, 1024),
    "ssd_gb": (0, 1_000_000),
    "hdds": (0, 1024),
    "power_supplies": (1, 32),
    "gpus": (0, 64),
}
FIELDS = tuple(_MOST)


@dataclass(frozen=True)
class Amount:
    """An amount of µg CO2e with its range."""

    total_ug: int
    low_ug: int
    high_ug: int


@dataclass(frozen=True)
class Configuration:
    """Parts of a server. ``cores`` are those of one CPU; ``module_gb`` and ``ssd_gb`` the capacity
    of one module and of one SSD. ``gpu``: the figure of one accelerator, with its name.
    """

    cpus: int
    cores: int
    memory_modules: int
    module_gb: int
    ssds: int = 0
    ssd_gb: int = 0
    hdds: int = 0
    power_supplies: int = 2
    gpus: int = 0
    gpu: Amount | None = None
    gpu_name: str = ""
    memory_gb_per_cm2: Fraction = MEMORY_GB_PER_CM2
    ssd_gb_per_cm2: Fraction = SSD_GB_PER_CM2

    def __post_init__(self) -> None:
        for name, (least, most) in _MOST.items():
            if not least <= getattr(self, name) <= most:
                raise InvalidInput(
                    f"Invalid number {getattr(self, name)}.",
                    field=name,
                    hint=f"Use {least} to {most}.",
                )
        if self.ssds and not self.ssd_gb:
            raise InvalidInput(
                "The capacity of an SSD is missing.", field="ssd_gb", hint="Enter it in GB."
            )
        if self.gpus and self.gpu is None:
            raise InvalidInput(
                "The model of the GPUs is missing.",
                field="gpu_model",
                hint="Enter a model of the catalogue that has a figure.",
            )


def embodied(server: Configuration) -> Amount:
    """Return the embodied carbon of a server without use."""
    cpu = (server.cores * DIE_CM2_PER_CORE + _DIE_BASE_CM2) * _CPU_KG_PER_CM2 + _CPU_BASE_KG
    fixed = _MAINBOARD_KG + _CHASSIS_KG + _ASSEMBLY_KG + server.power_supplies * _SUPPLY_KG
    fixed += server.hdds * _DISK_KG
    memory = _chips_kg(server.module_gb, server.memory_gb_per_cm2, _MEMORY_BASE_KG)
    most_memory = _chips_kg(server.module_gb, _LEAST_MEMORY_GB_PER_CM2, _MEMORY_BASE_KG)
    ssd = _chips_kg(server.ssd_gb, server.ssd_gb_per_cm2, _SSD_BASE_KG)
    most_ssd = _chips_kg(server.ssd_gb, _LEAST_SSD_GB_PER_CM2, _SSD_BASE_KG)
    total = server.cpus * cpu + server.memory_modules * memory + server.ssds * ssd + fixed
    low = (
        server.cpus * cpu * _LOW
        + server.memory_modules * server.module_gb * _LEAST_MEMORY_KG_PER_GB
        + server.ssds * server.ssd_gb * _LEAST_SSD_KG_PER_GB
        + fixed * _LOW
    )
    high = (
        server.cpus * cpu * _CPU_HIGH
        + server.memory_modules * max(memory, most_memory)
        + server.ssds * max(ssd, most_ssd)
        + fixed * _HIGH
    )
    gpu = server.gpu or Amount(0, 0, 0)
    return Amount(
        _ug(total) + server.gpus * gpu.total_ug,
        _ug(min(low, total)) + server.gpus * gpu.low_ug,
        _ug(high) + server.gpus * gpu.high_ug,
    )


def _chips_kg(gb: int, gb_per_cm2: Fraction, base_kg: Fraction) -> Fraction:
    return gb / gb_per_cm2 * _CHIP_KG_PER_CM2 + base_kg


def _ug(kg: Fraction) -> int:
    """Return kg in µg, rounded half up."""
    return int(kg * UG_PER_KG + Fraction(1, 2))


def source_text(server: Configuration) -> str:
    """Return the source of the embodied carbon: the formulas and the configuration."""
    parts = [
        f"{server.cpus} × CPU of {server.cores} cores",
        f"{server.memory_modules} × {server.module_gb} GB memory",
    ]
    if server.ssds:
        parts.append(f"{server.ssds} × SSD of {server.ssd_gb} GB")
    if server.hdds:
        parts.append(f"{server.hdds} × hard disk")
    parts.append(f"{server.power_supplies} × power supply")
    if server.gpus:
        parts.append(f"{server.gpus} × GPU {server.gpu_name}")
    return f"{SOURCE}{', '.join(parts)}"[:500]


def contents_of_source(source: str) -> frozenset[str]:
    """Return the parts that a computed figure contains, by its source. Empty: not computed here."""
    if not source.startswith(SOURCE):
        return frozenset()
    words = {"SSD": "storage", "hard disk": "storage", "GPU": "gpu"}
    found = {part for word, part in words.items() if f"× {word}" in source}
    return frozenset(found | {"cpu", "memory"})
