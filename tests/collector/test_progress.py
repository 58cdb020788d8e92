"""Progress of a long command."""

from __future__ import annotations

import io

from labcarbon_collect.progress import Progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_and_elsewhere() -> None:
    seconds = [0.0]
    screen, plain = Screen(), io.StringIO()
    bars = [Progress("jobs", out=out, now=lambda: seconds[0]) for out in (screen, plain)]
    for step in range(1, 61):
        seconds[0] = step / 2
        for bar in bars:
            bar.update(step * 1000, step / 120)
    for bar in bars:
        bar.update(60_000, 1.0, is_final=True)
    assert (
        "[########......................] 30,000 jobs, 2,000/s, 25 %, 45 s left"
        in screen.getvalue().split("\r")[30]
    )
    assert screen.getvalue().rstrip().endswith("60,000 jobs, 2,000/s, 30 s")
    assert plain.getvalue().splitlines() == [
        "20,000 jobs, 2,000/s, 17 %, 50 s left",
        "40,000 jobs, 2,000/s, 33 %, 40 s left",
        "60,000 jobs, 2,000/s, 50 %, 30 s left",
        "60,000 jobs, 2,000/s, 30 s",
    ]


def test_earlier_work_does_not_change_the_rate() -> None:
    """A resumed scan once estimated four minutes instead of nine hours, because nine tenths were
    known at the start.
    """
    seconds, out = [0.0], io.StringIO()
    bar = Progress("files", out=out, now=lambda: seconds[0])
    for at_s, fraction in ((3, 0.0), (4, 0.9), (10, 0.9), (24, 0.92), (44, 0.94)):
        seconds[0] = at_s
        bar.update(7, fraction, read_bytes=0)
    ends = [line.split("/s")[1] for line in out.getvalue().splitlines()]
    assert ends == [", 90 %", ", 92 %, 80 s left", ", 94 %, 60 s left"]


def test_bytes_have_units() -> None:
    seconds, out = [0.0], io.StringIO()
    bar = Progress("read", counts_bytes=True, out=out, now=lambda: seconds[0])
    seconds[0] = 20
    bar.update(2_500_000_000_000, 0.25)
    seconds[0] = 40
    bar.update(10**13, 1.0, is_final=True)
    assert out.getvalue().splitlines() == [
        "2.5 TB read, 125 GB/s, 25 %",
        "10 TB read, 250 GB/s, 40 s",
    ]
