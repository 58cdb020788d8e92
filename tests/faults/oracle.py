"""The oracle: accepted + quarantined + dead letters + spooled + declared gaps equals the energy of
the counters, to the mJ.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from labcarbon_collect.energy.windows import Window
from labcarbon_collect.spool.schema import unpack_window

from tests.faults.counters import Record
from tests.faults.ledger import CountedWindow, LedgerDatabase


@dataclass
class Spooled:
    """The content of a collector's spool."""

    windows: list[CountedWindow] = field(default_factory=list)
    dead: list[tuple[CountedWindow, str]] = field(default_factory=list)
    gaps: list[tuple[str, str, int, int]] = field(default_factory=list)


def _counted(window: Window) -> CountedWindow:
    return CountedWindow(
        window.device,
        window.epoch,
        window.seq,
        window.start_us,
        window.end_us,
        window.counter_start_mj,
        window.counter_end_mj,
        window.energy_mj,
    )


def read_spool(path: Path) -> Spooled:
    """Read a spool file directly."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as file:
        names = dict(file.execute("SELECT id, text FROM name").fetchall())
        rows = file.execute(
            "SELECT device, epoch, seq, start_us, end_us, energy_mj, body FROM window"
        ).fetchall()
        dead = file.execute("SELECT window, reason FROM dead").fetchall()
        gaps = file.execute("SELECT device, epoch, from_us, to_us FROM gap").fetchall()
    return Spooled(
        [_counted(unpack_window(names[row[0]], names[row[1]], row[2:])) for row in rows],
        [(_counted(Window(**json.loads(body))), reason) for body, reason in dead],
        gaps,
    )


@dataclass
class Account:
    """Totals of one device, mJ."""

    accepted_mj: int = 0
    quarantined_mj: int = 0
    dead_mj: int = 0
    spooled_mj: int = 0
    gap_mj: int = 0
    counted_mj: int = 0

    @property
    def accounted_mj(self) -> int:
        return self.accepted_mj + self.quarantined_mj + self.dead_mj + self.spooled_mj + self.gap_mj


def audit(
    books: LedgerDatabase, node: str, spool: Spooled, records: dict[str, Record]
) -> dict[str, Account]:
    """Check every window of ``node`` against the GPU records. Returns the totals of each device.
    Raises AssertionError.
    """
    accepted = books.accepted(node)
    quarantined = [window for window, _ in books.quarantined(node)]
    dead = [window for window, _ in spool.dead]
    # A window that was accepted but not deleted before a kill is in both places. It counts once.
    known = {(window.device, window.epoch, window.seq) for window in [*accepted, *quarantined]}
    spooled = [
        window for window in spool.windows if (window.device, window.epoch, window.seq) not in known
    ]
    gaps = {
        (device, epoch, from_us) for device, epoch, from_us, _ in [*books.gaps(node), *spool.gaps]
    }
    accounts = {}
    for device, record in records.items():
        windows_by_state = {
            name: [window for window in windows if window.device == device]
            for name, windows in (
                ("accepted", accepted),
                ("quarantined", quarantined),
                ("dead", dead),
                ("spooled", spooled),
            )
        }
        sums = {
            f"{name}_mj": sum(window.energy_mj for window in windows)
            for name, windows in windows_by_state.items()
        }
        everything = [window for windows in windows_by_state.values() for window in windows]
        gap_mj = _gap_mj(device, _chains(everything), record, gaps)
        accounts[device] = Account(**sums, gap_mj=gap_mj, counted_mj=record.total_mj)
    return accounts


def _chains(windows: Sequence[CountedWindow]) -> list[list[CountedWindow]]:
    """Return the windows of each epoch in order, epochs by time. No window of an epoch is missing
    or double.
    """
    epochs: dict[str, list[CountedWindow]] = defaultdict(list)
    for window in windows:
        epochs[window.epoch].append(window)
    for chain in epochs.values():
        chain.sort(key=lambda window: window.seq)
        for window in chain:
            assert window.energy_mj == window.counter_end_mj - window.counter_start_mj >= 0, window
        for before, after in pairwise(chain):
            assert before.counter_end_mj == after.counter_start_mj, (
                f"lost or counted twice between {before} and {after}"
            )
    return sorted(epochs.values(), key=lambda chain: chain[0].start_us)


def _edges(chain: list[CountedWindow]) -> set[int]:
    """Return all counter readings of an epoch, mJ."""
    return {edge for window in chain for edge in (window.counter_start_mj, window.counter_end_mj)}


def _gap_mj(
    device: str,
    chains: list[list[CountedWindow]],
    record: Record,
    declared: set[tuple[str, str, int]],
) -> int:
    """Return the energy between epochs by the GPU's record. Each such interval must have been
    declared as a gap.
    """
    assert chains, f"{device} was never measured"
    falls = [record.falls_before(_edges(chain), chain[-1].end_us) for chain in chains]
    assert chains[0][0].seq == 0, f"windows before {chains[0][0]} are missing"
    total_mj = 0
    for (before, falls_before), (after, falls_after) in pairwise(zip(chains, falls, strict=True)):
        last, first = before[-1], after[0]
        assert first.seq == last.seq + 1, (
            f"windows between {last} and {first} are missing"
        )  # an epoch goes on counting
        assert (device, last.epoch, last.end_us) in declared, (
            f"no gap declared after {last}, before {first}"
        )
        ended_mj = record.at(last.counter_end_mj, falls_before)
        began_mj = record.at(first.counter_start_mj, falls_after)
        assert began_mj >= ended_mj, f"{first} counts again what {last} had"
        total_mj += began_mj - ended_mj
    return total_mj
