"""Catalogue rows beside their published source. Each value was typed from the source, not copied
from the table; the address is that of the publication.
"""

from dataclasses import dataclass
from decimal import Decimal

import pytest

from apps.catalog.choices import FigureMethod
from apps.catalog.models import CURRENT, EmbodiedFigure, HardwareModel
from apps.catalog.selectors import category_default, match, model_of

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Published:
    """A value of a source. ``field``: kg (embodied carbon of one unit), watts, GB or cores."""

    kind: str
    name: str
    field: str
    value: str
    source: str


PUBLISHED = (
    Published("gpu", "Tesla V100-PCIE-16GB", "watts", "250", "PCIe, hwupgrade.it 69475: 250 W"),
    Published("gpu", "Tesla V100-SXM2-16GB", "watts", "300", "SXM2, hwupgrade.it 69475: 300 W"),
    Published("gpu", "Tesla V100-SXM2-32GB", "watts", "300", "nvidia-docker issue 1076: 300.00 W"),
    Published("gpu", "Tesla V100-SXM3-32GB", "watts", "350", "nvidia-smi on a DGX-2: 50W / 350W"),
    Published("gpu", "Tesla V100-FHHL-16GB", "watts", "150", "tweaktown.com 57488: 150 W"),
    Published("gpu", "AMD Instinct MI300A", "GB", "128", "MI300 series: MI300A, 128 GB HBM3"),
    Published("gpu", "AMD Instinct MI300X", "GB", "192", "MI300 series: MI300X, 192 GB HBM3"),
    Published("gpu", "NVIDIA GB200", "GB", "186", "MLPerf Inference v6.1: GB200-186GB"),
    Published("gpu", "NVIDIA GB300", "GB", "288", "B300: 288 GB HBM3e"),
    Published("gpu", "TPU v4 chip", "watts", "192", "TPU v4: 90/170/192 W"),
    Published("gpu", "TPU v4 chip", "GB", "32", "TPU v4: 32 GiB HBM2"),
    Published("gpu", "TPU v5e chip", "GB", "16", "TPU v5e: HBM2 16 GB"),
    Published("gpu", "TPU v5p chip", "GB", "95", "TPU7x, comparison: v5p, 95 GiB"),
    Published("gpu", "TPU7x chip", "GB", "192", "TPU7x: 192 GiB"),
    Published("gpu", "Intel Gaudi 3", "GB", "128", "Gaudi 3: 128 GB HBM2e"),
    Published("gpu", "AWS Trainium2", "GB", "96", "Neuron, trainium2.rst: 96 GiB"),
    Published("cpu", "NVIDIA Grace CPU Superchip", "cores", "144", "144-core superchip, 500 W"),
    Published("cpu", "Apple M4 Max", "cores", "16", "up to 16-core CPU"),
    Published("other", "Intel Hala Point", "watts", "2600", "a maximum of 2,600 watts of power"),
    Published("other", "SpiNNaker 48-node board (103 machine)", "watts", "72", "12V 6A supply"),
    Published("server", "HGX H100 8-GPU baseboard", "kg", "1312", "NVIDIA PCF summary 2025"),
    Published("server", "HGX B200 8-GPU baseboard", "kg", "2274", "NVIDIA PCF summary 2025"),
    Published("gpu", "NVIDIA H100 80GB HBM3", "kg", "164", "1 312 kg ÷ 8 GPUs"),
    Published("gpu", "NVIDIA B200", "kg", "284.25", "2 274 kg ÷ 8 GPUs"),
    Published("other", "Server motherboard", "kg", "66.1", "BoaviztAPI, motherboard.md: 66.10"),
    Published("other", "Rack server chassis", "kg", "150", "BoaviztAPI, case.md: rack 150"),
    Published("other", "Server assembly", "kg", "6.68", "BoaviztAPI, assembly.md: 6.68"),
    Published("storage", "Generic 3.5 inch HDD", "kg", "31.11", "BoaviztAPI, hdd.md: 31.11"),
)


def _found(kind: str, name: str) -> HardwareModel:
    model = model_of(kind, name)
    assert model is not None, name
    return model


def _value(row: Published) -> Decimal | None:
    model = _found(row.kind, row.name)
    if row.field == "kg":
        figure = EmbodiedFigure.objects.get(CURRENT, model=model, lab=None)
        return Decimal(figure.total_ug) / 10**9
    if row.field == "cores":
        return None if model.cores is None else Decimal(model.cores)
    if row.field == "GB":
        return None if model.memory_mib is None else Decimal(model.memory_mib) / 1024
    return None if model.tdp_mw is None else Decimal(model.tdp_mw) / 1000


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.name}, {row.field}")
def test_a_row_has_the_value_of_its_source(row: Published) -> None:
    assert _value(row) == Decimal(row.value), row.source


def test_at_least_twenty_rows_are_compared() -> None:
    assert len({row.name for row in PUBLISHED}) >= 20


@pytest.mark.parametrize(
    "name",
    [
        "Intel Loihi 2",
        "Hala Point",
        "SpiNN-5",
        "SpiNNaker2",
        "Akida AKD1000",
    ],
)
def test_neuromorphic_hardware_is_known_and_has_no_figure(name: str) -> None:
    found = match("other", name, None, "neuromorphic")
    assert found.model is not None
    assert found.figure is None


@pytest.mark.parametrize(
    "name",
    [
        "TPU v5 lite",
        "Ironwood",
        "HL-325",
        "Trainium1",
        "GB300",
        "NVIDIA H200",
        "NVIDIA B200",
        "AMD Instinct MI355X",
        "Jetson T5000",
    ],
)
def test_accelerators_are_found_by_their_usual_names(name: str) -> None:
    assert model_of("gpu", name) is not None


@pytest.mark.parametrize("name", ["DGX A100", "DGX H100", "NVIDIA DGX B200", "GB200 NVL72"])
def test_systems_are_found_and_only_the_kind_has_a_figure(name: str) -> None:
    found = match("server", name, None)
    assert found.model is not None
    assert found.by == "category"


def test_the_range_of_an_ssd_contains_vendor_assessments_and_parametric_estimates() -> None:
    """Seagate assessments: 3.948, 6.21 and 16.916 kg/TB. Parametric: 2.20 kg/cm² ÷ 48.5 GB/cm² and
    6.34 kg a drive, 51.7 kg for 1 TB. Tannu & Nair: 160 kg/TB.
    """
    figure = category_default("storage", "ssd")
    assert figure is not None
    assert figure.method == FigureMethod.CATEGORY
    assert figure.total_ug == 51_700_000_000
    for kg in ("3.948", "6.21", "16.916", "51.7", "160"):
        assert figure.low_ug <= Decimal(kg) * 10**9 <= figure.high_ug, kg
    own = EmbodiedFigure.objects.get(CURRENT, model__name="Default SSD (conservative)")
    assert own.low_ug <= Decimal("3.948") * 10**9
    assert own.high_ug >= Decimal(160) * 10**9
