"""What the machines of the demo do in each hour. Pure: the same seed and day give the same plan,
and a later hour of the day only adds to it.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

HOURS_PER_DAY, HOURS_PER_WEEK = 24, 168
DAYS = 365
OUTAGE_DAYS = (97, 99)  # of the first machine, counted from the first day
NEW_MACHINE_DAY, SILENT_DAYS = 165, 1
EPYC, RYZEN, XEON = "AMD EPYC 7252", "AMD Ryzen 9 7950X", "Intel Xeon Silver 4210"
A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"
RTX, V100 = "NVIDIA GeForce RTX 4090", "Tesla V100-PCIE-16GB"
PROJECTS = (
    ("cell-atlas", "Cell atlas"), ("membranes", "Membranes"), ("speech", "Speech"),
    ("protein-folds", "Protein folds"),
)  # fmt: skip
SCRIPTS = {
    "cell-atlas": "train_unet.py",
    "membranes": "segment.py",
    "speech": "finetune.py",
    "protein-folds": "pretrain.py",
}
DATASET_GB = {"cell-atlas": 640, "membranes": 210, "speech": 1_100, "protein-folds": 380}
PEOPLE = ("ben", "chen", "dora")  # who start runs
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)


@dataclass(frozen=True)
class Card:
    """A GPU or CPU package of a machine."""

    key: str
    model: str
    measurement: str
    idle_w: int
    busy_w: int

    @property
    def is_gpu(self) -> bool:
        return self.key.startswith("gpu:")


@dataclass(frozen=True)
class Machine:
    """A node. ``lanes``: groups of GPUs that a run uses together. ``to_hour``: the first hour
    without data, None for none.
    """

    name: str
    uuid: uuid.UUID
    is_desk: bool
    static_w: int
    gpus: tuple[Card, ...]
    cpu: Card
    lanes: tuple[tuple[int, ...], ...]
    from_hour: int
    to_hour: int | None = None
    outage: tuple[int, int] = (0, 0)
    program: str = ""  # consumer outside of runs, in working hours

    @property
    def cards(self) -> tuple[Card, ...]:
        return (*self.gpus, self.cpu)


@dataclass(frozen=True)
class PlannedRun:
    """A run in whole hours. ``to_hour``: its end, in the future for a running one."""

    uuid: uuid.UUID
    name: str
    project: str
    person: str
    gpus: tuple[int, ...]
    from_hour: int
    to_hour: int
    outcome: str
    load_pm: int  # of the power of its cards
    sweep: str = ""
    family: int | None = None
    params: dict[str, float | int | str] = field(default_factory=dict)


def identity(seed: int, name: str) -> uuid.UUID:
    """Return the UUID of what ``name`` means."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{seed}.demo.labcarbon.invalid")


@dataclass(frozen=True)
class Calendar:
    """The days until today. Days of the year are scaled to them, for shorter demos of tests."""

    now_hour: int
    days: int = DAYS

    @property
    def begin(self) -> int:
        """The first hour."""
        return (self.now_hour // HOURS_PER_DAY - self.days) * HOURS_PER_DAY

    def hour(self, day: int) -> int:
        """Return the hour of a day of the year; a negative day is before it."""
        return self.begin + day * HOURS_PER_DAY * self.days // DAYS


def machines(seed: int, calendar: Calendar, multiplier: int) -> list[Machine]:
    """Return ``multiplier`` times four machines with twelve devices."""
    begin = calendar.begin
    found = []
    for copy in range(multiplier):
        suffix = f"-{copy + 1}" if copy else ""
        found += [
            Machine(
                **_parts(seed, f"gpu-01{suffix}", A100, 4, EPYC, "rapl"),
                is_desk=False,
                static_w=310,
                lanes=((0,), (1,), (2, 3)),
                from_hour=begin,
                outage=(calendar.hour(OUTAGE_DAYS[0]), calendar.hour(OUTAGE_DAYS[1])),
            ),
            Machine(
                **_parts(seed, f"gpu-02{suffix}", H100, 2, EPYC, "rapl"),
                is_desk=False,
                static_w=260,
                lanes=((0, 1),),
                from_hour=calendar.hour(NEW_MACHINE_DAY),
            ),
            Machine(
                **_parts(seed, f"ws-01{suffix}", RTX, 1, RYZEN, "cpu_model"),
                is_desk=True,
                static_w=45,
                lanes=((0,),),
                from_hour=begin,
                program="proc:guest/jupyter-lab",
            ),
            Machine(
                **_parts(seed, f"ws-02{suffix}", V100, 1, XEON, "rapl"),
                is_desk=True,
                static_w=50,
                lanes=((0,),),
                from_hour=begin,
                to_hour=calendar.hour(DAYS - SILENT_DAYS),
                program="proc:emil/blender",
            ),
        ]
    return found


_WATTS = {
    A100: (58, 390), H100: (72, 660), RTX: (21, 410), V100: (38, 240),
    EPYC: (48, 118), RYZEN: (31, 160), XEON: (36, 84),
}  # fmt: skip


def _parts(seed: int, name: str, gpu: str, count: int, cpu: str, cpu_meter: str) -> dict[str, Any]:
    node = identity(seed, name)
    keys = [f"gpu:GPU-{identity(seed, f'{name}.{number}')}" for number in range(count)]
    return {
        "name": name,
        "uuid": node,
        "gpus": tuple(Card(key, gpu, "nvml_counter", *_WATTS[gpu]) for key in keys),
        "cpu": Card(f"cpu:{node}/0", cpu, cpu_meter, *_WATTS[cpu]),
    }


def runs_of(machine: Machine, seed: int, now_hour: int) -> list[PlannedRun]:
    """Return the runs of a machine in order of their start."""
    found = [
        run
        for number, gpus in enumerate(machine.lanes)
        for run in _lane(machine, number, gpus, seed, now_hour)
    ]
    return sorted(found, key=lambda run: (run.from_hour, run.gpus))


def _lane(
    machine: Machine, number: int, gpus: tuple[int, ...], seed: int, now_hour: int
) -> Iterator[PlannedRun]:
    hour = machine.from_hour
    end = now_hour if machine.to_hour is None else machine.to_hour
    while hour <= end:
        dice = Random(f"{seed}/{machine.name}/{number}/{hour}")
        begin = _start(machine, hour, dice)
        length = dice.randint(2, 9) if machine.is_desk else dice.randint(5, 58)
        chance = dice.random()
        outcome = "failed" if chance < 0.07 else "killed" if chance < 0.11 else "finished"
        if outcome != "finished":
            length = max(1, length // 4)
        if begin <= end and not _is_down(machine, begin, begin + length):
            yield _run(machine, number, gpus, seed, (begin, begin + length), outcome, dice)
        hour = begin + length


def _start(machine: Machine, hour: int, dice: Random) -> int:
    """Return when the next run starts: at a desk on a weekday, elsewhere after a pause."""
    if not machine.is_desk:
        return hour + (0 if dice.random() < 0.35 else dice.randint(1, 16))
    hour += dice.randint(1, 14)
    while not is_working_hour(hour):
        hour += 1
    return hour


def is_working_hour(hour: int) -> bool:
    """Return whether ``hour`` (UTC) is in the working time of a weekday."""
    weekday = (hour // HOURS_PER_DAY + 3) % 7  # 1970-01-01 was a Thursday
    return weekday < 5 and 7 <= hour % HOURS_PER_DAY < 18


def _is_down(machine: Machine, begin: int, end: int) -> bool:
    return begin < machine.outage[1] and machine.outage[0] < end


def _run(
    machine: Machine, lane: int, gpus: tuple[int, ...], seed: int,
    hours: tuple[int, int], outcome: str, dice: Random,
) -> PlannedRun:  # fmt: skip
    begin, end = hours
    week = begin // HOURS_PER_WEEK
    topic = Random(f"{seed}/{machine.name}/{lane}/week {week}")
    project, person = topic.choice(PROJECTS)[0], topic.choice(PEOPLE)
    is_sweep, family = topic.random() < 0.4, topic.random() < 0.03
    params: dict[str, float | int | str] = {
        "lr": dice.choice(RATES) if is_sweep else 0.0003,
        "batch": topic.choice((16, 32, 64)),
        "model": topic.choice(("unet-s", "unet-l", "transformer-base")),
        "seed": begin % 97,
    }
    stem = SCRIPTS[project].removesuffix(".py")
    named = dice.random() > 0.06
    return PlannedRun(
        uuid=identity(seed, f"{machine.name}.{lane}.{begin}.run"),
        name=f"{stem}-{begin % 100_000:05d}",
        project=project if named else "",
        person=person,
        gpus=gpus,
        from_hour=begin,
        to_hour=end,
        outcome=outcome,
        load_pm=dice.randint(520, 970),
        sweep=f"{stem}-lr-{week % 1000}" if is_sweep else "",
        family=week if family else None,
        params=params,
    )
