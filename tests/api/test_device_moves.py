"""Devices that two nodes report: pending moves, and what a node's token may write."""

import uuid
from itertools import pairwise
from typing import Any

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.fleet.models import Device, Node
from apps.fleet.services import register_node
from apps.ingest.choices import Decision, MoveRule, MoveState
from apps.ingest.models import DeclaredGap, DeviceMove, EnergyWindow, QuarantinedWindow
from apps.ingest.services.moves import accept_move
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.examples import examples
from tests.properties.histories import undone

GPU, OTHER = "gpu:GPU-0000-1111", "gpu:GPU-0000-2222"
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def _second(lab: SmallLab, name: str = "ws-2") -> Node:
    return register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname=name, facts={}, site=lab.site, now=T0
    )


def _window(minute: int, mj: int = 600, device: str = GPU, **rest: Any) -> W:
    rest = {"seq": minute, "counter_start": 10**6 + 1000 * minute, **rest}
    return W(device, mj, T0 + minute * MINUTE, T0 + (minute + 1) * MINUTE, **rest)


def _push(node: Node, *windows: W, epoch: str = "") -> list[str]:
    for window in windows:
        window.epoch = epoch or window.epoch + f"#{node.pk}"
    now = max(window.end_us for window in windows)
    with time_machine.travel(now / 1e6, tick=False):
        return [" ".join(result) for result in push(node, list(windows), received_us=now)]


def _run_jobs(at_us: int) -> None:
    with time_machine.travel(at_us / 1e6, tick=False):
        run_until_idle(worker="test")


def _owner() -> Node:
    return Device.objects.select_related("node").get(key=GPU).node


def _ledger_mj() -> int:
    return sum(LedgerEntry.objects.filter(device__key=GPU).values_list("energy_mj", flat=True))


def test_naming_the_device_of_another_node_changes_nothing(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    push(
        other,
        [_window(1, device=OTHER)],
        devices=[OTHER, GPU],
        device_facts={GPU: {"name": "mine now", "bus": "1"}},
        gaps=[{"device": 1, "epoch": "e", "from": T0, "to": T0 + 1, "reason": "lost"}],
    )
    device = Device.objects.get(key=GPU)
    assert (device.node, device.name, device.facts) == (lab.node, "", {})
    assert not DeclaredGap.objects.exists()
    assert not DeviceMove.objects.exists()


def test_windows_of_another_nodes_device_are_pending_and_refused_by_nobody(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    assert _push(other, _window(20), _window(21)) == ["quarantined pending_move"] * 2
    assert _push(other, _window(20)) == ["quarantined pending_move"]  # the response was lost
    move = DeviceMove.objects.get()
    assert (move.from_node, move.to_node, move.state) == (lab.node, other, MoveState.PENDING)
    assert move.from_us == T0 + 20 * MINUTE
    # The real node's windows are counted as before, also at the claimed time.
    assert _push(lab.node, _window(20, 700)) == ["accepted"]
    assert _ledger_mj() == 1300
    assert _owner() == lab.node


def test_a_manager_accepts_a_move_and_the_windows_are_placed(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    _push(other, _window(20), _window(21))
    move = DeviceMove.objects.get()
    accept_move(lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=lab.owner, now=T0 + HOUR)
    _run_jobs(T0 + HOUR)
    assert _owner() == other
    assert not QuarantinedWindow.objects.exists()
    assert _ledger_mj() == 1800
    assert _push(other, _window(20)) == ["duplicate"]
    assert _push(other, _window(22)) == ["accepted"]
    assert AuditEntry.objects.filter(action="device.moved", subject=GPU).count() == 1
    # Late data of the former node, from before the move, is counted and moves nothing back.
    assert _push(lab.node, _window(5)) == ["accepted"]
    assert _owner() == other
    assert _ledger_mj() == 3000


def test_the_former_node_uploads_without_the_device(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0), _window(0, device=OTHER))
    _push(other, _window(20))
    _push(lab.node, _window(21, device=OTHER))
    assert _owner() == lab.node  # too near in time: it may be in the next batch
    _push(lab.node, _window(31, device=OTHER))
    assert _owner() == other
    assert DeviceMove.objects.get().rule == MoveRule.ABSENT
    assert _ledger_mj() == 1200


def test_a_former_node_that_still_has_the_device_keeps_it(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0), _window(0, device=OTHER))
    _push(other, _window(20))
    _push(lab.node, _window(30), _window(31, device=OTHER))
    _push(lab.node, _window(45, device=OTHER))
    assert _owner() == lab.node
    assert DeviceMove.objects.get().state == MoveState.PENDING


def test_a_silent_node_loses_its_device_after_seven_days(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    _push(other, _window(20))
    _push(lab.node, _window(23, device=OTHER, counter_start=None, measurement="nvml_power"))
    _run_jobs(T0 + 7 * DAY)
    assert _owner() == lab.node
    _run_jobs(T0 + 7 * DAY + HOUR)  # seven days after its last upload
    assert _owner() == other
    assert DeviceMove.objects.get().rule == MoveRule.SILENT
    assert _ledger_mj() == 1200


def test_windows_of_the_former_node_after_the_move_withdraw_it(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    _push(other, _window(20))
    move = DeviceMove.objects.get()
    accept_move(lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=lab.owner, now=T0 + HOUR)
    _run_jobs(T0 + HOUR)
    assert _push(lab.node, _window(50)) == ["accepted"]
    assert _owner() == lab.node
    assert DeviceMove.objects.get(pk=move.pk).state == MoveState.WITHDRAWN
    assert _ledger_mj() == 1800  # windows of both nodes stay
    assert AuditEntry.objects.filter(action="device.move_withdrawn", subject=GPU).count() == 1
    assert _push(other, _window(60)) == ["quarantined pending_move"]


def test_each_claim_of_a_device_needs_evidence_of_its_own(lab: SmallLab) -> None:
    second, third = _second(lab), _second(lab, "ws-3")
    _push(lab.node, _window(0), _window(0, device=OTHER))
    _push(second, _window(20), _window(30))
    _push(third, _window(21))
    # The former node proves that it has the device no longer, not that the second has it no longer.
    _push(lab.node, _window(40, device=OTHER))
    assert _owner() == second
    claim = DeviceMove.objects.get(to_node=third)
    assert (claim.from_node, claim.state) == (second, MoveState.PENDING)
    assert _push(second, _window(41)) == ["accepted"]
    assert _owner() == second
    assert not DeviceMove.objects.filter(state=MoveState.WITHDRAWN).exists()


def test_a_further_claim_is_decided_by_the_uploads_of_the_new_node(lab: SmallLab) -> None:
    second, third = _second(lab), _second(lab, "ws-3")
    _push(lab.node, _window(0))
    _push(second, _window(20), _window(20, device=OTHER))
    _push(third, _window(25))
    move = DeviceMove.objects.get(to_node=second)
    accept_move(lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=lab.owner, now=T0 + HOUR)
    _run_jobs(T0 + HOUR)
    assert _owner() == second
    _push(second, _window(90, device=OTHER))
    assert _owner() == third
    assert _ledger_mj() == 1800


def test_windows_that_wait_for_their_placement_prove_that_the_device_is_there(
    lab: SmallLab,
) -> None:
    second, third = _second(lab), _second(lab, "ws-3")
    _push(lab.node, _window(0))
    _push(second, _window(20), _window(60), _window(20, device=OTHER))
    _push(third, _window(25))
    move = DeviceMove.objects.get(to_node=second)
    accept_move(lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=lab.owner, now=T0 + HOUR)
    _push(second, _window(61, device=OTHER))  # before the job that places its windows
    assert _owner() == second


def test_a_former_node_declares_no_gap_after_the_move(lab: SmallLab) -> None:
    other = _second(lab)
    _push(lab.node, _window(0))
    _push(other, _window(20))
    move = DeviceMove.objects.get()
    accept_move(lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=lab.owner, now=T0 + HOUR)
    _run_jobs(T0 + HOUR)
    gap = {"device": 1, "epoch": "e", "reason": "lost"}
    late, own = {"from": T0 + DAY, "to": T0 + 2 * DAY}, {"from": T0, "to": T0 + 5 * MINUTE}
    push(
        lab.node,
        [_window(1, device=OTHER)],
        devices=[OTHER, GPU],
        gaps=[{**gap, **late}, {**gap, **own}],
    )
    assert [row.to_us for row in DeclaredGap.objects.all()] == [T0 + 5 * MINUTE]


def test_an_unknown_device_belongs_to_the_first_node_that_measures_it(lab: SmallLab) -> None:
    assert _push(_second(lab), _window(0)) == ["accepted"]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["first", "second", "third", "consent", "jobs"]),
        st.integers(0, 90),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=3,
    max_size=25,
)


@pytest.mark.django_db(transaction=False)
@settings(max_examples=examples(40), deadline=None)
@given(actions=ACTIONS)
def test_no_window_of_any_node_is_lost_in_any_order(actions: list[Any]) -> None:
    with undone():
        lab = small_lab()
        nodes = {"first": lab.node, "second": _second(lab), "third": _second(lab, "ws-3")}
        pushed: dict[tuple[str, int], int] = {}
        at_us = T0
        for kind, minute, count, is_other in actions:
            at_us += HOUR
            if kind == "consent":
                move = DeviceMove.objects.filter(state=MoveState.PENDING).first()
                if move is not None:
                    accept_move(
                        lab=lab.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=None, now=at_us
                    )
            elif kind == "jobs":
                _run_jobs(at_us + 8 * DAY * is_other)
            else:
                windows = [_window(minute + i, 600 + minute + i) for i in range(count)]
                windows += [_window(minute, 50, device=OTHER + kind)] * is_other
                for window in windows:
                    window.epoch += f"#{kind}"
                    pushed[kind + window.device, window.seq] = window.energy_mj
                now = max(window.end_us for window in windows)
                with time_machine.travel(at_us / 1e6, tick=False):
                    results = push(nodes[kind], windows, received_us=now)
                assert {result[0] for result in results} <= {
                    "accepted", "duplicate", "quarantined",
                }  # fmt: skip
        _run_jobs(at_us)
        counted = sum(EnergyWindow.objects.values_list("energy_mj", flat=True))
        waiting = QuarantinedWindow.objects.filter(decision=Decision.NONE)
        assert counted + sum(waiting.values_list("energy_mj", flat=True)) == sum(pushed.values())
        assert counted == sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
        for device in Device.objects.all():
            times = list(device.windows.order_by("start_us").values_list("start_us", "end_us"))
            assert all(one[1] <= two[0] for one, two in pairwise(times))
