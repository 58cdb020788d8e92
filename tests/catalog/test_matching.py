"""What drivers, operating systems and spreadsheets call a thing finds its model, and nothing
else does.
"""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.catalog.matching import match_key
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import category_default, match, model_of, suggest
from apps.catalog.services import add_model
from tests.builders import T0, SmallLab, small_lab

NVML = {
    "NVIDIA H100 80GB HBM3": "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 PCIe": "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL": "NVIDIA H100 NVL",
    "NVIDIA H200": "NVIDIA H200",
    "NVIDIA B200": "NVIDIA B200",
    "NVIDIA GH200 480GB": "NVIDIA GH200 480GB",
    "NVIDIA A100-SXM4-80GB": "NVIDIA A100-SXM4-80GB",
    "A100-SXM4-80GB": "NVIDIA A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB": "NVIDIA A100-SXM4-40GB",
    "A100-SXM4-40GB": "NVIDIA A100-SXM4-40GB",
    "NVIDIA A100 80GB PCIe": "NVIDIA A100 80GB PCIe",
    "NVIDIA A100-PCIE-40GB": "NVIDIA A100-PCIE-40GB",
    "A100-PCIE-40GB": "NVIDIA A100-PCIE-40GB",
    "Tesla V100-SXM2-32GB": "Tesla V100-SXM2-32GB",
    "Tesla V100-SXM2-16GB": "Tesla V100-SXM2-16GB",
    "Tesla V100-PCIE-16GB": "Tesla V100-PCIE-16GB",
    "Tesla P100-PCIE-16GB": "Tesla P100-PCIE-16GB",
    "Tesla T4": "Tesla T4",
    "NVIDIA T4": "Tesla T4",
    "NVIDIA L4": "NVIDIA L4",
    "NVIDIA L40": "NVIDIA L40",
    "NVIDIA L40S": "NVIDIA L40S",
    "NVIDIA A30": "NVIDIA A30",
    "NVIDIA A40": "NVIDIA A40",
    "NVIDIA RTX A4000": "NVIDIA RTX A4000",
    "RTX A6000": "NVIDIA RTX A6000",
    "NVIDIA RTX A6000": "NVIDIA RTX A6000",
    "NVIDIA RTX 6000 Ada Generation": "NVIDIA RTX 6000 Ada Generation",
    "Quadro RTX 6000": "Quadro RTX 6000",
    "NVIDIA GeForce RTX 3080": "NVIDIA GeForce RTX 3080",
    "NVIDIA GeForce RTX 3080 Ti": "NVIDIA GeForce RTX 3080 Ti",
    "GeForce RTX 2080 Ti": "NVIDIA GeForce RTX 2080 Ti",
    "GeForce GTX 1080 Ti": "NVIDIA GeForce GTX 1080 Ti",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "NVIDIA GeForce RTX 4070 Ti SUPER",
    "NVIDIA GeForce RTX 4090": "NVIDIA GeForce RTX 4090",
    "AMD Instinct MI300X": "AMD Instinct MI300X",
    "H100 SXM5": "NVIDIA H100 80GB HBM3",
}
CPUS = {
    "AMD EPYC 7763 64-Core Processor": "AMD EPYC 7763",
    "AMD EPYC 9654 96-Core Processor": "AMD EPYC 9654",
    "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz": "Intel Xeon Gold 6248R",
    "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz": "Intel Xeon E5-2690 v4",
    "Intel(R) Xeon(R) Platinum 8480+": "Intel Xeon Platinum 8480+",
    "12th Gen Intel(R) Core(TM) i7-12700K": "Intel Core i7-12700K",
    "Intel(R) Core(TM) i7-7700K CPU @ 4.20GHz": "Intel Core i7-7700K",
    "AMD Ryzen 9 5950X 16-Core Processor": "AMD Ryzen 9 5950X",
    "AMD Ryzen 7 5800H with Radeon Graphics": "AMD Ryzen 7 5800H",
    "AMD Ryzen Threadripper PRO 3995WX 64-Cores": "AMD Ryzen Threadripper PRO 3995WX",
}
OTHERS = {
    ("server", "Dell PowerEdge R740"): "Dell PowerEdge R740",
    ("server", "PowerEdge R740"): "Dell PowerEdge R740",
    ("server", "poweredge r740xd"): "Dell PowerEdge R740XD",
    ("server", "HPE ProLiant DL380 Gen10"): "HP ProLiant DL380 Gen10",
    ("server", "ProLiant DL380 Gen10"): "HP ProLiant DL380 Gen10",
    ("server", "Lenovo ThinkSystem SR665"): "Lenovo ThinkSystem SR665",
    ("laptop", "XPS 15 9520"): "Dell XPS 15 9520",
    ("storage", "Seagate Exos X16"): "Seagate Exos X16",
}
STRANGERS = [
    ("gpu", "NVIDIA GeForce RTX 4090 D"),
    ("gpu", "NVIDIA GeForce RTX 3080 Laptop GPU"),
    ("gpu", "NVIDIA GeForce RTX 4090 Laptop GPU"),
    ("gpu", "NVIDIA A100-SXM4-160GB"),
    ("gpu", "NVIDIA A100"),
    ("gpu", "NVIDIA H100"),
    ("gpu", "NVIDIA H800"),
    ("gpu", "AMD EPYC 7763"),  # a CPU
    ("cpu", "AMD EPYC 77"),
    ("cpu", "Intel(R) Xeon(R) CPU @ 2.20GHz"),  # a cloud's: it does not say which
    ("server", "PowerEdge"),
    ("gpu", ""),
    ("gpu", "NVIDIA"),
    ("cpu", "Processor"),
]


@pytest.mark.django_db
def test_what_is_reported_finds_its_model() -> None:
    found = {name: str(model_of("gpu", name)) for name in NVML}
    assert found == NVML
    assert {name: str(model_of("cpu", name)) for name in CPUS} == CPUS
    assert {(kind, name): str(model_of(kind, name)) for kind, name in OTHERS} == OTHERS


@pytest.mark.django_db
def test_nothing_similar_is_taken() -> None:
    taken = {
        (kind, name): str(model) for kind, name in STRANGERS if (model := model_of(kind, name))
    }
    assert taken == {}


@pytest.mark.django_db
def test_a_driver_s_name_means_one_model_only() -> None:
    """Two shipped models of a kind never answer to one name."""
    names: dict[tuple[str, str], set[str]] = {}
    for model in HardwareModel.objects.prefetch_related("aliases"):
        for key in {model.match_key, *(alias.match_key for alias in model.aliases.all())}:
            names.setdefault((model.kind, key), set()).add(model.name)
    assert [found for found in names.values() if len(found) > 1] == []


@pytest.mark.django_db
def test_a_name_has_its_figure_else_that_of_its_kind_else_none() -> None:
    card = match("gpu", "NVIDIA A100-SXM4-40GB", None)
    assert (card.by, card.figure and card.figure.model.name) == ("model", "NVIDIA A100-SXM4-40GB")
    stranger = match("gpu", "NVIDIA GeForce RTX 4090 D", None)
    assert (stranger.by, stranger.model) == ("category", None)
    assert stranger.figure == category_default("gpu")
    known = match("cpu", "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz", None)
    assert known.model is not None, "the model is known, its carbon is not"
    assert (known.by, known.figure) == ("category", category_default("cpu"))
    nothing = match("other", "robot arm", None)
    assert (nothing.model, nothing.figure, nothing.by) == (None, None, "")


@pytest.mark.django_db
def test_each_kind_but_other_has_a_default() -> None:
    kinds = ["gpu", "cpu", "server", "workstation", "laptop", "storage", "network", "monitor"]
    found = {kind: category_default(kind) for kind in kinds}
    assert all(figure and figure.model.kind == kind for kind, figure in found.items())
    assert category_default("other") is None, "unknown, not zero"
    per_tb = category_default("storage", "hdd"), category_default("storage", "ssd")
    assert all(figure and figure.unit == "per_tb" for figure in per_tb)


def test_suggestions_begin_with_what_is_called_so(lab: SmallLab) -> None:
    found = [model.name for model in suggest("gpu", "rtx 3080", limit=5)]
    assert found == ["NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080 Ti"]
    assert suggest("gpu", "H100 SXM5", limit=1)[0].name == "NVIDIA H100 80GB HBM3"
    assert {model.kind for model in suggest("", "7763", limit=20)} == {"cpu"}
    assert suggest("gpu", "no such thing") == []
    assert len(suggest("cpu", "xeon", limit=7)) == 7


def test_an_own_model_is_matched_in_its_lab_alone(lab: SmallLab) -> None:
    other = small_lab(name="Other")
    own = add_model(
        lab=lab.lab,
        kind="gpu",
        name="RTX 4090 D",
        aliases=["NVIDIA GeForce RTX 4090 D"],
        by=lab.owner,
        now=T0,
    )
    assert model_of("gpu", "NVIDIA GeForce RTX 4090 D", lab.lab) == own
    assert model_of("gpu", "RTX 4090 D", lab.lab) == own
    assert model_of("gpu", "NVIDIA GeForce RTX 4090 D", other.lab) is None
    assert model_of("gpu", "NVIDIA GeForce RTX 4090 D") is None
    assert own in suggest("gpu", "4090", lab=lab.lab)
    assert own not in suggest("gpu", "4090", lab=other.lab)


def test_the_tdp_is_still_known(db: None) -> None:
    card = model_of("gpu", "NVIDIA A100-SXM4-80GB")
    assert card is not None
    assert (card.tdp_mw, card.memory_mib) == (400_000, 80 * 1024)


@given(st.text(alphabet=string.printable, max_size=60))
def test_a_key_says_nothing_of_case_and_blanks(name: str) -> None:
    key = match_key(name)
    assert match_key(name.upper()) == match_key(name.lower()) == key
    assert not set(key) & set(string.whitespace + "-")
