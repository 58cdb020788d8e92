"""/nodes/<uuid>/live/ ."""

import re
from datetime import UTC, datetime
from html import unescape
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.choices import PersonView
from apps.accounts.models import Lab
from apps.dashboard.nodes.live_windows import (
    MINUTES,
    LiveWindow,
    live_node,
    minutes_of,
)
from apps.fleet.models import Node
from apps.fleet.services import register_node, retire_node
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    gpu,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}
NOW = T0 + 10 * MINUTE + 5_000_000


@pytest.fixture(autouse=True)
def _clock():  # type: ignore[no-untyped-def]
    with time_machine.travel(datetime.fromtimestamp(NOW / 1e6, tz=UTC), tick=False):
        yield


def address(node: Node) -> str:
    return f"/nodes/{node.uuid}/live/"


def minute(i: int, device: str = gpu(), **values: object) -> W:
    """A window of the minute ``i`` after T0, 60 W."""
    start = T0 + i * MINUTE
    return W(device, 3_600_000, start, start + MINUTE, i, **values)  # type: ignore[arg-type]


def data_live(page: str) -> str:
    found = re.search(r'data-live="[^"]*"', page)
    assert found
    return found[0]


def lines_of(page: str, measure: str = "power") -> list[str]:
    part = page[page.index(f'data-measure="{measure}"') :]
    found = re.search(r'class="line" d="([^"]*)"', part[: part.index("</figure>")])
    assert found
    return found[1].split(" M")


def test_a_minute_without_data_is_a_gap_not_zero(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [minute(i) for i in (2, 3, 6, 7, 8, 9)], settle=False)
    page = text_of(owner.get(address(lab.node)))
    assert len(lines_of(page)) == 2
    assert 'data-unknown-minutes="9"' in page
    assert "Power of" in page
    assert "60 to 60 W, 9 of 15 minutes unknown" in page


def test_means_are_those_of_the_covered_part() -> None:
    windows = [
        LiveWindow(T0, T0 + MINUTE // 2, 1_800_000, 1000, None),
        LiveWindow(T0 + MINUTE // 2, T0 + 2 * MINUTE, 2 * 900_000, 0, 512),
    ]
    first, second, third = minutes_of(windows, T0, T0 + 3 * MINUTE)
    assert first.watts == pytest.approx((60 + 20) / 2)
    assert first.utilization == pytest.approx(50)
    assert first.memory_mib == 512  # of the half that is known
    assert second.watts == pytest.approx(20)
    assert (third.watts, third.utilization, third.memory_mib) == (None, None, None)


def test_zero_is_drawn_as_zero() -> None:
    (only,) = minutes_of([LiveWindow(T0, T0 + MINUTE, 0, 0, 0)], T0, T0 + MINUTE)
    assert (only.watts, only.utilization, only.memory_mib) == (0, 0, 0)


def test_it_shows_windows_that_are_not_settled(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab, settle=False)
    page = text_of(owner.get(address(lab.node)))
    assert f"/runs/{run}/" in page
    assert page.count("data-consumer") == 2
    assert 'data-age="' in page


def test_one_query_and_none_more_with_more_devices(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [minute(3)], settle=False)
    with CaptureQueriesContext(connection) as few:
        assert owner.get(address(lab.node), headers=PART).status_code == 200
    windows = [minute(i, gpu(j)) for i in range(4, 10) for j in range(8)]
    push(lab.node, windows, settle=False)
    with CaptureQueriesContext(connection) as many:
        assert owner.get(address(lab.node), headers=PART).status_code == 200
    assert len(few) == len(many)
    # the session, its person, their labs: every page reads them
    assert len([query for query in many if "ingest_energywindow" in query["sql"]]) == 1
    assert len(many) == 4
    with CaptureQueriesContext(connection) as one:
        live_node(lab.lab, lab.node.uuid, NOW)
    assert len(one) == 1


def test_an_equal_part_is_304_and_a_changed_one_is_sent(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [minute(3)], settle=False)
    first = owner.get(address(lab.node), headers=PART)
    assert f'data-live="{first["ETag"]}"' == unescape(data_live(text_of(first)))
    known = {**PART, "If-None-Match": first["ETag"]}
    again = owner.get(address(lab.node), headers=known)
    assert (again.status_code, again.content) == (304, b"")
    push(lab.node, [minute(4)], settle=False)
    assert owner.get(address(lab.node), headers=known).status_code == 200
    Node.objects.filter(pk=lab.node.pk).update(display_name="renamed")
    newer = owner.get(address(lab.node), headers=known)
    known = {**PART, "If-None-Match": newer["ETag"]}
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=NOW)
    newer = owner.get(address(lab.node), headers=known)
    known = {**PART, "If-None-Match": newer["ETag"]}
    for minutes, status in ((1, 304), (3, 200)):  # then it does not report, and time passes
        later = datetime.fromtimestamp((NOW + minutes * MINUTE) / 1e6, tz=UTC)
        with time_machine.travel(later, tick=False):
            assert owner.get(address(lab.node), headers=known).status_code == status


def test_the_part_has_no_frame_and_the_page_works_without_script(
    lab: SmallLab, owner: Client
) -> None:
    push(lab.node, [minute(3)], settle=False)
    part = text_of(owner.get(address(lab.node), headers=PART))
    assert part.startswith("<div")
    assert "<html" not in part
    page = text_of(owner.get(address(lab.node)))
    assert part[part.index("<section") :].strip()[:200] in page
    assert 'class="line"' in page
    assert "data-refresh" in page
    assert "plotly" not in page


def test_a_gpu_without_utilization_shows_no_line(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [minute(8)], settle=False)
    page = text_of(owner.get(address(lab.node)))
    part = page[page.index('data-measure="utilization"') :]
    assert "no-reading" in part[: part.index("</figure>")]


def test_a_cpu_package_has_its_power_only(lab: SmallLab, owner: Client) -> None:
    cpu = f"cpu:{lab.node.uuid}/package-0"
    push(lab.node, [minute(8, cpu, measurement="rapl")], settle=False)
    page = text_of(owner.get(address(lab.node)))
    assert f'data-device="{cpu}"' in page
    assert page.count("data-measure") == 1
    assert "60 to 60 W" in page


def test_a_long_window_is_level_over_its_minutes(lab: SmallLab) -> None:
    push(lab.node, [W(gpu(), 18_000_000, T0 - 4 * MINUTE, T0 + MINUTE, 1)], settle=False)
    live = live_node(lab.lab, lab.node.uuid, T0 + 11 * MINUTE)
    assert live
    windows = list(live.devices[0].windows.values())
    minutes = minutes_of(windows, live.from_us, live.to_us)
    assert [each.watts for each in minutes if each.watts is not None] == [60.0] * 4
    assert len(minutes) == MINUTES


def test_users_are_hidden_by_the_policy_of_the_lab(
    lab: SmallLab, owner: Client, member: Client
) -> None:
    push(lab.node, [minute(8, shares=(("proc:ada/python", 3_600_000),))], settle=False)
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.OWN)
    for client in (owner, member):
        page = text_of(client.get(address(lab.node)))
        assert "proc:ada" not in page
        assert "someone in your lab" in page
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.LAB)
    assert "proc:ada/python" in text_of(member.get(address(lab.node)))


def test_names_are_escaped(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [minute(8)], settle=False, device_facts={gpu(): {"name": HOSTILE}})
    Node.objects.filter(pk=lab.node.pk).update(display_name=HOSTILE)
    assert "<script>alert" not in text_of(owner.get(address(lab.node)))
    assert "<script>alert" not in text_of(owner.get(address(lab.node), headers=PART))


def test_empty_silent_and_retired(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(address(lab.node)))
    assert "state-silent" in page
    assert "data-age" not in page
    Node.objects.filter(pk=lab.node.pk).update(last_push_us=NOW - 3600 * 1_000_000)
    assert "1 h 0 min" in text_of(owner.get(address(lab.node)))
    retire_node(node=lab.node, by=lab.owner, now=NOW)
    page = text_of(owner.get(address(lab.node)))
    assert "state-retired" in page
    assert "state-silent" not in page


def test_access(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    assert_needs_sign_in(address(lab.node))
    assert_only(owner, address(lab.node), "GET")
    assert viewer.get(address(lab.node)).status_code == 200
    for headers in ({}, PART):
        assert outsider.get(address(lab.node), headers=headers).status_code == 404
        assert owner.get(f"/nodes/{uuid4()}/live/", headers=headers).status_code == 404


def test_windows_of_other_nodes_are_not_shown(lab: SmallLab, owner: Client) -> None:
    other = register_node(
        lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0
    )
    push(other, [minute(8, gpu(7))], settle=False)
    push(lab.node, [minute(8)], settle=False)
    page = text_of(owner.get(address(lab.node)))
    assert gpu(7) not in page
    assert gpu() in page
