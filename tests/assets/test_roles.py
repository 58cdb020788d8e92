"""The catalogue's model decides what a line is; words of roles count only where it has none."""

import pytest

from apps.assets.services.csv_import import upload
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.role_words import DISK, Role, category_of, role_of
from apps.assets.spreadsheets.rows import Options
from apps.catalog.selectors import category_default
from tests.builders import T0, SmallLab, small_lab


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ("GPU server", Role("server", "gpu_server")), ("GPU", Role("gpu")),
        ("Servidor GPU", Role("server", "gpu_server")), ("Grafikkarte", Role("gpu")),
        ("Display adapter", Role("monitor")), ("Arbeitsspeicher", Role("other", "memory")),
        ("RAM", Role("other", "memory")), ("Memory module", Role("other", "memory")),
        ("Docking station for laptop", Role("other")), ("Monitorarm", Role("other")),
        ("Laptop dock", Role("other")), ("Laptop", Role("laptop")), ("Portátil", Role("laptop")),
        ("ARM server", Role("server")), ("Rack-mount server", Role("server")),
        ("Festplatte", Role("storage", DISK)), ("SSD-Festplatte", Role("storage", "ssd")),
        ("Hard Drives", Role("storage", "hdd")), ("NAS", Role("storage", "nas")),
        ("Speicher", Role("storage")), ("Access switch", Role("network", "switch")),
        ("Écran", Role("monitor")), ("Sonstiges", None), ("", None),
    ],
)  # fmt: skip
def test_words_of_roles(words: str, role: Role | None) -> None:
    assert role_of(words) == role


@pytest.mark.parametrize(
    "words",
    [
        "Windows Server 2022 Lizenz", "VMware license for servers", "Software", "Server rack 42U",
        "Serverschrank", "Server rack", "USV für Server", "Laptop battery", "Notebook-Akku Dell",
        "CPU cooler", "GPU bracket", "Grafiktablett Wacom", "Computer desk", "Computertisch",
        "Laptop sleeve", "Display port dongle", "Server rails", "screen protector", "Total GPU",
        "Summe Server", "Serverraum Klimaanlage", "SSD enclosure", "PC-Gehäuse", "Netzwerkdrucker",
        "Printer network", "Computer vision camera", "Warranty extension server", "Leinwand screen",
        "Wartungsvertrag Server 3 Jahre", "Installation service storage", "Monitor VESA mount",
    ],
)  # fmt: skip
def test_licences_furniture_and_spare_parts_are_no_hardware_of_a_kind(words: str) -> None:
    assert role_of(words) == Role("other")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Server with Windows licence", "server"), ("Rackserver 2HE", "server"),
        ("PC", "workstation"), ("Server rack 2U", "server"),
        ("Laptop incl. battery and sleeve", "laptop"),
        ("Hardware & Software: Server", "server"), ("Desktop", "workstation"),
        ("Rack-Server, 5 years warranty", "server"), ("Disk enclosure JBOD", "storage"),
        ("Arbeitsplatzrechner", "workstation"),
    ],
)  # fmt: skip
def test_hardware_that_comes_with_them_keeps_its_kind(words: str, kind: str) -> None:
    role = role_of(words)
    assert role is not None
    assert role.kind == kind


def test_an_explicit_type_of_disk_comes_before_a_disk() -> None:
    assert category_of("storage", "Festplatte", "7450 NVMe SSD") == "ssd"
    assert category_of("storage", "NAS", "with SSD cache") == "nas"
    assert category_of("storage", "", "WD Red NAS HDD") == "hdd"
    assert category_of("gpu", "GPU server", "") == ""


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [
        ("SSD 3,84TB", 3840), ("SSD 3.84 TB", 3840), ("1.920 TB", 1920), ("1.920 GB", 1920),
        ("3,840 GB", 3840), ("960GB", 960), ("16 To", 16_000), ("512 Go", 512), ("84,5,84TB", None),
        ("0 TB", None), ("2TB and 4TB", None), ("X16", None),
    ],
)  # fmt: skip
def test_capacities(text: str, gigabytes: int | None) -> None:
    assert cells.capacity_in(text) == gigabytes


def test_a_name_without_its_capacity() -> None:
    assert cells.without_capacity("Exos X16 16TB") == "Exos X16"
    assert cells.without_capacity("RTX 3090 (24 GB)") == "RTX 3090"


pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def row_of(lab: SmallLab, role: str, maker: str, model: str) -> dict[str, object]:
    text = f"Name,Status,Role,Manufacturer,Type\nx,Active,{role},{maker},{model}\n"
    row = upload(
        lab=lab.lab, file_name="x.csv", content=text.encode(),
        options=Options(bought_on="2024-03-01"), by=None, now=T0,
    )  # fmt: skip
    (line,) = row.summary["rows"]
    assert line["outcome"] == "new", line
    return dict(line)


@pytest.mark.parametrize(
    ("role", "maker", "model", "kind", "matched"),
    [
        ("GPU server", "NVIDIA", "A100-SXM4-80GB", "gpu", "NVIDIA A100-SXM4-80GB"),
        ("GPU server", "Dell", "PowerEdge R740", "server", "Dell PowerEdge R740"),
        ("GPU", "NVIDIA", "GeForce RTX 3090 24GB", "gpu", "NVIDIA GeForce RTX 3090"),
        ("GPU", "NVIDIA", "GeForce GTX 1060 3GB", "gpu", ""),
        ("Disk", "Seagate", "Exos X16 16TB", "storage", "Seagate Exos X16"),
        ("Monitor", "Dell", "P2422H", "monitor", "Dell P2422H Monitor"),
        ("Docking station for laptop", "Dell", "XPS 15 9520", "laptop", "Dell XPS 15 9520"),
        ("Tablet", "Samsung", "A16", "other", ""),
        ("Arbeitsspeicher", "Samsung", "M393A4K40DB3 32GB", "other", ""),
    ],
)
def test_the_model_decides_before_the_role(
    lab: SmallLab, role: str, maker: str, model: str, kind: str, matched: str
) -> None:
    line = row_of(lab, role, maker, model)
    assert (line["kind"], line["model"]) == (kind, matched)


def test_defaults_of_memory_gpu_servers_and_unknown_disks(lab: SmallLab) -> None:
    memory = category_default("other", "memory")
    server = category_default("server", "gpu_server")
    hdd, ssd = category_default("storage", "hdd"), category_default("storage", "ssd")
    assert memory is not None
    assert server is not None
    assert hdd is not None
    assert ssd is not None
    line = row_of(lab, "Arbeitsspeicher", "Samsung", "M393A4K40DB3 32GB")
    assert line["embodied_ug"] == memory.total_ug * 32
    line = row_of(lab, "GPU server", "Supermicro", "AS-4124GS")
    assert line["embodied_ug"] == server.total_ug
    line = row_of(lab, "Festplatte", "", "Data disk 4TB")
    assert line["embodied_ug"] == (hdd.total_ug * 4 + ssd.total_ug * 4) // 2
    assert (line["low_ug"], line["high_ug"]) == (
        min(hdd.low_ug, ssd.low_ug) * 4,
        max(hdd.high_ug, ssd.high_ug) * 4,
    )
    assert line["by"] == "category"
    line = row_of(lab, "Festplatte", "", "unlabelled")
    assert (line["embodied_ug"], line["by"]) == (None, "")
    line = row_of(lab, "Storage", "", "Acme 8TB")
    assert line["by"] == "category"
    assert line["high_ug"] == max(hdd.high_ug, ssd.high_ug) * 8, "never an 8-bay NAS"
