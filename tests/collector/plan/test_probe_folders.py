"""Command and folder of a probe, and the files that change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from labcarbon_collect.plan.probe.changed_files import changed_files, survey_folder
from labcarbon_collect.plan.probe.scratch import python_path, resolve_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_text("lr: 1")
    (tmp_path / "train.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("train.py", "{}/train.py"),
        ("./train.py", "{}/train.py"),
        ("conf/a.yaml", "{}/conf/a.yaml"),
        ("--config=conf/a.yaml", "--config={}/conf/a.yaml"),
        ("conf", "{}/conf"),
        ("missing.py", "missing.py"),
        ("--lr", "--lr"),
        ("--out=new", "--out=new"),
        ("/etc/hosts", "/etc/hosts"),
        ("", ""),
    ],
)
def test_arguments_that_name_existing_files_stay_those_files(
    folder: Path, word: str, expected: str
) -> None:
    command = resolve_command(["python", word], str(folder))
    assert command == ["python", expected.format(folder)]


def test_a_program_without_a_folder_is_found_through_path(folder: Path) -> None:
    assert resolve_command(["conf"], str(folder)) == ["conf"]
    assert resolve_command(["./train.py"], str(folder)) == [f"{folder}/train.py"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "-m", "package.train"], "/work"),
        (["/opt/bin/python3.9", "-u", "-m", "train"], "/work"),
        (["python", "-c", "import train"], "/work"),
        (["python", "train.py"], None),
        (["bash", "train.sh"], None),
    ],
)
def test_python_finds_the_modules_of_the_folder(command: list[str], expected: str | None) -> None:
    variable = python_path(command, "/work", {})
    assert variable == (("PYTHONPATH", expected) if expected else None)
    if expected:
        assert python_path(command, "/work", {"PYTHONPATH": "/a"}) == ("PYTHONPATH", "/work:/a")


def test_added_changed_and_deleted_files_are_listed(folder: Path) -> None:
    before = survey_folder(str(folder))
    (folder / "new").write_text("x")
    (folder / "conf" / "a.yaml").write_text("lr: 22")
    (folder / "train.py").unlink()
    for hidden in ("__pycache__", ".git"):
        (folder / hidden).mkdir()
        (folder / hidden / "x").write_text("")
    assert changed_files(before, survey_folder(str(folder))) == ["conf/a.yaml", "new", "train.py"]


def test_a_file_with_the_same_size_and_another_time_has_changed(folder: Path) -> None:
    before = survey_folder(str(folder))
    os.utime(folder / "train.py", ns=(1, 1))
    assert changed_files(before, survey_folder(str(folder))) == ["train.py"]


def test_a_large_folder_is_surveyed_up_to_a_limit(folder: Path) -> None:
    before = survey_folder(str(folder), max_files=1)
    assert not before.is_complete
    (folder / "zoo").write_text("x")
    after = survey_folder(str(folder), max_files=1)
    assert changed_files(before, after) == []  # the only file that both contain did not change
    assert changed_files(after, survey_folder(str(folder))) == []
