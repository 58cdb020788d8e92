"""The windows of the demo: an hour each, those of the last hour a minute, uploaded as a collector
does.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import msgspec

from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.ingest.choices import FLAG_MERGED
from apps.ingest.models import EnergyWindow
from apps.ingest.parsing import MAX_WINDOWS, parse_batch
from apps.ingest.services import accept_batch
from labcarbon.demo.plan import Card, Machine, PlannedRun, identity, is_working_hour

MINUTE_US = 60_000_000
_MONO_US = 10**9  # of the clock of the machine at its first window


class Window(NamedTuple):
    """The energy of one device in an hour or a part of it, with its consumers, utilization (‰) and
    memory in use (MiB; None for processors).
    """

    card: Card
    start_us: int
    end_us: int
    energy_mj: int
    shares: tuple[tuple[str, int], ...]
    counter_start: int | None
    sequence: int
    epoch: int
    util_pm: int
    memory_mib: int | None


@dataclass
class Position:
    """Where the windows of a device continue. ``counter``: its reading, mJ."""

    end_us: int
    sequence: int
    epoch: int
    counter: int


RunsByHour = Mapping[int, list[PlannedRun]]


def upload(node: Node, machine: Machine, runs: Sequence[PlannedRun], seed: int, now: int) -> int:
    """Upload the windows of a machine until ``now``. Return their number."""
    return send(node, machine, list(windows_of(machine, runs, seed, now)), seed)


def send(node: Node, machine: Machine, windows: list[Window], seed: int) -> int:
    """Upload windows in batches. Return their number."""
    size = MAX_WINDOWS // len(machine.cards) * len(machine.cards)
    for first in range(0, len(windows), size):
        _send_batch(node, machine, windows[first : first + size], seed)
    return len(windows)


def windows_of(
    machine: Machine, runs: Sequence[PlannedRun], seed: int, now: int
) -> Iterator[Window]:
    """Yield the windows of all devices in order of time."""
    by_card = _runs_by_hour(machine, runs)
    dice = {card.key: Random(f"{seed}/{card.key}") for card in machine.cards}
    positions = {card.key: Position(-1, -1, 0, 0) for card in machine.cards}
    for start_us, end_us in _spans(machine, now):
        for card in machine.cards:
            position = positions[card.key]
            if start_us != position.end_us:
                position.epoch, position.counter = position.epoch + 1, 90_000_000
            noise = dice[card.key].uniform(0.94, 1.06)
            yield _next_window(machine, card, by_card[card.key], position, start_us, end_us, noise)


def positions_of(node: Node, machine: Machine) -> dict[str, Position]:
    """Return where the windows of each device of a machine continue, by its key."""
    positions = {}
    for card in machine.cards:
        stored = EnergyWindow.objects.filter(node=node, device__lab=node.lab, device__key=card.key)
        if last := stored.select_related("epoch").order_by("-start_us").first():
            epoch = int(last.epoch.key.rpartition("/")[2])
            positions[card.key] = Position(last.end_us, last.sequence, epoch, last.counter_end or 0)
    return positions


def windows_after(
    machine: Machine,
    runs: Sequence[PlannedRun],
    positions: Mapping[str, Position],
    seed: int,
    now: int,
) -> Iterator[Window]:
    """Yield the windows of each device from its position until ``now``, cut at whole hours."""
    by_card = _runs_by_hour(machine, runs)
    until_us = now // MINUTE_US * MINUTE_US
    for card in machine.cards:
        position = positions.get(card.key)
        while position is not None and position.end_us < until_us:
            start_us = position.end_us
            end_us = min(until_us, (start_us // US_PER_HOUR + 1) * US_PER_HOUR)
            noise = Random(f"{seed}/{card.key}/{start_us}").uniform(0.9, 1.1)
            yield _next_window(machine, card, by_card[card.key], position, start_us, end_us, noise)


def _next_window(
    machine: Machine,
    card: Card,
    runs: RunsByHour,
    position: Position,
    start_us: int,
    end_us: int,
    noise: float,
) -> Window:
    """Return the window of one device, and advance its position."""
    hour = start_us // US_PER_HOUR
    users = runs.get(hour, ())
    energy_mj = int(_watts(card, users, noise) * (end_us - start_us) / 1000)
    has_counter = card.measurement in ("nvml_counter", "rapl")
    counter_start = position.counter
    position.end_us, position.sequence = end_us, position.sequence + 1
    position.counter += energy_mj
    return Window(
        card,
        start_us,
        end_us,
        energy_mj,
        _shares(machine, card, users, energy_mj, hour),
        counter_start if has_counter else None,
        position.sequence,
        position.epoch,
        _load_pm(card, users),
        _memory_mib(users) if card.is_gpu else None,
    )


def _spans(machine: Machine, now: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the hours with data, and of the minutes of the present one."""
    now_hour = now // US_PER_HOUR
    end = now_hour if machine.to_hour is None else min(machine.to_hour, now_hour)
    for hour in range(machine.from_hour, end):
        if not machine.outage[0] <= hour < machine.outage[1]:
            yield hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR
    last_us = now // MINUTE_US * MINUTE_US
    if machine.to_hour is None:
        for start_us in range(end * US_PER_HOUR, last_us, MINUTE_US):
            yield start_us, start_us + MINUTE_US


def _runs_by_hour(machine: Machine, runs: Sequence[PlannedRun]) -> Mapping[str, RunsByHour]:
    found: dict[str, dict[int, list[PlannedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        keys = [*(machine.gpus[number].key for number in run.gpus), machine.cpu.key]
        for hour in range(run.from_hour, run.to_hour):
            for key in keys:
                found[key][hour].append(run)
    return found


def _watts(card: Card, users: Sequence[PlannedRun], noise: float) -> float:
    """Return the power: that of idling, and a part of the rest for each run."""
    load = sum(run.load_pm for run in users) / 1000
    share = load if card.is_gpu else min(1.0, load / 3)
    return (card.idle_w + (card.busy_w - card.idle_w) * share) * noise


def _load_pm(card: Card, users: Sequence[PlannedRun]) -> int:
    load_pm = sum(run.load_pm for run in users)
    return min(1000, load_pm if card.is_gpu else load_pm // 3)


def _memory_mib(users: Sequence[PlannedRun]) -> int:
    """Return 4 to 15 GiB for each run, and what the driver holds."""
    return 450 + sum(4096 + 1024 * (run.uuid.int % 12) for run in users)


def _shares(
    machine: Machine, card: Card, users: Sequence[PlannedRun], energy: int, hour: int
) -> tuple[tuple[str, int], ...]:
    """Divide the energy of a window: equal parts for the runs, and a rest for idle."""
    keys = [f"run:{run.uuid}" for run in users]
    if not keys and machine.program and not card.is_gpu and is_working_hour(hour):
        keys = [machine.program]
    if not keys:
        return (("idle", energy),)
    part = (energy - energy // 25) // len(keys)
    return (*((key, part) for key in keys), ("idle", energy - part * len(keys)))


def _send_batch(node: Node, machine: Machine, windows: list[Window], seed: int) -> None:
    """Upload one batch at the time of its last window."""
    sent_us = max(window.end_us for window in windows)
    boot = str(identity(seed, f"{machine.name}.boot"))
    body = _body(node, machine, windows, boot, sent_us, seed)
    batch = parse_batch(msgspec.json.encode(body))
    results = accept_batch(node=node, batch=batch, received_us=sent_us)
    refused = [result for result in results if result != ["accepted"]]
    if refused:
        raise RuntimeError(f"{len(refused)} windows were not accepted: {refused[:3]}")


def _body(
    node: Node, machine: Machine, windows: list[Window], boot: str, sent_us: int, seed: int
) -> dict[str, Any]:
    """Return the body of an upload (docs/collector.md)."""
    base_us = machine.from_hour * US_PER_HOUR - _MONO_US
    cards = [card.key for card in machine.cards]
    consumers = list(dict.fromkeys(key for window in windows for key, _ in window.shares))
    place = {key: number for number, key in enumerate(consumers)}
    flat = [
        (number, place[key], mj)
        for number, window in enumerate(windows)
        for key, mj in window.shares
    ]
    columns = {
        "device": [cards.index(window.card.key) for window in windows],
        "epoch": [f"{boot}/{window.epoch}" for window in windows],
        "seq": [window.sequence for window in windows],
        "start": [window.start_us for window in windows],
        "end": [window.end_us for window in windows],
        "mono_start": [window.start_us - base_us for window in windows],
        "mono_end": [window.end_us - base_us for window in windows],
        "counter_start": [window.counter_start for window in windows],
        "counter_end": [
            None if window.counter_start is None else window.counter_start + window.energy_mj
            for window in windows
        ],
        "energy_mj": [window.energy_mj for window in windows],
        "measurement": [window.card.measurement for window in windows],
        "flags": [
            FLAG_MERGED if window.end_us - window.start_us > MINUTE_US else 0 for window in windows
        ],
        "processes": [len(window.shares) - 1 for window in windows],
        "util_mean_pm": [window.util_pm for window in windows],
        "util_max_pm": [min(1000, window.util_pm + window.util_pm // 10) for window in windows],
        "mem_mean_mib": [window.memory_mib for window in windows],
        "mem_max_mib": [window.memory_mib for window in windows],
    }
    return {
        "schema": "1.0",
        "batch": str(identity(seed, f"{machine.name}.{windows[0].start_us}.batch")),
        "sent_at": sent_us,
        "node": str(node.uuid),
        "boot": boot,
        "monotonic": sent_us - base_us,
        "devices": cards,
        "consumers": consumers,
        "windows": columns,
        "shares": {
            "window": [row[0] for row in flat],
            "consumer": [row[1] for row in flat],
            "energy_mj": [row[2] for row in flat],
        },
        "device_facts": {card.key: {"name": card.model} for card in machine.cards},
    }
