"""The page of an asset warns if its figure contains a part that has embodied carbon of its own."""

from django.test import Client

from apps.assets.models import Asset
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import best_figure
from apps.catalog.server_configuration import SOURCE
from apps.core.clock import now_us
from apps.core.units import UG_PER_KG
from tests.assets.support import YEAR
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import queries, text_of

MARK = 'data-notice="double-counting"'


def _asset(
    lab: SmallLab,
    name: str,
    kind: str,
    *,
    model: str = "",
    parent: Asset | None = None,
    kg: int = 50,
    source: str = "data sheet",
) -> Asset:
    now = now_us()
    known = HardwareModel.objects.get(name=model, lab=None) if model else None
    figure = best_figure(known, lab.lab) if known else None
    embodied = (
        Embodied.of(figure)
        if figure and figure.unit == "item"
        else Embodied(kg * UG_PER_KG, source=source)
    )
    entry = Entry("purchase", now, embodied=embodied, life_hours=4 * YEAR, parent=parent)
    return register(lab=lab.lab, draft=Draft(Facts(name, kind, known), entry), by=None, now=now)


def _page(client: Client, asset: Asset) -> str:
    return text_of(client.get(f"/assets/{asset.pk}/"))


def test_a_baseboard_and_its_gpus(lab: SmallLab, owner: Client) -> None:
    board = _asset(lab, "HGX board", "server", model="HGX H100 8-GPU baseboard")
    assert MARK not in _page(owner, board)
    card = _asset(lab, "H100 no. 1", "gpu", model="NVIDIA H100 80GB HBM3", parent=board)
    for asset in (board, card):
        page = _page(owner, asset)
        assert page.count(MARK) == 1
        assert "contains GPUs" in page
    _asset(lab, "SSD", "storage", parent=board)
    assert "contains GPUs." in _page(owner, board), "a baseboard contains no disk"


def test_a_server_contains_its_memory_and_disks_but_not_its_gpus(
    lab: SmallLab, owner: Client
) -> None:
    server = _asset(lab, "Node 1", "server", model="Dell PowerEdge R740")
    _asset(lab, "A100", "gpu", parent=server)
    assert MARK not in _page(owner, server)
    _asset(lab, "SSD 1", "storage", parent=server)
    _asset(lab, "DIMM 1", "other", model="RAM, default", parent=server)
    page = _page(owner, server)
    assert page.count(MARK) == 1
    assert "contains memory and disks" in page or "contains disks and memory" in page
    assert ">A100</a>" not in page[page.index(MARK) : page.index("To count them once")]


def test_a_computed_server_contains_its_configuration(lab: SmallLab, owner: Client) -> None:
    text = f"{SOURCE}2 × CPU of 24 cores, 12 × 32 GB memory, 4 × GPU NVIDIA A100"
    server = _asset(lab, "Node 2", "server", source=text)
    disk = _asset(lab, "SSD 2", "storage", parent=server)
    assert MARK not in _page(owner, server), "its configuration has no disk"
    _asset(lab, "A100", "gpu", parent=server)
    assert MARK in _page(owner, server)
    assert MARK in _page(owner, disk)
    own = _asset(lab, "Node 3", "server", source="my estimate")
    _asset(lab, "A100 b", "gpu", parent=own)
    assert MARK not in _page(owner, own)


def test_without_carbon_or_disposed_of_nothing_is_counted_twice(
    lab: SmallLab, owner: Client
) -> None:
    server = _asset(lab, "Node 4", "server", model="Dell PowerEdge R740")
    disk = _asset(lab, "SSD 4", "storage", parent=server)
    assert MARK in _page(owner, server)
    record(asset=disk, entry=Entry("dispose", now_us()), by=lab.owner, now=now_us())
    assert MARK not in _page(owner, server)
    _asset(lab, "SSD 5", "storage", parent=server, kg=0, source="contained in Node 4")
    assert MARK not in _page(owner, server)


def test_another_lab_sees_nothing_of_it(lab: SmallLab, outsider: Client) -> None:
    server = _asset(lab, "Node 5", "server", model="Dell PowerEdge R740")
    _asset(lab, "SSD 6", "storage", parent=server)
    assert outsider.get(f"/assets/{server.pk}/").status_code == 404


def test_the_number_of_queries_does_not_grow(db: None) -> None:
    counts = []
    for number, name in ((1, "Few"), (12, "Many")):
        lab = small_lab(name=name)
        server = _asset(lab, "Node", "server", model="Dell PowerEdge R740")
        for i in range(number):
            _asset(lab, f"SSD {i}", "storage", parent=server)
        counts.append(queries(client_of(lab.owner), f"/assets/{server.pk}/"))
    assert counts[0] == counts[1]
