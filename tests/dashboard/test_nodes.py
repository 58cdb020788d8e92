"""/nodes/, /nodes/<uuid>/, /nodes/enrol/ ."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.choices import CodePurpose
from apps.accounts.models import OneTimeCode
from apps.accounts.services.labs import spend_code
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.fleet.choices import SiteKind
from apps.fleet.models import Device, Node
from apps.fleet.services import create_site, register_node
from tests.builders import T0, SmallLab, W, push
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

LIST = f"/nodes/?{PERIOD}"


def _node(lab: SmallLab, i: int, *, settle: bool = True) -> Node:
    node = register_node(
        lab=lab.lab, uuid=uuid4(), hostname=f"gpu-{i:02d}", facts={}, site=lab.site, now=T0
    )
    push(
        node,
        [W(gpu(i), 50_000 + i)],
        settle=settle,
        health={"source": {"nvml": {"ok": 60, "failed": 2, "ms": 4}}},
    )
    return node


def test_list_works_and_adds_up(lab: SmallLab, owner: Client) -> None:
    use(lab)
    for i in (1, 2, 3):
        _node(lab, i)
    page = text_of(owner.get(LIST))
    body, foot = page[page.index("<tbody>") : page.index("<tfoot>")], page[page.index("<tfoot>") :]
    rows = [figures_on(row) for row in body.split("<tr>")[1:]]
    assert sum(row[0][1] for row in rows) == figures_on(foot)[0][1]
    assert "2 of 62 polls failed" in page
    assert "silent for" in page
    assert "data-coverage" in page
    assert_each_figure_explains_itself(owner, page)


def test_the_collector_version_is_that_of_the_last_upload(lab: SmallLab, owner: Client) -> None:
    facts = {"collector": "0.0.9", "kernel": "6.1"}
    Node.objects.filter(pk=lab.node.pk).update(facts=facts)
    assert "0.0.9" in text_of(owner.get(f"/nodes/{lab.node.uuid}/"))
    Node.objects.filter(pk=lab.node.pk).update(health={"collector": "0.2.7"})
    page = text_of(owner.get(f"/nodes/{lab.node.uuid}/"))
    assert "0.2.7" in page
    assert "0.0.9" not in page
    assert "6.1" in page


def test_health_in_another_form_is_left_out(lab: SmallLab, owner: Client) -> None:
    Node.objects.filter(pk=lab.node.pk).update(
        health={"source": {"nvml": "fine", "x": {"ok": HOSTILE}}}
    )
    assert owner.get(LIST).status_code == 200
    Node.objects.filter(pk=lab.node.pk).update(health=[1, 2])
    assert owner.get(LIST).status_code == 200


def test_one_node(lab: SmallLab, owner: Client) -> None:
    use(lab)
    push(lab.node, [W(gpu(1), 777)])
    page = text_of(owner.get(f"/nodes/{lab.node.uuid}/?{PERIOD}"))
    body, foot = page[page.index("<tbody>") : page.index("<tfoot>")], page[page.index("<tfoot>") :]
    assert sum(value for _, value in figures_on(body)) == figures_on(foot)[0][1]
    assert 'data-overhead-watts=""' in page
    assert "2-socket server: 125.5 W (51.5–218 W)" in page
    assert assert_each_figure_explains_itself(owner, page) >= 5


def test_a_device_that_moved_says_so(lab: SmallLab, owner: Client) -> None:
    use(lab)
    other = _node(lab, 5)
    push(other, [W(gpu(), 99, start_us=T0 + 3_600_000_000, end_us=T0 + 3_660_000_000, seq=90)])
    page = text_of(owner.get(f"/nodes/{other.uuid}/?{PERIOD}"))
    assert "data-moved" in page
    assert_each_figure_explains_itself(owner, page)


@pytest.mark.parametrize(
    ("form", "milliwatts"),
    [
        ({"choice": "own", "watts": "45"}, 45_000),
        ({"choice": "own", "watts": "45,5"}, 45_500),
        ({"choice": "server_2_socket"}, 125_500),
        ({"choice": "unknown"}, None),
    ],
)
def test_the_rest_of_a_node(
    lab: SmallLab, owner: Client, form: dict[str, str], milliwatts: int | None
) -> None:
    use(lab)
    response = owner.post(f"/nodes/{lab.node.uuid}/", form)
    assert response["Location"] == f"/nodes/{lab.node.uuid}/#overhead"
    lab.node.refresh_from_db()
    assert lab.node.static_power_mw == milliwatts
    run_until_idle(worker="test")
    page = text_of(owner.get(f"/?{PERIOD}"))
    assert ("Node overhead</a>" in page) == (milliwatts is not None)


@pytest.mark.parametrize("watts", ["", "-1", "NaN", "inf", "1e9", "lots", "<b>"])
def test_a_power_that_is_none(lab: SmallLab, owner: Client, watts: str) -> None:
    response = owner.post(f"/nodes/{lab.node.uuid}/", {"choice": "own", "watts": watts})
    assert response.status_code == 400
    assert 'data-field-error="watts"' in text_of(response)
    lab.node.refresh_from_db()
    assert lab.node.static_power_mw is None


def test_enrol_makes_a_code_that_works_once(lab: SmallLab, owner: Client) -> None:
    assert OneTimeCode.objects.count() == 0
    assert "data-create-code" in text_of(owner.get("/nodes/enrol/"))
    assert OneTimeCode.objects.count() == 0
    response = owner.post("/nodes/enrol/")
    page = text_of(response)
    assert "no-store" in response["Cache-Control"]
    assert "labcarbon-collect enrol http://" in page
    assert "labcarbon-collect daemon" in page
    assert page.count("data-copy=") == 3
    found = re.search(r'id="code">([A-Z0-9-]+)<', page)
    assert found
    assert spend_code(purpose=CodePurpose.ENROL, code=found[1], now=now_us()).lab == lab.lab


def test_a_viewer_may_look_only(lab: SmallLab, viewer: Client) -> None:
    assert "data-create-code" not in text_of(viewer.get("/nodes/enrol/"))
    assert viewer.post("/nodes/enrol/").status_code == 403
    assert viewer.get(f"/nodes/{lab.node.uuid}/").status_code == 200
    assert viewer.post(f"/nodes/{lab.node.uuid}/", {"watts": "5"}).status_code == 403
    assert OneTimeCode.objects.count() == 0


def test_declared_use_is_not_silent_and_has_no_collector_to_mend(
    lab: SmallLab, owner: Client
) -> None:
    site = create_site(lab=lab.lab, name="Elsewhere", kind=SiteKind.DECLARED, zone="FR")
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname="cloud", facts={}, site=site, now=T0)
    page = text_of(owner.get("/nodes/"))
    assert "declared use" in page
    assert f"/sites/{site.pk}/" not in page
    page = text_of(owner.get(f"/nodes/{node.uuid}/"))
    assert "declared use" in page
    assert "doctor" not in page
    assert "cloud" not in text_of(owner.get("/"))


def test_anonymous_wrong_method_and_outsider(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    own = f"/nodes/{lab.node.uuid}/"
    for address in ("/nodes/", own, "/nodes/enrol/"):
        assert_needs_sign_in(address)
    assert_only(owner, "/nodes/", "GET")
    assert_only(owner, own, "GET", "POST")
    assert outsider.get(own).status_code == 404
    assert outsider.post(own, {"watts": "5"}).status_code == 404
    assert "ws-1" not in text_of(outsider.get("/nodes/"))


def test_empty_lab_says_the_commands(outsider: Client, settings: Any) -> None:
    page = text_of(outsider.get("/nodes/"))
    assert f"labcarbon-collect enrol {settings.SITE_URL}" in page
    assert "labcarbon-collect daemon" in page


def test_set_aside_is_listed(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 77)])
    push(lab.node, [W(gpu(), 78)])
    assert 'data-quarantined="conflict"' in text_of(owner.get(LIST))


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    _node(lab, 1)
    one = queries(owner, LIST)
    for i in range(2, 51):
        _node(lab, i, settle=False)
    run_until_idle(worker="test")
    assert queries(owner, LIST) == one
    single = queries(owner, f"/nodes/{lab.node.uuid}/?{PERIOD}")
    push(lab.node, [W(gpu(100 + i), 50) for i in range(50)])
    assert queries(owner, f"/nodes/{lab.node.uuid}/?{PERIOD}") <= single


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    Node.objects.filter(pk=lab.node.pk).update(hostname=HOSTILE, facts={HOSTILE: HOSTILE})
    push(lab.node, [W(gpu(), 77)], device_facts={gpu(): {"name": HOSTILE, "driver": HOSTILE}})
    for address in ("/nodes/", f"/nodes/{lab.node.uuid}/", f"/?{PERIOD}", f"/sites/{lab.site.pk}/"):
        page = text_of(owner.get(address))
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_a_node_without_uploads_names_no_date(lab: SmallLab, owner: Client) -> None:
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname="new", facts={}, site=lab.site, now=T0)
    page = text_of(owner.get(f"/nodes/{node.uuid}/"))
    assert "No upload yet." in page
    assert "since never" not in page


def test_the_page_of_a_node_reads_the_hours_of_its_devices_only(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    with CaptureQueriesContext(connection) as captured:
        assert owner.get(f"/nodes/{lab.node.uuid}/?{PERIOD}").status_code == 200
    by_device = [query["sql"] for query in captured if "d.key AS g0, n.uuid AS g1" in query["sql"]]
    devices = ", ".join(
        str(pk)
        for pk in Device.objects.order_by("kind", "name", "key").values_list("pk", flat=True)
    )
    assert len(by_device) == 1
    assert f"e.device_id IN ({devices})" in by_device[0]
