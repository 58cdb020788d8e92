"""/devices/<key>/ : one device, the nodes it was in, and its energy in each."""

from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.fleet.services import register_node, set_static_power
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    queries,
    text_of,
    use,
)


@pytest.fixture
def other(lab: SmallLab) -> Node:
    return register_node(
        lab=lab.lab, uuid=uuid4(), hostname="gpu-01", facts={}, site=lab.site, now=T0
    )


def _address(key: str) -> str:
    return f"{reverse('device', args=[key])}?{PERIOD}"


def _push(node: Node, hour: float, energy_mj: int, seq: int) -> None:
    start = T0 + int(hour * US_PER_HOUR)
    push(node, [W(gpu(), energy_mj, start_us=start, end_us=start + MINUTE, seq=seq)])


def test_a_gpu_that_moved_and_came_back(lab: SmallLab, owner: Client, other: Node) -> None:
    for hour, node, energy_mj in (
        (0, lab.node, 101),
        (1, lab.node, 202),
        (1.5, other, 404),
        (3, other, 808),
        (5, lab.node, 1),
    ):
        _push(node, hour, energy_mj, int(hour * 2))
    page = text_of(owner.get(_address(gpu())))
    body, foot = page[page.index("<tbody>") : page.index("<tfoot>")], page[page.index("<tfoot>") :]
    rows = body.split("<tr>")[1:]
    assert [figures_on(row)[0][1] for row in rows] == [1, 808, 606, 101], (
        "newest first, the hour of the move by itself"
    )
    assert "ws-1" in rows[0]
    assert "data-present" in rows[0]
    assert "gpu-01" in rows[1]
    assert all(name in rows[2] for name in ("data-moved", "ws-1", "gpu-01"))
    assert figures_on(foot)[0][1] == 1516
    assert assert_each_figure_explains_itself(owner, page) >= 7


def test_a_node_says_which_devices_left_and_when(lab: SmallLab, owner: Client, other: Node) -> None:
    _push(lab.node, 0, 101, 0)
    _push(other, 2, 202, 1)
    page = text_of(owner.get(f"/nodes/{lab.node.uuid}/?{PERIOD}"))
    assert "removed <time" in page
    assert "2 Nov 2026 10:00" in page, "the end of its last hour here, in the lab's zone"
    assert f'last measured in <a href="/nodes/{other.uuid}/">gpu-01</a>' in page
    assert "removed <time" not in text_of(owner.get(f"/nodes/{other.uuid}/?{PERIOD}"))


def test_keys_with_slashes_and_colons(lab: SmallLab, owner: Client) -> None:
    key = f"cpu:{lab.node.uuid}/0"
    push(lab.node, [W(key, 55, measurement="rapl")])
    page = text_of(owner.get(f"/nodes/{lab.node.uuid}/?{PERIOD}"))
    assert f'href="/devices/{key}/"' in page
    assert figures_on(text_of(owner.get(_address(key))))[0][1] == 55


def test_the_rest_of_a_node_and_a_device_without_energy(lab: SmallLab, owner: Client) -> None:
    set_static_power(node=lab.node, static_power_mw=50_000)
    use(lab)
    run_until_idle(worker="test")
    assert "data-overhead" in text_of(owner.get(_address(f"host:{lab.node.uuid}")))
    Device.objects.create(lab=lab.lab, key="gpu:GPU-silent", kind="gpu", node=lab.node)
    page = text_of(owner.get(_address("gpu:GPU-silent")))
    assert 'data-stays="0"' in page
    assert "data-unmeasured" in page


def test_anonymous_wrong_method_outsider_and_viewer(
    lab: SmallLab, owner: Client, outsider: Client, viewer: Client
) -> None:
    use(lab)
    assert_needs_sign_in(_address(gpu()))
    assert_only(owner, _address(gpu()), "GET")
    assert outsider.get(_address(gpu())).status_code == 404
    assert viewer.get(_address(gpu())).status_code == 200
    for key in ("gpu:GPU-nobodys", "x", "../../etc", "%00", "x" * 3000):
        assert owner.get(f"/devices/{key}/").status_code == 404


def test_queries_do_not_grow_with_moves(lab: SmallLab, owner: Client, other: Node) -> None:
    _push(lab.node, 0, 101, 0)
    _push(other, 2, 101, 1)
    few = queries(owner, _address(gpu()))
    for i in range(2, 12):
        _push((lab.node, other)[i % 2], i * 2, 101, i)
    assert queries(owner, _address(gpu())) == few


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 77)], device_facts={gpu(): {"name": HOSTILE, "driver": HOSTILE}})
    page = text_of(owner.get(_address(gpu())))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
