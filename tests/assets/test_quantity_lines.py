"""Lines of a file that stand for several things: undo, matching, and changed quantities."""

import pytest

from apps.assets.models import Asset, RegisterChange, RegisterImport
from apps.assets.services.csv_import import assign_columns, confirm, upload
from apps.assets.services.file_columns import Answers
from apps.assets.services.undo import redo_import, undo_import
from apps.assets.spreadsheets.rows import Options
from apps.core.jobs import run_until_idle
from tests.assets.books_by_year import books_by_year
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
HEAD = "tag,model,bought_on,in_use_since,quantity"


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def read(lab: SmallLab, text: str) -> RegisterImport:
    """Read a file whose columns mean what they are called."""
    row = upload(
        lab=lab.lab,
        file_name="list.csv",
        content=text.encode(),
        options=Options(),
        by=lab.owner,
        now=T0,
    )
    if row.state == "mapping":
        columns = {each["key"]: each["field"] for each in row.summary["questions"]["columns"]}
        assign_columns(row=row, answers=Answers(columns), by=lab.owner, now=T0)
    row.refresh_from_db()
    return row


def imported(lab: SmallLab, text: str) -> RegisterImport:
    row = read(lab, text)
    confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert row.state == "done"
    return row


def tags() -> list[str]:
    return sorted(Asset.objects.values_list("tag", flat=True))


def test_undo_of_a_quantity_removes_every_thing_of_the_line_and_its_reversal_restores_them(
    lab: SmallLab,
) -> None:
    empty = books_by_year(lab)
    row = imported(lab, f"{HEAD}\nA,RTX 3090,2022-04-13,2022-04-13,4\nB,RTX 4090,2023-01-01,,2\n")
    full = books_by_year(lab)
    assert tags() == ["A.1", "A.2", "A.3", "A.4", "B.1", "B.2"]
    assert RegisterChange.objects.filter(register_import=row).count() == 6
    undo_import(row=row, leave_out=(), by=lab.owner, now=T0 + 1)
    assert (tags(), books_by_year(lab)) == ([], empty)
    redo_import(row=row, leave_out=(), by=lab.owner, now=T0 + 2)
    assert (len(tags()), books_by_year(lab)) == (6, full)


def test_a_part_of_a_line_that_stands_for_several_is_an_error_in_any_order(lab: SmallLab) -> None:
    head = "tag,model,bought_on,quantity,parent"
    row = read(lab, f"{head}\nP,RTX 3090,2022-04-13,1,M\nM,PowerEdge R740,2022-04-13,2,\n")
    assert row.summary["counts"]["wrong"] == 1
    assert [each["line"] for each in row.summary["wrong"]] == [2]


def test_things_of_a_line_without_a_model_are_matched_by_the_name_as_one_thing_is(
    lab: SmallLab,
) -> None:
    head = "tag,name,bought_on,quantity"
    one = read(lab, f"{head}\nA,RTX 3090,2022-04-13,1\n").summary["total_ug"]
    assert one > 0
    four = read(lab, f"{head}\nB,RTX 3090,2022-04-13,4\n").summary
    assert (four["total_ug"], four["rows"][0]["model"]) == (4 * one, "NVIDIA GeForce RTX 3090")
    assert read(lab, f"{head}\nC,4x RTX 3090,2022-04-13,\n").summary["total_ug"] == 4 * one


def test_another_quantity_of_registered_things_is_an_error_and_never_counts_them_twice(
    lab: SmallLab,
) -> None:
    imported(lab, f"{HEAD}\nA,RTX 3090,2022-04-13,,1\nB,RTX 3090,2022-04-13,,4\n")
    for line in ("A,RTX 3090,2022-04-13,,2", "B,RTX 3090,2022-04-13,,1"):
        summary = read(lab, f"{HEAD}\n{line}\n").summary
        assert (summary["counts"], summary["wrong"][0]["field"]) == ({"wrong": 1}, "quantity")
    more = read(lab, f"{HEAD}\nB,RTX 3090,2022-04-13,,5\n").summary
    assert more["counts"] == {"known": 4, "new": 1}
    fewer = read(lab, f"{HEAD}\nB,RTX 3090,2022-04-13,,3\n").summary
    assert (fewer["counts"], fewer["wrong"][0]["field"]) == ({"wrong": 1}, "quantity")


def test_a_numbered_inventory_number_of_another_line_is_no_quantity(lab: SmallLab) -> None:
    imported(lab, f"{HEAD}\nS.1,RTX 3090,2022-04-13,,1\n")
    assert read(lab, f"{HEAD}\nS,PowerEdge R740,2022-04-13,,1\n").summary["counts"] == {"new": 1}
