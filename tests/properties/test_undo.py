"""Random imports, changed imports, undo, and undo of undo: every year as before, to the µg."""

import csv
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, RegisterImport
from apps.assets.services.csv_import import confirm, upload
from apps.assets.services.recompute import differing
from apps.assets.services.undo import plan_redo, plan_undo, redo_import, undo_import
from apps.assets.spreadsheets.rows import Options
from apps.core.jobs import run_until_idle
from tests.assets.books_by_year import books_by_year
from tests.assets.test_hardware_list import assign_as_proposed
from tests.assets.test_undo import NOW
from tests.builders import T0, SmallLab, small_lab
from tests.examples import examples

pytestmark = pytest.mark.django_db
MACHINES = ("", "INV-0", "INV-1")  # parts of the first two
kg = st.one_of(st.just(""), st.just("unknown"), st.decimals(0, 9_999, places=9).map(str))
lines = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b"]),
        "kind": st.sampled_from(["gpu", "server", "monitor"]),
        "quantity": st.sampled_from(["", "", "2", "3"]),
        "model": st.sampled_from(["", "NVIDIA A100-SXM4-80GB", "Dell PowerEdge R740"]),
        "bought_on": st.integers(2021, 2023).map(lambda year: f"{year}-03-0{year - 2020}"),
        "in_use_since": st.sampled_from(["", "2023-04-01", "2024-05-06"]),
        "disposed_on": st.sampled_from(["", "", "2025-06-07", "2026-01-02"]),
        "life_years": st.sampled_from(["", "3", "7.5"]),
        "owner": st.sampled_from(["", "demo", "vision"]),
        "parent": st.sampled_from(MACHINES),
        "embodied_kg": kg,
        "note": st.sampled_from(["", "x", "y"]),
        "amortisation": st.sampled_from(["", "linear", "sci"]),
    }
)
# tag number → line; a file has some of six assets
files = st.dictionaries(st.integers(0, 5), lines, min_size=1, max_size=6)


def as_csv(file: dict[int, dict[str, str]]) -> str:
    out = io.StringIO()
    columns = ["tag", *next(iter(file.values()))]
    writer = csv.DictWriter(out, columns)
    writer.writeheader()
    for number, line in sorted(file.items()):
        # Machines contain no machine, so that no asset is part of itself.
        parent = line["parent"] if number > 1 and int(line["parent"][-1:] or 0) in file else ""
        writer.writerow({"tag": f"INV-{number}", **line, "parent": parent})
    return out.getvalue()


def imported(lab: SmallLab, file: dict[int, dict[str, str]], now: int) -> RegisterImport | None:
    """Import a file; None if some of its changes are impossible, which changes nothing."""
    before = books_by_year(lab)
    row = upload(
        lab=lab.lab,
        file_name="list.csv",
        content=as_csv(file).encode(),
        options=Options(),
        by=lab.owner,
        now=now,
    )
    assign_as_proposed(lab, row)
    if row.summary["counts"].get("wrong"):
        assert books_by_year(lab) == before
        return None
    confirm(row=row, by=lab.owner, now=now)
    run_until_idle(worker="test")
    row.refresh_from_db()
    return row


class TestUndo(TestCase):
    @given(history=st.lists(files, min_size=1, max_size=4), data=st.data())
    @settings(
        max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    def test_every_year_as_before(self, history: list[dict[int, Any]], data: Any) -> None:
        lab = small_lab()
        create_project(lab=lab.lab, slug="vision", name="vision", now=T0)
        now = NOW
        books, done = [books_by_year(lab)], list[RegisterImport]()
        for file in history:
            now += 1
            row = imported(lab, file, now)
            if row is not None and row.changes.exists():
                done.append(row)
                books.append(books_by_year(lab))
        depth = len(done)
        for _ in range(data.draw(st.integers(1, 8))):
            now += 1
            can_undo, can_redo = depth > 0, depth < len(done)
            if can_undo and (not can_redo or data.draw(st.booleans())):
                depth -= 1
                assert not plan_undo(done[depth]).refused
                undo_import(row=done[depth], leave_out=(), by=lab.owner, now=now)
            elif can_redo:
                assert not plan_redo(done[depth]).refused
                redo_import(row=done[depth], leave_out=(), by=lab.owner, now=now)
                depth += 1
            assert books_by_year(lab) == books[depth]
        assert differing(lab=lab.lab, repair=False) == []
        assert Asset.objects.exists() == (depth > 0)
