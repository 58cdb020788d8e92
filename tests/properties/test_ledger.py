"""Any history of meters, delivered in any way, gives one ledger: exact integers."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.energy.models import DeviceHour, LedgerEntry
from apps.energy.services.ledger import rebuild_ledger, settle_node
from apps.fleet.models import Node
from apps.fleet.services import register_node, set_static_power
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from tests.builders import T0, SmallLab, W, push, small_lab
from tests.examples import examples
from tests.properties.histories import (
    SENT,
    Sent,
    accept_moves,
    all_rows,
    assert_shares_are_conserved,
    conserved,
    deliveries,
    expected_ledger,
    histories,
    kept_ledger,
    undone,
)

pytestmark = pytest.mark.django_db


def _second_node(small: SmallLab) -> Node:
    return register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=small.site, now=T0
    )


def _deliver(
    nodes: list[Node], batches: list[tuple[int, list[object]]], settle: list[bool]
) -> list[list[str]]:
    answers: list[list[str]] = []
    for i, (node, windows) in enumerate(batches):
        answers += push(nodes[node], windows, sent_at=SENT, settle=settle[i % len(settle)])  # type: ignore[arg-type]
    run_until_idle(worker="test")
    accept_moves()
    return answers


def _is_stored(answer: list[str]) -> bool:
    return answer in (["accepted"], ["duplicate"], ["quarantined", "pending_move"])


@st.composite
def _delivered(
    draw: st.DrawFn, nodes: int = 1
) -> tuple[list[Sent], list[tuple[int, list[object]]], list[bool]]:
    sent = draw(histories(nodes))
    return sent, draw(deliveries(sent)), draw(st.lists(st.booleans(), min_size=1, max_size=6))  # type: ignore[return-value]


def test_the_ledger_is_the_sum_of_the_windows_however_they_arrive() -> None:
    small = small_lab()
    nodes = [small.node, _second_node(small)]
    ids = [node.pk for node in nodes]

    @settings(max_examples=examples(60))
    @given(_delivered(2))
    def check(case: tuple[list[Sent], list[tuple[int, list[object]]], list[bool]]) -> None:
        sent, batches, settle = case
        with undone():
            answers = _deliver(nodes, batches, settle)
            assert all(_is_stored(answer) for answer in answers)
            assert EnergyWindow.objects.count() == len(sent)
            assert not QuarantinedWindow.objects.exists()
            assert kept_ledger(ids) == expected_ledger(sent)
            assert conserved()

    check()


def test_every_accepted_window_is_the_sum_of_its_shares() -> None:
    small = small_lab()

    @settings(max_examples=examples(25))
    @given(_delivered())
    def check(case: tuple[list[Sent], list[tuple[int, list[object]]], list[bool]]) -> None:
        with undone():
            _deliver([small.node], case[1], case[2])
            assert_shares_are_conserved()

    check()


@pytest.mark.parametrize("static_power_mw", [None, 0, 45_000, 2_000_000])
def test_replay_and_rebuild_change_nothing(static_power_mw: int | None) -> None:
    small = small_lab()
    nodes = [small.node, _second_node(small)]
    for node in nodes:
        set_static_power(node=node, static_power_mw=static_power_mw)
    run_until_idle(worker="test")

    @settings(max_examples=examples(25))
    @given(_delivered(2))
    def check(case: tuple[list[Sent], list[tuple[int, list[object]]], list[bool]]) -> None:
        _, batches, settle = case
        with undone():
            _deliver(nodes, batches, settle)
            before = all_rows()
            assert {answer[0] for answer in _deliver(nodes, batches, [True])} <= {"duplicate"}
            assert all_rows() == before
            for node in nodes:
                settle_node(node=node)
            assert all_rows() == before
            rebuild_ledger(lab=small.lab)
            run_until_idle(worker="test")
            assert all_rows() == before

    check()


def test_the_order_of_arrival_does_not_matter() -> None:
    small = small_lab()
    nodes = [small.node, _second_node(small)]
    for node in nodes:
        set_static_power(node=node, static_power_mw=90_000)
    run_until_idle(worker="test")
    fields = (
        "device__key",
        "hour",
        "node_id",
        "consumer__key",
        "energy_quality",
        "share_quality",
        "placement_quality",
    )

    def outcome(
        batches: list[tuple[int, list[object]]], settle: list[bool]
    ) -> list[tuple[object, ...]]:
        with undone():
            _deliver(nodes, batches, settle)
            entries = sorted(LedgerEntry.objects.values_list(*fields, "energy_mj"))
            hours = sorted(
                DeviceHour.objects.values_list(
                    "device__key", "hour", "node_id", "covered_us", "windows", "energy_mj"
                )
            )
            return [*entries, *hours]

    @settings(max_examples=examples(25))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        sent = data.draw(histories(2))
        ways = [data.draw(deliveries(sent)) for _ in range(2)]
        one, other = outcome(ways[0], [True]), outcome(ways[1], [False, True, False])  # type: ignore[arg-type]
        assert one == other

    check()


def test_a_meter_around_others_is_not_counted_beside_them() -> None:
    small = small_lab()
    meter = W(
        f"meter:{small.node.uuid}/bmc",
        100,
        measurement="node_meter",
        counter_start=None,
        shares=(("unknown", 100),),
    )
    assert push(small.node, [meter, W("gpu:GPU-aaaa", 60)]) == [["accepted"], ["accepted"]]
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 60
    assert EnergyWindow.objects.count() == 2, "it is stored, with its readings"
