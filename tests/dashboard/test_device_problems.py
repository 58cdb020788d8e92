"""Problems of GPUs and declared gaps on the node page and the overview."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.fleet.device_health import device_problems
from apps.fleet.models import Node
from apps.ingest.models import DeclaredGap
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import HOSTILE, PERIOD, text_of

GPU = "gpu:GPU-00000000-1abc-4abc-8abc-000000000000"


def _problem(state: str) -> dict[str, Any]:
    return {"device": GPU, "name": "H100", "state": state, "reason": "fell off", "since_us": T0}


def _page(lab: SmallLab) -> str:
    return f"/nodes/{lab.node.uuid}/?{PERIOD}"


@pytest.mark.parametrize(
    ("state", "alert"),
    [("silent", "gpu-silent"), ("lost", "gpu-problem"), ("power", "gpu-problem")],
)
def test_problems_are_shown(lab: SmallLab, owner: Client, state: str, alert: str) -> None:
    assert "data-device-problem" not in text_of(owner.get(_page(lab)))
    assert f'data-alert="{alert}"' not in text_of(owner.get("/"))
    push(lab.node, [W(GPU, 1)], health={"devices": [_problem(state)]})
    page = text_of(owner.get(_page(lab)))
    assert f'data-device-problem="{state}"' in page
    assert "fell off" in page
    overview = text_of(owner.get("/"))
    assert f'data-alert="{alert}"' in overview
    assert ("GPU silent" in overview) == (state == "silent")
    push(lab.node, [W(GPU, 2)], health={"devices": []})
    assert "data-device-problem" not in text_of(owner.get(_page(lab)))
    assert f'data-alert="{alert}"' not in text_of(owner.get("/"))


@pytest.mark.parametrize(
    "health",
    [
        [1],
        {"devices": 5},
        {"devices": {"0": 1}},
        {"devices": [1, None, {}, {"state": "other", "since_us": 1}]},
        {"devices": [{"state": "lost", "since_us": "x"}, {"state": "lost", "since_us": -1}]},
        {"devices": [{"state": ["lost"], "since_us": 1}]},
    ],
)
def test_malformed_reports_are_left_out(lab: SmallLab, owner: Client, health: Any) -> None:
    assert device_problems(health) == []
    Node.objects.filter(pk=lab.node.pk).update(health=health)
    assert owner.get(_page(lab)).status_code == 200
    assert owner.get("/").status_code == 200


def test_hostile_texts_are_escaped(lab: SmallLab, owner: Client) -> None:
    problem = {**_problem("silent"), "name": HOSTILE, "reason": HOSTILE, "since_us": 2**80}
    Node.objects.filter(pk=lab.node.pk).update(health={"devices": [problem] * 500})
    for address in (_page(lab), "/"):
        assert HOSTILE not in text_of(owner.get(address))


def test_gaps_are_listed_with_their_reason(lab: SmallLab, owner: Client) -> None:
    gap = {"device": 0, "epoch": "e/1", "from": T0, "to": T0 + 600_000_000, "reason": "lost"}
    push(lab.node, [W(GPU, 1)], gaps=[gap])
    assert 'data-gap="lost"' in text_of(owner.get(_page(lab)))


def test_a_gap_that_is_declared_again_ends_later(lab: SmallLab) -> None:
    gap = {"device": 0, "epoch": "e/1", "from": T0, "to": T0 + 600, "reason": "lost"}
    for end in (600, 4200, 600):
        push(lab.node, [W(GPU, 1)], gaps=[{**gap, "to": T0 + end}])
    assert list(DeclaredGap.objects.values_list("from_us", "to_us")) == [(T0, T0 + 4200)]


def test_the_overview_separates_lost_gpus_from_those_measured_by_power(
    lab: SmallLab, owner: Client
) -> None:
    push(lab.node, [W(GPU, 1)], health={"devices": [_problem("lost"), _problem("power")]})
    overview = text_of(owner.get("/"))
    assert overview.count('data-alert="gpu-problem"') == 2
    assert "GPU lost" in overview
    push(lab.node, [W(GPU, 2)], health={"devices": [_problem("power")]})
    assert "GPU lost" not in text_of(owner.get("/"))


def test_reasons_of_gaps_are_explained_or_shown_as_reported(lab: SmallLab, owner: Client) -> None:
    gap = {"device": 0, "epoch": "e/1", "from": T0, "to": T0 + 600_000_000}
    gaps = [{**gap, "reason": "lost"}, {**gap, "epoch": "e/2", "reason": HOSTILE[:32]}]
    push(lab.node, [W(GPU, 1)], gaps=gaps)
    page = text_of(owner.get(_page(lab)))
    assert "No reading" in page.split('data-gap="lost"')[1].split("</tr>")[0]
    assert HOSTILE[:32] not in page
    assert "&lt;script" in page
