"""manage.py import_codecarbon: the file of CodeCarbon, all rows or none, the same file once."""

import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.energy.models import LedgerEntry
from apps.runs.models import Run
from apps.trackers.codecarbon.models import CodeCarbonInterval, CodeCarbonPost
from tests.builders import T0, SmallLab, small_lab
from tests.trackers.support import stored, tracker, work

HEAD = (
    "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,"
    "gpu_power,ram_power,cpu_energy,"
    "gpu_energy,ram_energy,energy_consumed,country_iso_code,os,cpu_count,cpu_model,gpu_count,"
    "gpu_model,ram_total_size,pue"
)
RUN = "7f1d3b52-2222-4333-8444-555566667777"


def _line(
    run: str = RUN,
    *,
    at: str = "2026-11-02T09:00:00",
    duration: str = "3600.5",
    cpu: str = "0.05",
    pue: str = "1.25",
) -> str:
    return (
        f"{at},cells,{run},5b0f,{duration},0.0123,1e-6,50.0,0.0,5.0,{cpu},0.0,0.0025,0.0525,DEU,"
        f"Linux,16,EPYC,,,64.0,{pue}"
    )


def _file(tmp_path: Path, *lines: str, head: str = HEAD) -> Path:
    path = tmp_path / "emissions.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def _import(path: Path, **options: Any) -> str:
    said = StringIO()
    call_command("import_codecarbon", str(path), project="demo", stdout=said, **options)
    work()
    return said.getvalue()


def test_rows_become_finished_runs(lab: SmallLab, tmp_path: Path) -> None:
    said = _import(
        _file(tmp_path, _line(), _line(str(uuid.uuid4()), at="2026-11-02T12:00:00")), node="ws-1"
    )
    assert "2 rows of 2 runs, 84.0 Wh: 2 imported" in said
    run = Run.objects.order_by("started_us")[0]
    # 9:00 in Berlin, where the lab is, is 8:00 UTC; the PUE is divided out; a run without a GPU has
    # no GPU window.
    assert run.ended_us == T0
    assert (run.name, run.state, run.reported_by, run.ended_us - run.started_us) == (
        "cells",
        "finished",
        "codecarbon",
        3_600_500_000,
    )
    first = CodeCarbonInterval.objects.order_by("start_us")[0]
    assert (first.cpu_mj, first.ram_mj, first.gpu_mj, first.client_ug) == (
        144_000_000,
        7_200_000,
        0,
        12_300_000,
    )
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 2 * 151_200_000


def test_the_same_file_twice_changes_nothing(lab: SmallLab, tmp_path: Path) -> None:
    path = _file(tmp_path, _line())
    _import(path)
    assert "1 there before" in _import(path)
    assert (Run.objects.count(), CodeCarbonPost.objects.count()) == (1, 1)


def test_rows_of_one_run_are_its_total_so_far(lab: SmallLab, tmp_path: Path) -> None:
    """flush() writes a row; the file may have grown since it was imported."""
    first = _line(duration="1800", cpu="0.02", at="2026-11-02T08:30:00")
    _import(_file(tmp_path, first))
    said = _import(_file(tmp_path, _line(), first))
    assert "1 imported, 1 there before" in said
    assert [row.cpu_mj for row in CodeCarbonInterval.objects.order_by("end_us")] == [
        57_600_000,
        86_400_000,
    ]
    assert Run.objects.count() == 1


def test_a_dry_run_writes_nothing(lab: SmallLab, tmp_path: Path) -> None:
    assert "1 rows of 1 runs, 42.0 Wh would be imported" in _import(
        _file(tmp_path, _line()), dry_run=True
    )
    assert Run.objects.count() == 0


def test_a_run_that_a_token_told_of_is_not_imported(lab: SmallLab, tmp_path: Path) -> None:
    cc = tracker(lab)
    record = {
        "timestamp": "2026-11-02T09:00:00",
        "run_id": RUN,
        "duration": 60,
        "cpu_energy": 0.01,
        "ram_energy": 0,
    }
    assert cc.post("/emissions-data", record).status_code == 201
    work()
    assert "1 there before" in _import(_file(tmp_path, _line()))
    assert len(stored(cc.source)) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (_line("None"), "line 3: run_id 'None' is no UUID of a run"),
        (_line(duration="long"), "line 3: duration is 'long', not a number"),
        (_line(cpu="-1"), "line 3: cpu_energy is -1"),
        (_line(at="today"), "line 3: timestamp 'today' is no time"),
        (_line(pue="0.5"), "line 3: pue is 0.5"),
    ],
)
def test_one_bad_row_and_nothing_is_imported(
    lab: SmallLab, tmp_path: Path, line: str, words: str
) -> None:
    with pytest.raises(CommandError) as told:
        _import(_file(tmp_path, _line(), line))
    assert words in str(told.value)
    assert "Nothing was imported" in str(told.value)
    assert Run.objects.count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"node": "nope"}, "No machine is called 'nope'"),
        ({"site": "nope"}, "There is no site 'nope'. Known: Room 1"),
        ({"time_zone": "Berlin"}, "is not a time zone"),
        ({"client_pue": 0.5}, "from 1 to 10"),
        ({"lab": "nope"}, "Name the lab with --lab. Known: cell-lab"),
    ],
)
def test_what_is_asked_wrongly_is_told(
    lab: SmallLab, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        _import(_file(tmp_path, _line()), **options)


def test_another_file_is_told_from_codecarbons(lab: SmallLab, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="column 'timestamp' is missing"):
        _import(_file(tmp_path, "1,2", head="a,b"))
    with pytest.raises(CommandError, match="cannot be read"):
        _import(tmp_path / "none.csv")


def test_two_labs_may_have_the_same_file(lab: SmallLab, tmp_path: Path) -> None:
    other = small_lab(name="Other")
    for one in (lab, other):
        assert "1 imported" in _import(_file(tmp_path, _line()), lab=one.lab.slug)
    assert {run.lab.name for run in Run.objects.all()} == {"Cell Lab", "Other"}
