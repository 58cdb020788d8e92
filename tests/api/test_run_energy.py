"""/api/v1/runs/<uuid>/energy/: energy of a tracker counts once, beside a collector as well."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow
from tests.api.conftest import Labs
from tests.builders import MINUTE, T0, W, push
from tests.trackers.support import iso

Refused = Callable[..., dict[str, Any]]
RUN = "7f1d3b52-2222-4333-8444-555566667777"
PATH = f"runs/{RUN}/energy/"


def _interval(start: float, end: float, energy_mj: int, component: str = "gpu") -> dict[str, Any]:
    times = {"start": iso(int(T0 + start * MINUTE)), "end": iso(int(T0 + end * MINUTE))}
    return {"component": component, "energy_mj": energy_mj, **times}


@pytest.fixture
def run(labs: Labs) -> Labs:
    facts = {"name": "t.py", "started_at": iso(T0), "node": str(labs.ours.node.uuid)}
    assert labs.member("PUT", f"runs/{RUN}/", facts).status_code == 200
    return labs


def _report(labs: Labs, *intervals: dict[str, Any]) -> list[list[str]]:
    reply = labs.member("POST", PATH, {"intervals": list(intervals)})
    assert reply.status_code == 200, reply.content
    return reply.json()["results"]  # type: ignore[no-any-return,attr-defined]


def _ledger_mj() -> dict[str, int]:
    run_until_idle(worker="test")
    sums: dict[str, int] = {}
    for kind, energy_mj in LedgerEntry.objects.values_list("device__kind", "energy_mj"):
        sums[kind] = sums.get(kind, 0) + energy_mj
    return sums


def test_reported_energy_is_in_the_ledger(run: Labs) -> None:
    rows = [_interval(0, 2, 1_001), _interval(0, 2, 7, "cpu"), _interval(2, 3, 0)]
    assert [row[0] for row in _report(run, *rows)] == ["accepted"] * 3
    assert _ledger_mj() == {"declared": 1_008}
    assert [row[0] for row in _report(run, *rows)] == ["duplicate"] * 3
    assert _ledger_mj() == {"declared": 1_008}


@pytest.mark.parametrize("collector_first", [True, False])
def test_a_collector_takes_precedence(run: Labs, collector_first: bool) -> None:
    def collect() -> None:
        window = W("gpu:GPU-1", 500, start_us=T0, end_us=T0 + MINUTE, shares=(("idle", 500),))
        push(run.ours.node, [window])

    if collector_first:
        collect()
    _report(run, _interval(0, 2, 1_000), _interval(0, 2, 60, "ram"))
    if not collector_first:
        collect()
    assert _ledger_mj() == {"gpu": 500, "declared": 500 + 60}


def test_other_energy_for_the_same_time_is_not_counted(run: Labs) -> None:
    _report(run, _interval(0, 2, 1_000))
    results = _report(run, _interval(0, 2, 999), _interval(1, 3, 10))
    assert [row[0] for row in results] == ["quarantined"] * 2
    assert _ledger_mj() == {"declared": 1_000}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"component": "disk"}, "intervals[0].component"),
        ({"energy_mj": -1}, "intervals[0].energy_mj"),
        ({"energy_mj": 1.5}, "intervals[0].energy_mj"),
        ({"energy_mj": 10**19}, "intervals[0].energy_mj"),
        ({"start": "yesterday"}, "intervals[0].start"),
        ({"end": "2199-01-01T00:00:00Z"}, "intervals[0].end"),
        ({"kwh": 1}, "intervals[0]"),
    ],
)
def test_invalid_intervals(run: Labs, refused: Refused, change: dict[str, Any], field: str) -> None:
    body = {"intervals": [{**_interval(0, 1, 5), **change}]}
    assert refused(run.member("POST", PATH, body), 400)["field"] == field
    assert not EnergyWindow.objects.exists()


def test_power_that_no_node_can_have_is_rejected(run: Labs) -> None:
    minute_mj = 60 * 1_000_000 * 1000  # 1 MW
    assert _report(run, _interval(0, 1, minute_mj + 1), _interval(1, 2, minute_mj)) == [
        ["rejected", "mean power above 1 MW"],
        ["accepted"],
    ]
    assert _report(run, _interval(2, 3, 2 * minute_mj)) == [["rejected", "mean power above 1 MW"]]
    assert _ledger_mj() == {"declared": minute_mj}


def test_an_end_before_the_start_is_rejected(run: Labs) -> None:
    assert _report(run, _interval(2, 1, 5)) == [["rejected", "end is not after start"]]


@pytest.mark.parametrize("body", [{}, {"intervals": []}, [], b"{", {"intervals": [{}] * 1001}])
def test_invalid_bodies(run: Labs, refused: Refused, body: Any) -> None:
    refused(run.member("POST", PATH, body), 400)


def test_a_run_without_a_node_has_no_zone(labs: Labs, refused: Refused) -> None:
    labs.member("PUT", f"runs/{RUN}/", {"name": "t.py", "started_at": iso(T0)})
    body = {"intervals": [_interval(0, 1, 5)]}
    assert refused(labs.member("POST", PATH, body), 409)["field"] == "node"


def test_who_may_report(run: Labs, refused: Refused) -> None:
    body = {"intervals": [_interval(0, 1, 5)]}
    refused(run.viewer("POST", PATH, body), 403)
    refused(run.nobody("POST", PATH, body), 401)
    refused(run.outsider("POST", PATH, body), 404)
    refused(run.member("GET", PATH), 405)
    assert not EnergyWindow.objects.exists()
