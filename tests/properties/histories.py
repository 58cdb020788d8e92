"""Made-up histories of meters, and an independent, slow, obvious computation of the ledger they
must give.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

from django.db import transaction
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.energy.models import DeviceHour, LedgerEntry
from apps.ingest.choices import MoveRule, MoveState
from apps.ingest.models import ConsumerHour, DeviceMove, EnergyWindow
from apps.ingest.services.moves import accept_move
from tests.builders import BOOT, MINUTE, T0, W

HOUR_US = 60 * MINUTE
GPUS = ("gpu:GPU-aaaa", "gpu:GPU-bbbb", "gpu:GPU-cccc")
RUNS = tuple(f"run:{uuid.UUID(int=number)}" for number in (1, 2))
CONSUMERS = (
    *RUNS,
    "job:c/17",
    "pod:c/ns/p",
    "container:0a1b",
    "proc:ada/python",
    "idle",
    "unknown",
)
# The end of every history: batches are sent then, so that the clock rule moves nothing.
SENT = T0 + 40 * 24 * HOUR_US


@dataclass(frozen=True)
class Sent:
    """A window, and the number of the node that measured it."""

    window: W
    node: int = 0


@contextmanager
def undone() -> Iterator[None]:
    """Run an example and take everything back that it wrote."""
    with transaction.atomic():
        try:
            yield
        finally:
            transaction.set_rollback(True)


@st.composite
def shares(draw: st.DrawFn, energy_mj: int) -> tuple[tuple[str, int], ...]:
    """Divide a window's energy among any consumers, at any cuts (also nothing for some)."""
    keys = draw(st.lists(st.sampled_from(CONSUMERS), min_size=1, max_size=4, unique=True))
    cuts = sorted(
        draw(st.lists(st.integers(0, energy_mj), min_size=len(keys) - 1, max_size=len(keys) - 1))
    )
    edges = [0, *cuts, energy_mj]
    return tuple((key, high - low) for key, low, high in zip(keys, edges, edges[1:], strict=False))


@st.composite
def timelines(draw: st.DrawFn, device: str, nodes: int) -> list[Sent]:
    """One device's life: windows of any length (some over hours), gaps, counters that restart,
    moves between nodes.
    """
    at = T0 + draw(st.integers(-3 * HOUR_US, 3 * HOUR_US))
    epoch, sequence, counter, node = (
        1,
        0,
        draw(st.integers(0, 2**50)),
        draw(st.integers(0, nodes - 1)),
    )
    found: list[Sent] = []
    for _ in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(("window", "window", "window", "gap", "reset", "move")))
        if step == "gap":
            at += draw(st.integers(1, 30 * HOUR_US))
        elif step == "reset":
            epoch, sequence, counter = epoch + 1, 0, draw(st.integers(0, 1000))
        elif step == "move":
            node = draw(st.integers(0, nodes - 1))
        else:
            length = draw(
                st.one_of(
                    st.just(MINUTE), st.integers(1, 2 * MINUTE), st.integers(HOUR_US, 7 * HOUR_US)
                )
            )
            energy_mj = draw(st.integers(0, 2 * length))
            window = W(
                device,
                energy_mj,
                start_us=at,
                end_us=at + length,
                seq=sequence,
                epoch=f"{BOOT}/{epoch}",
                counter_start=counter,
                shares=draw(shares(energy_mj)),
                flags=draw(st.sampled_from((0, 2, 4))),
            )
            found.append(Sent(window, node))
            at, counter, sequence = at + length, counter + energy_mj, sequence + 1
    return found


@st.composite
def histories(draw: st.DrawFn, nodes: int = 1) -> list[Sent]:
    """Any lives of one to three devices."""
    devices = GPUS[: draw(st.integers(1, 3))]
    return [sent for device in devices for sent in draw(timelines(device, nodes))]


@st.composite
def deliveries(draw: st.DrawFn, sent: list[Sent]) -> list[tuple[int, list[W]]]:
    """Any way to deliver windows: reordered, cut into batches anywhere, windows and whole
    batches repeated.
    """
    twice = draw(st.lists(st.sampled_from(sent), max_size=3)) if sent else []
    order = draw(st.permutations([*sent, *twice]))
    batches: list[tuple[int, list[W]]] = []
    for one in order:
        if batches and batches[-1][0] == one.node and draw(st.booleans()):
            batches[-1][1].append(one.window)
        else:
            batches.append((one.node, [one.window]))
    again = draw(st.lists(st.sampled_from(batches), max_size=2)) if batches else []
    return [*batches, *again]


def _by_hour(energy_mj: int, start_us: int, end_us: int) -> dict[int, int]:
    """Divide by duration with exact fractions; what is left goes to the largest fractions,
    earlier hours first.
    """
    hours = range(start_us // HOUR_US, (end_us - 1) // HOUR_US + 1)
    exact = {
        hour: Fraction(
            energy_mj * (min(end_us, (hour + 1) * HOUR_US) - max(start_us, hour * HOUR_US)),
            end_us - start_us,
        )
        for hour in hours
    }
    parts = {hour: value.__floor__() for hour, value in exact.items()}
    left = energy_mj - sum(parts.values())
    for hour in sorted(hours, key=lambda hour: (-(exact[hour] - parts[hour]), hour))[:left]:
        parts[hour] += 1
    return parts


Row = tuple[str, int, int, str, int, int, int]


def expected_ledger(sent: list[Sent]) -> dict[Row, int]:
    """Return {(device, hour, node number, consumer, energy, share, placement quality): mJ},
    without zero entries.
    """
    ledger: Counter[Row] = Counter()
    for one in sent:
        window = one.window
        used = [part for part in window.shares or () if part[1]]
        share_quality = 1 if len(used) <= 1 else 2
        for consumer, energy_mj in used:
            parts = _by_hour(energy_mj, window.start_us, window.end_us)
            for hour, part in parts.items():
                placement = 1 if window.end_us <= (window.start_us // HOUR_US + 1) * HOUR_US else 2
                ledger[window.device, hour, one.node, consumer, 1, share_quality, placement] += part
    return {row: energy_mj for row, energy_mj in ledger.items() if energy_mj}


def kept_ledger(nodes: list[int]) -> dict[Row, int]:
    """Return the ledger as the database holds it, in the same form, without the server's own
    overhead and zeros.
    """
    fields = (
        "device__key",
        "hour",
        "node_id",
        "consumer__key",
        "energy_quality",
        "share_quality",
        "placement_quality",
        "energy_mj",
    )
    found = (
        LedgerEntry.objects.exclude(device__kind="host").exclude(energy_mj=0).values_list(*fields)
    )
    return {(row[0], row[1], nodes.index(row[2]), *row[3:7]): row[7] for row in found}


def all_rows() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Return every ledger entry and device-hour, without their ids."""
    entries = LedgerEntry.objects.values_list(
        "device_id",
        "hour",
        "node_id",
        "consumer_id",
        "energy_quality",
        "share_quality",
        "placement_quality",
        "energy_mj",
    )
    hours = DeviceHour.objects.values_list(
        "device_id", "hour", "node_id", "covered_us", "windows", "energy_mj"
    )
    return sorted(entries), sorted(hours)


def accept_moves() -> None:
    """Accept moves of devices until no window waits for one."""
    while move := DeviceMove.objects.filter(state=MoveState.PENDING).order_by("pk").first():
        accept_move(lab=move.to_node.lab, move_id=move.pk, rule=MoveRule.MANAGER, by=None, now=SENT)
        run_until_idle(worker="test")


def conserved() -> bool:
    """Return whether each device's ledger sums to its accepted windows."""
    windows: Counter[int] = Counter()
    for device, energy_mj in EnergyWindow.objects.values_list("device_id", "energy_mj"):
        windows[device] += energy_mj
    ledger: Counter[int] = Counter()
    for device, energy_mj in LedgerEntry.objects.exclude(device__kind="host").values_list(
        "device_id", "energy_mj"
    ):
        ledger[device] += energy_mj
    return +windows == +ledger


def assert_shares_are_conserved() -> None:
    """Check that the shares of each window sum to its energy, and the consumers' hours to them."""
    sums: Counter[tuple[int, int, int]] = Counter()
    ends: dict[tuple[int, int, int], int] = {}
    for window in EnergyWindow.objects.all():
        shares = json.loads(window.shares)
        assert sum(shares.values()) == window.energy_mj
        for consumer, energy_mj in shares.items():
            place = (int(consumer), window.device_id, window.start_us // HOUR_US)
            sums[place] += energy_mj
            ends[place] = max(ends.get(place, 0), window.end_us)
    rows = ConsumerHour.objects.values_list(
        "consumer_id", "device_id", "hour", "energy_mj", "last_us"
    )
    assert {row[:3]: row[3:] for row in rows} == {
        place: (energy_mj, ends[place]) for place, energy_mj in sums.items()
    }


def other_content(window: W, extra_mj: int) -> W:
    """Return a window of the same key that says something else."""
    return replace(
        window,
        energy_mj=window.energy_mj + extra_mj,
        shares=((*CONSUMERS[:1], window.energy_mj + extra_mj),),
    )
