"""Any history with sealing at any moments: the same figures, and the same responses but for windows
of sealed hours.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.services import register_node, set_static_power
from apps.ingest.archive import ArchivedWindow, decode_block, encode_block
from apps.ingest.choices import MoveRule, MoveState
from apps.ingest.models import DeviceMove, EnergyWindow, QuarantinedWindow, SealedHour
from apps.ingest.selectors import shares_of, windows_of_hour
from apps.ingest.services.moves import accept_move
from tests.builders import T0, push, small_lab
from tests.examples import examples
from tests.properties.archives import all_energy, seal
from tests.properties.histories import (
    HOUR_US,
    SENT,
    Sent,
    all_rows,
    deliveries,
    expected_ledger,
    histories,
    kept_ledger,
    undone,
)

DUPLICATE, SEALED = ["duplicate"], ["quarantined", "sealed"]
FAR_HOUR = SENT // HOUR_US
HOURS = st.one_of(st.integers(T0 // HOUR_US - 4, T0 // HOUR_US + 60), st.just(FAR_HOUR))


@pytest.fixture(autouse=True)
def archive(tmp_path: Path) -> Iterator[None]:
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        yield


INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.data())
def test_a_block_contains_exactly_its_windows(data: st.DataObject) -> None:
    optional = st.one_of(st.none(), INT64)
    rows = data.draw(
        st.lists(
            st.tuples(
                *[INT64] * 5,
                optional,
                optional,
                *[INT64] * 6,
                *[optional] * 5,
                INT64,
                st.lists(st.tuples(INT64, INT64), max_size=4).map(tuple),
            ),
            min_size=1,
            max_size=5,
        )
    )
    windows = [ArchivedWindow(7, row[0], 5, 3, *row[1:]) for row in rows]
    assert decode_block(encode_block(windows)) == windows


@pytest.mark.django_db
def test_sealing_at_any_moment_changes_no_figure_and_no_other_response() -> None:
    small = small_lab()
    set_static_power(node=small.node, static_power_mw=90_000)
    run_until_idle(worker="test")

    @settings(max_examples=examples(40))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        sent = data.draw(histories())
        batches = data.draw(deliveries(sent))
        with undone():
            plain = [push(small.node, windows, sent_at=SENT) for _, windows in batches]
        with undone():
            accepted: dict[tuple[str, str, int], Sent] = {}
            for (_, windows), plain_answers in zip(batches, plain, strict=True):
                settle = data.draw(st.booleans())
                answers = push(small.node, windows, sent_at=SENT, settle=settle)
                for window, answer, plain_answer in zip(
                    windows, answers, plain_answers, strict=True
                ):
                    assert answer in (plain_answer, SEALED)
                    if answer == ["accepted"]:
                        accepted[window.device, window.epoch, window.seq] = Sent(window)
                if data.draw(st.booleans()):
                    before = all_rows()
                    seal(data.draw(HOURS))
                    assert all_rows() == before
                if settle and data.draw(st.booleans()):
                    before = all_rows()
                    rebuild_ledger(lab=small.lab)
                    run_until_idle(worker="test")
                    assert all_rows() == before
            run_until_idle(worker="test")
            ledger = expected_ledger(list(accepted.values()))
            assert kept_ledger([small.node.pk]) == ledger
            before = all_rows()
            QuarantinedWindow.objects.all().delete()
            progress = seal(FAR_HOUR)
            assert not progress.waiting_hours
            assert not EnergyWindow.objects.exists()
            assert sum(all_energy().values()) == sum(ledger.values())
            _explained(list(accepted.values()))
            rebuild_ledger(lab=small.lab)
            assert all_rows() == before
            for one in accepted.values():
                assert push(small.node, [one.window], sent_at=SENT) == [DUPLICATE]
            assert all_rows() == before

    check()


def _explained(accepted: list[Sent]) -> None:
    """Each window is explained in each of its hours as it was sent."""
    from apps.fleet.models import Device

    devices = {device.key: device for device in Device.objects.all()}
    for one in accepted:
        window = one.window
        for hour in range(window.start_us // HOUR_US, (window.end_us - 1) // HOUR_US + 1):
            rows = windows_of_hour(devices[window.device], hour)
            row = next(row for row in rows if row["start_us"] == window.start_us)
            assert (row["end_us"], row["energy_mj"]) == (window.end_us, window.energy_mj)
            assert (row["epoch"], row["sequence"]) == (window.epoch, window.seq)
            assert row["counter_start"] == window.counter_start
            assert sorted(shares_of(rows)[row["epoch_id"], row["sequence"]]) == sorted(
                window.shares or ()
            )


@pytest.mark.django_db
def test_devices_that_move_lose_nothing_when_hours_are_sealed() -> None:
    small = small_lab()
    other = register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=small.site, now=T0
    )
    nodes = [small.node, other]

    @settings(max_examples=examples(30))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        sent = data.draw(histories(2))
        with undone():
            for node, windows in data.draw(deliveries(sent)):
                push(nodes[node], windows, sent_at=SENT, settle=data.draw(st.booleans()))
                if data.draw(st.booleans()):
                    seal(data.draw(HOURS))
                if data.draw(st.booleans()):
                    _accept_moves()
            _accept_moves()
            run_until_idle(worker="test")
            quarantined_mj = sum(QuarantinedWindow.objects.values_list("energy_mj", flat=True))
            assert set(QuarantinedWindow.objects.values_list("reason", flat=True)) <= {"sealed"}
            counted_mj = sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
            assert counted_mj == sum(all_energy().values())
            assert counted_mj + quarantined_mj == sum(one.window.energy_mj for one in sent)
            before = all_rows()
            seal(FAR_HOUR)
            rebuild_ledger(lab=small.lab)
            run_until_idle(worker="test")
            assert all_rows() == before
            assert SealedHour.objects.exists() or not sent

    check()


def _accept_moves() -> None:
    while move := DeviceMove.objects.filter(state=MoveState.PENDING).order_by("pk").first():
        accept_move(lab=move.to_node.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=None, now=SENT)
        run_until_idle(worker="test")
