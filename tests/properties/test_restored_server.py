"""A server that is restored from a backup gets again what it forgot, and nothing twice."""

import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.api.wire import encode_batch, received_times
from labcarbon_collect.energy.windows import Window
from labcarbon_collect.spool.history import KEPT_US
from labcarbon_collect.spool.store import Received, Spool

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.fleet.models import Node
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.parsing import parse_batch
from apps.ingest.selectors import last_batch_us
from apps.ingest.services import accept_batch
from tests.builders import BOOT, MINUTE, T0, small_lab
from tests.examples import examples
from tests.properties.histories import undone

GPU = "gpu:GPU-0000-1111"
MONO = 10**9


def _window(minute: int) -> Window:
    return Window(
        device=GPU,
        epoch="1",
        seq=minute,
        start_us=T0 + minute * MINUTE,
        end_us=T0 + (minute + 1) * MINUTE,
        mono_start_us=MONO + minute * MINUTE,
        mono_end_us=MONO + (minute + 1) * MINUTE,
        counter_start_mj=minute * 1000,
        counter_end_mj=(minute + 1) * 1000,
        energy_mj=1000,
        shares=(("idle", 1000),),
        measurement="nvml_counter",
        flags=0,
        util_mean_pm=None,
        util_max_pm=None,
        mem_mean_mib=None,
        mem_max_mib=None,
        processes=0,
    )


class Collector:
    """The spool and upload of a node, minute by minute."""

    def __init__(self, home: Path, node: Node) -> None:
        self.spool, self.node, self.minute, self.uploads = Spool(home), node, 0, 0

    def measure(self) -> None:
        self.spool.append(boot=BOOT, windows=[_window(self.minute)])
        self.minute += 1

    def upload(self, *, is_answered: bool = True, limit: int = 500) -> int:
        """Send one batch. Returns how many windows the server forgot."""
        self.uploads += 1
        now_us = T0 + self.minute * MINUTE + self.uploads
        batch = self.spool.begin_batch(live_from_us=now_us - 3 * MINUTE, limit=limit)
        if batch is None:
            return 0
        body = encode_batch(
            batch=str(uuid.uuid4()),
            sent_at_us=now_us,
            node=str(self.node.uuid),
            boot=BOOT,
            monotonic_us=MONO + self.minute * MINUTE + self.uploads,
            windows=batch.windows,
            gaps=batch.gaps,
            health={},
            device_facts={},
            acknowledged_us=batch.acknowledged_us,
        )
        parsed = parse_batch(msgspec.json.encode(body))
        previous_us = last_batch_us(self.node, up_to_us=parsed.header.acknowledged)
        results = accept_batch(node=self.node, batch=parsed, received_us=now_us)
        if not is_answered:
            return 0
        reply: dict[str, Any] = {"received": last_batch_us(self.node), "previous": previous_us}
        times = received_times(reply)
        assert times is not None
        answers = [(result[0], " ".join(result[1:])) for result in results]
        return self.spool.end_batch(batch, answers, now_us=now_us, received=Received(*times))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["upload", "lost", "back up", "restore"]), st.integers(1, 5)),
    min_size=4,
    max_size=25,
)


@pytest.mark.django_db
@settings(max_examples=examples(60), deadline=None)
@given(events=EVENTS)
def test_what_a_restored_server_forgot_is_sent_again(events: list[tuple[str, int]]) -> None:
    with undone(), TemporaryDirectory() as folder:
        collector = Collector(Path(folder), small_lab().node)
        backup: str | None = None
        for kind, minutes in events:
            for _ in range(minutes):
                collector.measure()
            if kind == "back up":
                backup = transaction.savepoint()
            elif kind == "restore" and backup is not None:
                transaction.savepoint_rollback(backup)
            else:
                collector.upload(is_answered=kind != "lost", limit=1 + minutes)
        collector.measure()
        while collector.spool.depth().rows:
            collector.upload()
        run_until_idle(worker="test")
        assert not QuarantinedWindow.objects.exists()
        sequences = EnergyWindow.objects.order_by("sequence").values_list("sequence", flat=True)
        assert list(sequences) == list(range(collector.minute))
        total = sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
        assert total == 1000 * collector.minute
        collector.spool.close()


def test_messages_about_runs_are_sent_again(tmp_path: Path, db: None) -> None:
    collector = Collector(tmp_path, small_lab().node)
    runs = collector.spool.runs
    collector.measure()
    collector.upload()
    backup = transaction.savepoint()
    runs.add_message("a", "PUT", {"name": "a"})
    [(number, *_)] = runs.pending_messages(T0)
    runs.remove_message(number)
    collector.measure()
    collector.upload()
    assert runs.pending_messages(T0) == []
    transaction.savepoint_rollback(backup)
    collector.measure()
    assert collector.upload() == 1
    assert [message[1:] for message in runs.pending_messages(T0)] == [("a", "PUT", {"name": "a"})]


def test_another_server_gets_nothing_of_the_former(tmp_path: Path, db: None) -> None:
    collector = Collector(tmp_path, small_lab().node)
    collector.spool.note_server("https://one.example")
    collector.measure()
    collector.upload()
    collector.spool.note_server("https://one.example")
    assert _kept(collector.spool) == 1
    collector.spool.note_server("https://two.example")
    assert _kept(collector.spool) == 0


def test_acknowledged_windows_are_kept_for_three_days(tmp_path: Path, db: None) -> None:
    collector = Collector(tmp_path, small_lab().node)
    for minute in (0, KEPT_US // MINUTE, KEPT_US // MINUTE + 1):
        collector.minute = minute
        collector.measure()
        collector.upload()
    assert _kept(collector.spool) == 2


def _kept(spool: Spool) -> int:
    with spool.transaction() as database:
        return int(database.execute("SELECT COUNT(*) FROM uploaded").fetchone()[0])
