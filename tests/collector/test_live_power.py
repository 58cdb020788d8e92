"""Content of ``top``: power from the counter, visible names, and lines that fit."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from labcarbon_collect.commands.top import clip_lines, display_width, fit_line, format_lines
from labcarbon_collect.monitor.live import MAX_ROWS, MORE_ROW, LivePower, is_own_consumer

from tests.collector.readings import GPU, reading

RUN, OTHER = "0b1c7d60-0000-4000-8000-000000000001", "0b1c7d60-0000-4000-8000-000000000002"


def is_own(
    consumer: str, *, uid: int = 1000, name: str = "ana", uids: frozenset[int] = frozenset()
) -> bool:
    owners = {RUN: 1000, OTHER: 1001}
    return is_own_consumer(consumer, uid, name=name, owner_of=owners.get, uids=lambda key: uids)


@pytest.mark.parametrize(
    ("consumer", "options", "expected"),
    [
        (f"run:{RUN}", {}, True),
        (f"run:{OTHER}", {}, False),
        ("run:gone", {}, False),
        ("proc:ana/python3", {}, True),
        ("proc:ben/python3", {}, False),
        ("proc:anabelle/x", {}, False),
        ("proc:-/python3", {"name": ""}, False),
        ("proc:-/python3", {"name": "", "uids": frozenset({1000})}, True),
        ("proc:-/python3", {"name": "", "uids": frozenset({1000, 1001})}, False),
        ("job:hpc/7", {"uids": frozenset({1000})}, True),
        ("job:hpc/7", {"uids": frozenset({1001})}, False),
        ("container:x", {"uids": frozenset({-1, 1000})}, False),
        ("proc:ben/x", {"uid": 0}, False),
    ],
)
def test_owner_of_a_consumer(consumer: str, options: dict[str, Any], expected: bool) -> None:
    assert is_own(consumer, **options) is expected


def live_power_of(*counters: int, step_s: float = 1.0) -> LivePower:
    live_power = LivePower()
    for at, counter_mj in enumerate(counters):
        live_power.add_reading(reading(at * step_s, counter_mj))
    return live_power


def test_power_is_what_the_counter_grew_by() -> None:
    assert live_power_of(1000).power_mw(GPU) is None
    assert live_power_of(1000, 301_000).power_mw(GPU) == 300_000
    assert live_power_of(0, 300_000, 300_000).power_mw(GPU) == 0, "zero is not unknown"
    assert live_power_of(0, 300_000, step_s=100).power_mw(GPU) is None, (
        "an average over minutes is not the current power"
    )
    live_power = live_power_of(0, 300_000)
    live_power.add_reading(reading(1.001, 300_000))
    assert live_power.power_mw(GPU) == 300_000, "an extra poll changes nothing"
    live_power.add_reading(reading(2, 0, epoch="another"))
    assert live_power.power_mw(GPU) is None


def test_others_are_added_up_by_kind_and_never_named() -> None:
    live_power = live_power_of(0, 100_000)
    shares = {
        f"run:{RUN}": 10,
        f"run:{OTHER}": 20,
        "proc:ana/python3": 1,
        "proc:ben/secret": 2,
        "proc:eve/other": 3,
        "job:hpc/7": 4,
        "pod:c/vision/ben": 5,
        "container:ben/1": 6,
        "idle": 7,
        "unknown": 8,
    }
    live_power.set_weights(GPU, shares)
    rows = {row["who"]: row for row in live_power.rows(GPU, shares, is_own=is_own)}
    assert set(rows) == {
        f"run:{RUN}",
        "proc:ana/python3",
        "others' runs",
        "others' processes",
        "jobs",
        "pods",
        "containers",
        "idle",
        "unknown",
    }
    assert rows["others' processes"]["energy_mj"] == 5
    assert [name for name, row in rows.items() if row["yours"]] == [
        f"run:{RUN}",
        "proc:ana/python3",
    ]
    assert sum(row["energy_mj"] for row in rows.values()) == sum(shares.values())
    assert rows["others' runs"]["power_mw"] == 100_000 * 20 // 66
    text = json.dumps(list(rows.values()))
    assert not re.search(f"ben|eve|secret|vision|{OTHER}", text)


def test_root_gets_all_rows_with_its_own_marked() -> None:
    live_power = live_power_of(0, 100_000)
    shares = {f"run:{OTHER}": 1, "proc:root/sshd": 2, "idle": 3}
    live_power.set_weights(GPU, shares)
    rows = live_power.rows(
        GPU, shares, is_own=lambda key: is_own(key, uid=0, name="root"), show_all=True
    )
    assert {row["who"]: row["yours"] for row in rows} == {
        f"run:{OTHER}": False,
        "proc:root/sshd": True,
        "idle": False,
    }


def test_surplus_rows_are_summed_into_one() -> None:
    live_power = live_power_of(0, 100_000)
    shares = {f"proc:ana/p{n}": n + 1 for n in range(100)}
    rows = live_power.rows(GPU, shares, is_own=is_own)
    assert len(rows) == MAX_ROWS + 1
    assert rows[-1]["who"] == MORE_ROW
    assert sum(row["energy_mj"] for row in rows) == sum(shares.values())


# The snapshot

RESPONSE: dict[str, Any] = {
    "interval_s": 60,
    "full": "",
    "devices": [
        {
            "device": GPU,
            "name": "NVIDIA H100 80GB HBM3 with a name that goes on and on and on",
            "measurement": "nvml_counter",
            "read_us": 1,
            "power_mw": 300_400,
            "util_pm": 995,
            "memory_mib": 81_000,
            "since_us": 0,
            "energy_mj": 3_600_000,
            "who": [
                {"who": f"run:{RUN}", "yours": True, "power_mw": 300_000, "energy_mj": 3_000_000},
                {
                    "who": "proc:ana/\x1b[31mred\u202e",
                    "yours": True,
                    "power_mw": None,
                    "energy_mj": 0,
                },
                {"who": "others' runs", "yours": False, "power_mw": 0, "energy_mj": 600_000},
            ],
        },
        {
            "device": "cpu:x/0",
            "name": "計算機" * 20,
            "measurement": "cpu_model",
            "read_us": None,
            "power_mw": None,
            "util_pm": None,
            "memory_mib": None,
            "since_us": None,
            "energy_mj": None,
            "who": [],
        },
    ],
}


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_escape_comes_from_a_name(width: int) -> None:
    text = list(format_lines(RESPONSE, width=width, now_us=0))
    assert max(display_width(line) for line in text) <= width
    assert not any("\x1b" in line or "\u202e" in line for line in text)


def test_unknown_is_displayed_differently_from_zero() -> None:
    text = "\n".join(format_lines(RESPONSE, width=100, now_us=0))
    assert "300 W now  1.00 Wh since 00:00:00  use 100 %  memory 81000 MiB  nvml_counter" in text
    assert "– W now  – Wh  use –  memory –  cpu_model" in text
    assert f"*    300 W    0.833 Wh  run:{RUN}" in text
    assert "     0.0 W    0.167 Wh  others' runs" in text
    assert "labcarbon-collect doctor" in "\n".join(
        format_lines({**RESPONSE, "devices": []}, width=80, now_us=0)
    )


def test_lines_that_do_not_fit_are_counted() -> None:
    assert clip_lines(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert clip_lines(["a", "b", "c"], 2) == ["a", "… 2 more lines: labcarbon-collect top --once"]
    assert fit_line("計算機", 3) == "計…"
