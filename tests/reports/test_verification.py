"""Verify an exported statement: it is valid, and each changed byte is found and located."""

import csv
import io
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.reports.conservation import imbalances
from apps.reports.export_files import parse_export, render_csv, render_json
from apps.reports.rows import (
    COLUMNS,
    LINE,
    NAME,
    Row,
    canonical_text,
    digest_of_text,
    line,
    rows_of_text,
)
from apps.reports.selectors import export_rows
from apps.reports.verification import verify
from tests.examples import examples
from tests.reports.support import close, full_lab

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    Row("statement", "statement", "format", value="labcarbon-statement-1"),
    Row("factor", "shipped:DE", "source", value="=Ümwelt, \"Amt\""),
    Row("factor", "shipped:DE", "ug_per_kwh", value="400000000"),
    line("lab", "energy_mj", -5),
    line("lab", "without_factor_mj", 0),
    line("~overhead", "energy_mj", -5),
    line("~overhead", "without_factor_mj", 0),
    line("~overhead", "energy_mj", -5, factor="shipped:DE", pue_ppm="1000000"),
    line("~overhead", "facility_energy_mj", -5, factor="shipped:DE", pue_ppm="1000000"),
    line("~overhead", "emission_ug", -1, factor="shipped:DE", pue_ppm="1000000"),
    line("~overhead", "entries", 1, factor="shipped:DE", pue_ppm="1000000"),
    line("~overhead", "facility_energy_mj", -5),
    line("~overhead", "emission_ug", -1),
    line("~overhead", "entries", 1),
    line("lab", "facility_energy_mj", -5),
    line("lab", "emission_ug", -1),
    line("lab", "entries", 1),
    *[
        line("lab", metric, value, profile="lesson", scope="2")
        for metric, value in (("energy_mj", -5), ("facility_energy_mj", -5), ("emission_ug", -1))
    ],
    Row(NAME, "project:demo", "name", value="-Demo; =1"),
]  # fmt: skip
FILES = {"json": render_json(SMALL).encode(), "csv": render_csv(SMALL).encode()}


@pytest.mark.parametrize("name", FILES)
def test_an_export_is_valid_and_keeps_its_rows(name: str) -> None:
    result = verify(FILES[name])
    assert result.problems == []
    assert [entry.row for entry in parse_export(FILES[name].decode()).rows] == SMALL
    by_hand = "\n".join(
        json.dumps([getattr(row, column) for column in COLUMNS], ensure_ascii=False,
                   separators=(",", ":"))
        for row in SMALL if row.kind != "name"
    )  # fmt: skip
    assert result.figures_sha256 == digest_of_text(by_hand)
    assert rows_of_text(canonical_text(SMALL)) == SMALL


@pytest.mark.parametrize("name", FILES)
def test_each_changed_byte_is_found(name: str) -> None:
    content = FILES[name]
    for position, byte in enumerate(content):
        changed = bytearray(content)
        changed[position] = byte ^ (1 << (position % 8))
        assert verify(bytes(changed)).problems, (position, content[position - 9 : position + 9])


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=examples(300))
@given(data=st.data())
def test_any_other_byte_a_missing_and_an_added_one_are_found(
    name: str, data: st.DataObject
) -> None:
    content = FILES[name]
    position = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(max_size=2))
    changed = content[:position] + new + content[position + 1 :]
    assert bool(verify(changed).problems) == (changed != content)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_the_changed_row_and_field_are_named(name: str, data: st.DataObject) -> None:
    lines_of_file = FILES[name].decode().split("\n" if name == "json" else "\r\n")
    number = data.draw(st.integers(1, len(SMALL)))
    column = data.draw(st.sampled_from(COLUMNS))
    old = SMALL[number - 1]
    text = data.draw(st.sampled_from(["7", "-12", "lab", "zz", "lesson", "x,y", '"', "1e3"]))
    if text == getattr(old, column) or (column == "kind" and LINE in (old.kind, text)):
        return
    rendered = {"json": render_json, "csv": render_csv}[name]
    if column == "value" and old.kind == LINE and not text.lstrip("-").isdigit():
        return
    other = rendered([*SMALL[: number - 1], replace(old, **{column: text}), *SMALL[number:]])
    changed_line = other.split("\n" if name == "json" else "\r\n")[number]
    digest = lines_of_file[number].rstrip("},").split('"')[-2] if name == "json" else (
        lines_of_file[number].rsplit(",", 1)[1])  # fmt: skip
    new_digest = changed_line.rstrip("},").split('"')[-2] if name == "json" else (
        changed_line.rsplit(",", 1)[1])  # fmt: skip
    lines_of_file[number] = changed_line.replace(new_digest, digest)
    problems = verify(("\n" if name == "json" else "\r\n").join(lines_of_file).encode()).problems
    assert [(problem.row, problem.field) for problem in problems] == [(number, column)]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_a_moved_and_an_added_row_are_named(name: str) -> None:
    end = "\n" if name == "json" else "\r\n"
    listed = FILES[name].decode().split(end)
    without = [*listed[:7], *listed[8:]]
    [problem] = verify(end.join(without).encode()).problems
    assert (problem.row, problem.message) == (7, "Row 7 is missing. Row 8 is in its place.")
    swapped = [*listed[:7], listed[8], listed[7], *listed[9:]]
    assert verify(end.join(swapped).encode()).problems[0].row == 7
    twice = [*listed[:8], listed[7], *listed[8:]]
    assert verify(end.join(twice).encode()).problems


@pytest.mark.parametrize("render", [render_json, render_csv])
def test_new_hashes_do_not_hide_a_changed_figure(render: object) -> None:
    """Whoever edits a figure can compute all hashes again. The sums and a noted hash remain."""
    for index, row in enumerate(SMALL):
        if row.kind != LINE:
            continue
        forged = [*SMALL[:index], replace(row, value=str(row.number + 10**12)), *SMALL[index + 1 :]]
        content = render(forged).encode()  # type: ignore[operator]
        assert verify(content).problems, row.label
        noted = verify(FILES["json"]).figures_sha256
        assert "figures_sha256" in {problem.field for problem in verify(content, noted).problems}


def test_names_do_not_change_the_hash_of_the_figures() -> None:
    renamed = [*SMALL[:-1], replace(SMALL[-1], value="Person 1")]
    assert verify(render_json(renamed).encode()).problems == []
    assert (
        verify(render_json(renamed).encode()).figures_sha256 == verify(FILES["csv"]).figures_sha256
    )


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"a,b\r\n", b"[]", FILES["csv"][:-40]])
def test_another_file_is_refused(content: bytes) -> None:
    assert verify(content).problems


def _figures() -> st.SearchStrategy[dict[str, list[tuple[str, int]]]]:
    parts = st.tuples(st.sampled_from(["a", "b", "none"]), st.integers(-(10**15), 10**18))
    return st.dictionaries(
        st.sampled_from(["project:x", "project:y", "~idle", "~overhead"]),
        st.lists(parts, min_size=1, max_size=3, unique_by=lambda part: part[0]),
    )


@settings(max_examples=examples(100))
@given(_figures(), st.data())
def test_sums_are_kept_or_the_line_is_named(
    figures: dict[str, list[tuple[str, int]]], data: st.DataObject
) -> None:
    """An oracle adds by hand; one changed integer is in an imbalance, of itself or its total."""
    rows = [Row("factor", name, "zone", value="DE") for name in ("a", "b")]
    totals: dict[str, int] = defaultdict(int)
    for subject, parts in figures.items():
        for factor, value in parts:
            for metric in ("energy_mj", "facility_energy_mj", "emission_ug", "entries"):
                amount = {"entries": 1, "emission_ug": 0}.get(metric, value)
                rows.append(line(subject, metric, amount, factor=factor, pue_ppm="1000000"))
                totals[metric] += amount
        unpriced = sum(value for factor, value in parts if factor == "none")
        energy = sum(value for _, value in parts)
        of_subject = {
            "energy_mj": energy, "facility_energy_mj": energy, "emission_ug": 0,
            "entries": len(parts), "without_factor_mj": unpriced,
        }  # fmt: skip
        rows += [line(subject, metric, value) for metric, value in of_subject.items()]
        totals["without_factor_mj"] += unpriced
    rows += [line("lab", metric, value) for metric, value in totals.items()]
    scoped = ("energy_mj", "facility_energy_mj", "emission_ug")
    rows += [
        line("lab", metric, totals[metric], profile="lesson", scope="2")
        for metric in scoped if metric in totals
    ]  # fmt: skip
    assert imbalances(rows) == []
    indexes = [i for i, row in enumerate(rows) if row.kind == LINE]
    if not indexes:
        return
    index = data.draw(st.sampled_from(indexes))
    change = data.draw(st.integers(1, 10**6)) * data.draw(st.sampled_from([-1, 1]))
    old = rows[index]
    rows[index] = replace(old, value=str(old.number + change))
    found = imbalances(rows)
    assert found
    assert {(problem.row.metric in (old.metric, "without_factor_mj")) for problem in found} >= {
        True
    }


@pytest.mark.django_db
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_a_closed_period_verifies_offline(tmp_path: Path, file_format: str) -> None:
    statement = close(full_lab()).statement
    rows = export_rows(statement)
    text = {"json": render_json, "csv": render_csv}[file_format](rows)
    path = tmp_path / f"statement.{file_format}"
    path.write_text(text, encoding="utf-8", newline="")
    done = _verify(path, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert statement.sha256 in done.stdout
    assert "all valid" in done.stdout
    assert verify(path.read_bytes(), statement.sha256).problems == []
    path.write_text(text.replace("54000", "54001", 1), encoding="utf-8", newline="")
    done = _verify(path, tmp_path)
    assert done.returncode == 1
    assert "energy_mj): value was changed" in done.stdout
    assert not (tmp_path / "nowhere").exists()


def _verify(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command where no database, secret or folder of a server exists."""
    environment = {
        "PATH": os.environ["PATH"],
        "LABCARBON_DATA": str(folder / "nowhere"),
        "LABCARBON_DATABASE_URL": "postgres://nobody@127.0.0.1:9/none",
    }
    return subprocess.run(
        [sys.executable, ROOT / "manage.py", "verify", path],
        capture_output=True, text=True, env=environment, check=False, cwd=folder,
    )  # fmt: skip


def test_the_csv_can_be_computed_with() -> None:
    table = list(csv.DictReader(io.StringIO(FILES["csv"].decode())))
    parts = [row for row in table if row["kind"] == "line" and row["factor"]]
    assert sum(int(row["value"]) for row in parts if row["metric"] == "energy_mj") == -5
    assert [row["value"] for row in table if row["kind"] == "name"] == ["'-Demo;' =1"]
