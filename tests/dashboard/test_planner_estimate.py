"""The page Planner: time, energy, emissions and cost of a training, and what they rest on."""

import csv
import io
import re

import pytest
from django.test import Client

from apps.fleet.services import set_price
from tests.builders import T0, SmallLab
from tests.dashboard.support import text_of
from tests.dashboard.test_planner import add_gpu
from tests.planner.support import A100

pytestmark = pytest.mark.django_db
HOUR_US = 3_600_000_000
WORK = {"preset": "resnet50", "samples": 1_281_167, "epochs": 90, "batch": 256}
_ROW = re.compile(
    r'data-estimate="(\w+)"\s+data-low="(\d+)"\s+data-likely="(\d+)"\s+data-high="(\d+)"'
)


def rows(page: str) -> dict[str, tuple[int, int, int]]:
    """Return the exact integers of the figures with a range."""
    return {key: (int(a), int(b), int(c)) for key, a, b, c in _ROW.findall(page)}


def place(lab: SmallLab) -> str:
    """Add a GPU to the node and return its value in the form."""
    add_gpu(lab, A100)
    return f"{lab.node.uuid}.{A100_KEY}"


A100_KEY = "a100sxm440gb"


def test_a_gpu_of_the_lab_has_an_order_of_magnitude(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.get("/planner/", {**WORK, "place": place(lab)}))
    found = rows(page)
    assert 'data-basis="catalogue"' in page
    assert found.keys() == {"time", "gpu_energy", "energy", "emission"}
    # By hand: 4 089 184 256 MACs × 2 × 3 passes × 115 305 030 samples at a third of 19.49 TFLOPS.
    assert found["time"][1] == pytest.approx(121 * HOUR_US, rel=0.01)
    assert all(low < likely < high for low, likely, high in found.values())
    # The GPU at 400 W ÷ 1.53, and 100 W of its node, a quarter of its rated power.
    assert found["gpu_energy"][1] == pytest.approx(121 * 3600 * 400 / 1.53 * 1000, rel=0.01)
    rest = found["time"][1] / 10**6 * 100 * 1000
    assert found["energy"][1] == pytest.approx(found["gpu_energy"][1] + rest, rel=1e-6)
    assert re.search(r'data-estimate="cost"\s+data-unknown', page)
    reserve = re.search(r'data-estimate="reserve"\s+data-likely="(\d+)"', page)
    assert reserve is not None
    assert int(reserve[1]) >= found["time"][2]


def test_a_site_with_a_price_has_a_cost(owner: Client, lab: SmallLab) -> None:
    set_price(
        site=lab.site, ucurrency_per_kwh=300_000, currency="EUR", from_us=T0 // HOUR_US * HOUR_US,
        by=lab.owner, now=T0,
    )  # fmt: skip
    found = rows(text_of(owner.get("/planner/", {**WORK, "place": place(lab)})))
    assert found["cost"][1] > 0


def test_a_frozen_body_needs_a_third(owner: Client, lab: SmallLab) -> None:
    where = place(lab)
    full = rows(text_of(owner.get("/planner/", {**WORK, "place": where})))
    head = rows(text_of(owner.get("/planner/", {**WORK, "place": where, "trainable": "head"})))
    assert head["time"][1] == pytest.approx(full["time"][1] / 3, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"samples": ""},
        {"epochs": ""},
        {"place": ""},
        {"place": "card of nobody"},
        {"source": "numbers", "parameters": 1, "macs": 10**12, "layer_outputs": 1,
         "samples": 10**12, "epochs": 10**12},
    ],
)  # fmt: skip
def test_without_a_basis_there_is_no_number(
    owner: Client, lab: SmallLab, change: dict[str, object]
) -> None:
    where = place(lab)
    if change.get("place"):
        add_gpu(lab, "NVIDIA Unheard Of")
        change = {"place": f"{lab.node.uuid}.unheardof"}
    response = owner.get("/planner/", {**WORK, "place": where, **change})
    page = text_of(response)
    assert response.status_code == 200
    assert "data-no-basis" in page
    assert rows(page) == {}
    assert "data-fact" in page  # what is known stays


def test_the_csv_has_the_estimate(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "place": place(lab)}
    found = rows(text_of(owner.get("/planner/", fields)))
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get("/planner/result.csv", fields)))))
    estimate = {line["name"]: line for line in lines if line["section"] == "estimate"}
    assert int(estimate["energy_likely"]["value"]) == found["energy"][1]
    assert estimate["energy_likely"]["unit"] == "mj"
    assert estimate["cost_likely"]["value"] == ""
