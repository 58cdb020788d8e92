"""Undo of an import as a whole, a changed file imported again, and removal of single assets."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import AuditEntry
from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, LifecycleEvent, RegisterImport
from apps.assets.services import Embodied, Entry, correct_opening, describe, record, set_meter
from apps.assets.services.csv_import import confirm, upload
from apps.assets.services.recompute import differing
from apps.assets.services.register_values import CELLS
from apps.assets.services.undo import (
    UndoRefused,
    plan_undo,
    redo_import,
    remove_asset,
    restore_asset,
    undo_import,
)
from apps.assets.services.validation import Facts
from apps.assets.spreadsheets.formats import OWN
from apps.assets.spreadsheets.rows import Options
from apps.catalog.models import EmbodiedFigure
from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from tests.assets.books_by_year import books_by_year
from tests.assets.support import bought
from tests.builders import SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db
NOW = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp()) * 1_000_000
HEAD = "name,kind,model,tag,serial,price,currency,bought_on,in_use_since,life_years,owner,parent"
FIRST = f"""{HEAD},embodied_kg,note
server 1,server,,INV-1,,,,2023-02-01,2023-02-01,,,,1500.25,rack 4
card 1,gpu,NVIDIA A100-SXM4-80GB,INV-2,S-2,9000,EUR,2023-02-01,2023-03-01,4,demo,INV-1,,
card 2,gpu,,INV-3,S-3,,,2024-05-01,,,,INV-1,164.5,
screen,monitor,,INV-4,,,,2022-01-15,2022-01-15,,,,300,
"""
SECOND = f"""{HEAD},embodied_kg,note
server 1,server,,INV-1,,,,2023-02-01,2023-02-01,,,,1500.25,rack 5
card 1,gpu,NVIDIA A100-SXM4-80GB,INV-2,S-2,9000,EUR,2024-02-01,2024-03-01,5,,INV-1,,
card 2,gpu,,INV-3,S-3,,,2024-05-01,2024-06-01,,,INV-4,170.125,
screen,monitor,,INV-4,,,,2022-01-15,2022-01-15,,,,300,
new card,gpu,,INV-5,,,,2025-01-01,2025-01-01,,,INV-1,200,
"""


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def read(lab: SmallLab, text: str, now: int = NOW) -> RegisterImport:
    return upload(
        lab=lab.lab,
        file_name="list.csv",
        content=text.encode(),
        options=Options(),
        by=lab.owner,
        now=now,
    )


def imported(lab: SmallLab, text: str, now: int = NOW) -> RegisterImport:
    row = read(lab, text, now)
    confirm(row=row, by=lab.owner, now=now)
    run_until_idle(worker="test")
    row.refresh_from_db()
    assert row.state == "done"
    return row


def undo(lab: SmallLab, row: RegisterImport, *leave_out: int, now: int = NOW + 1) -> None:
    undo_import(row=row, leave_out=leave_out, by=lab.owner, now=now)


def redo(lab: SmallLab, row: RegisterImport, now: int = NOW + 2) -> None:
    redo_import(row=row, leave_out=(), by=lab.owner, now=now)


def asset(tag: str) -> Asset:
    return Asset.objects.get(tag=tag)


def later(lab: SmallLab, tag: str) -> None:
    entry = Entry(
        "transfer", NOW, project=create_project(lab=lab.lab, slug=f"p{tag[-1]}", name=tag, now=NOW)
    )
    record(asset=asset(tag), entry=entry, by=lab.owner, now=NOW)


def reasons(row: RegisterImport, *leave_out: int) -> dict[str, str]:
    return {step.asset.tag: step.reason for step in plan_undo(row, leave_out).refused}


def test_import_change_import_again_undo_gives_every_year_as_before(lab: SmallLab) -> None:
    bought(lab, name="of before", tag="INV-0", at_us=NOW - 10**13, now=NOW)
    empty = books_by_year(lab)
    first = imported(lab, FIRST)
    after_first = books_by_year(lab)
    second = imported(lab, SECOND)
    after_second = books_by_year(lab)
    assert len({empty, after_first, after_second}) == 3
    undo(lab, second)
    assert books_by_year(lab) == after_first
    assert asset("INV-1").note == "rack 4"
    assert (asset("INV-3").parent, asset("INV-3").state) == (asset("INV-1"), "stock")
    redo(lab, second)
    assert books_by_year(lab) == after_second
    assert asset("INV-3").parent == asset("INV-4")
    undo(lab, second, now=NOW + 3)
    undo(lab, first, now=NOW + 4)
    assert books_by_year(lab) == empty
    assert list(Asset.objects.values_list("tag", flat=True)) == ["INV-0"]
    redo(lab, first, now=NOW + 5)
    assert books_by_year(lab) == after_first
    redo(lab, second, now=NOW + 6)
    assert books_by_year(lab) == after_second
    assert differing(lab=lab.lab, repair=False) == []


def test_after_an_undo_the_file_can_be_imported_again_and_the_purchase_corrected(
    lab: SmallLab,
) -> None:
    imported(lab, FIRST)
    second = imported(lab, SECOND)
    columns = ("tag", "embodied_total_ug", "settled_ug", "bought_hour", "state", "parent__tag")
    after_second = set(Asset.objects.values_list(*columns))
    undo(lab, second)
    third = imported(lab, SECOND, NOW + 2)
    assert set(Asset.objects.values_list(*columns)) == after_second
    undo(lab, third, now=NOW + 3)
    card = asset("INV-3")
    entry = Entry("purchase", NOW - 10**13, embodied=Embodied(7), life_hours=8_760)
    correct_opening(asset=card, entry=entry, by=lab.owner, now=NOW + 4)
    assert asset("INV-3").embodied_total_ug == 7
    assert differing(lab=lab.lab, repair=False) == []


def test_differences_are_shown_first_and_only_what_the_file_changed_is_changed(
    lab: SmallLab,
) -> None:
    imported(lab, FIRST)
    card = asset("INV-2")
    describe(
        asset=card, facts=Facts("my name", "gpu", card.model, "S-2", "INV-2"), by=None, now=NOW
    )
    row = read(lab, SECOND)
    assert row.summary["counts"] == {"changed": 3, "known": 1, "new": 1}
    changes = {
        line["name"]: {each["field"]: (each["before"], each["after"]) for each in line["changes"]}
        for line in row.summary["rows"]
        if line["outcome"] == "changed"
    }
    assert changes == {
        "server 1": {"note": ("rack 4", "rack 5")},
        "card 1": {
            "bought_on": ("2023-02-01", "2024-02-01"),
            "in_use_since": ("2023-03-01", "2024-03-01"),
            "life_years": ("4 years", "5 years"),
        },
        "card 2": {
            "in_use_since": ("", "2024-06-01"),
            "parent": ("INV-1", "INV-4"),
            "embodied": (
                "164.5 kg CO2e; From the imported file",
                "170.125 kg CO2e; From the imported file",
            ),
        },
    }
    assert asset("INV-1").note == "rack 4"
    assert asset("INV-2").events.count() == 2
    confirm(row=row, by=lab.owner, now=NOW)
    assert asset("INV-2").name == "my name", "the file did not change it"
    assert asset("INV-2").price_ucurrency is None, "somebody removed it, and the file is as before"
    assert read(lab, SECOND).summary["counts"] == {"known": 5}


def test_an_unchanged_file_changes_nothing_also_if_the_catalogue_did(lab: SmallLab) -> None:
    imported(lab, FIRST)
    number = LifecycleEvent.objects.count()
    row = read(lab, FIRST)
    assert row.summary["counts"] == {"known": 4}
    EmbodiedFigure.objects.update(total_ug=F("total_ug") + 1, high_ug=F("high_ug") + 1)
    assert read(lab, FIRST).summary["counts"] == {"known": 4}
    assert LifecycleEvent.objects.count() == number


def test_a_change_that_is_impossible_is_an_error_of_its_line(lab: SmallLab) -> None:
    imported(lab, FIRST)
    row = read(lab, FIRST.replace("2023-02-01,2023-03-01", "2025-02-01,2023-03-01"))
    assert row.summary["counts"] == {"known": 3, "wrong": 1}
    assert "earlier than the purchase" in row.summary["wrong"][0]["message"]
    inside = read(
        lab,
        FIRST.replace("2023-02-01,2023-02-01,,,,1500.25", "2023-02-01,2023-02-01,,,INV-2,1500.25"),
    )
    with pytest.raises(Conflict, match="part of itself"):
        confirm(row=inside, by=lab.owner, now=NOW)
    assert asset("INV-1").parent is None


def test_later_events_and_parts_are_refused_and_can_be_left_out(lab: SmallLab) -> None:
    row = imported(lab, FIRST)
    later(lab, "INV-2")
    before = books_by_year(lab)
    assert reasons(row) == {
        "INV-2": "it has later events: changed owner on 2026-06-01",
        "INV-1": "it contains card 1",
    }
    with pytest.raises(UndoRefused, match="server 1: it contains card 1") as refused:
        undo(lab, row)
    assert {step.asset.tag for step in refused.value.refused} == {"INV-1", "INV-2"}
    assert books_by_year(lab) == before, "nothing was changed"
    with pytest.raises(UndoRefused):
        undo(lab, row, asset("INV-2").pk)
    kept = (asset("INV-1").pk, asset("INV-2").pk)
    undo(lab, row, *kept)
    assert set(Asset.objects.values_list("pk", flat=True)) == set(kept)
    entry = AuditEntry.objects.get(action="assets.import_undone").details
    assert (entry["registered"], entry["left_out"]) == (2, 2)
    redo(lab, row)
    assert books_by_year(lab) == before
    assert AuditEntry.objects.filter(action="assets.import_restored").count() == 1


def test_parts_registered_later_and_later_imports_are_refused(lab: SmallLab) -> None:
    first = imported(lab, FIRST)
    second = imported(lab, SECOND)
    refused = reasons(first)
    assert refused.keys() == {"INV-1", "INV-2", "INV-3", "INV-4"}
    assert refused["INV-2"] == "a later import changed it: undo list.csv first"
    assert refused["INV-1"] == "it contains card 1, new card"
    undo(lab, second)
    assert reasons(first) == {}


def test_a_part_moves_back_out_of_a_machine_of_the_same_import(lab: SmallLab) -> None:
    imported(lab, FIRST)
    before, card = books_by_year(lab), Asset.objects.get(tag="INV-3")
    file = (
        f"{HEAD}\n"
        "server 9,server,,INV-9,,,,2025-03-01,2025-03-01,,,\n"
        "card 2,gpu,,INV-3,S-3,,,2024-05-01,,,,INV-9\n"
    )
    row = imported(lab, file, NOW + 1)
    assert Asset.objects.get(pk=card.pk).parent == Asset.objects.get(tag="INV-9")
    after = books_by_year(lab)
    assert [step.reason for step in plan_undo(row).steps] == ["", ""]
    undo_import(row=row, leave_out=(), by=lab.owner, now=NOW + 2)
    assert Asset.objects.get(pk=card.pk).parent == card.parent
    assert books_by_year(lab) == before
    assert differing(lab=lab.lab, repair=False) == []
    redo_import(row=row, leave_out=(), by=lab.owner, now=NOW + 3)
    assert books_by_year(lab) == after


def test_values_edited_since_are_not_overwritten(lab: SmallLab) -> None:
    imported(lab, FIRST)
    row = imported(lab, FIRST.replace("rack 4", "rack 5"))
    server = asset("INV-1")
    facts = {name: getattr(server, name) for name in Facts.__dataclass_fields__}
    describe(asset=server, facts=Facts(**{**facts, "note": "rack 6"}), by=None, now=NOW)
    assert reasons(row) == {"INV-1": "edited later: note"}


def test_the_same_file_can_be_imported_after_an_undo_and_the_undo_then_not_undone(
    lab: SmallLab,
) -> None:
    row = imported(lab, FIRST)
    undo(lab, row)
    again = imported(lab, FIRST)
    assert again.summary["counts"] == {"new": 4}
    with pytest.raises(UndoRefused, match="its tag is registered again as card 1"):
        redo(lab, row)
    undo(lab, again, now=NOW + 3)
    redo(lab, row, now=NOW + 4)
    assert Asset.objects.count() == 4


def test_undo_twice_is_refused(lab: SmallLab) -> None:
    row = imported(lab, FIRST)
    with pytest.raises(Conflict, match="nothing to undo"):
        redo(lab, row)
    undo(lab, row)
    with pytest.raises(Conflict, match="nothing to undo"):
        undo(lab, row)


def test_one_asset_is_removed_and_restored_with_its_meter(lab: SmallLab) -> None:
    empty = books_by_year(lab)
    assert push(lab.node, [W("gpu:GPU-1111", 300_000)]) == [["accepted"]]
    device = lab.node.devices.get()
    card = bought(lab, now=NOW, at_us=NOW - 10**12, device=device, tag="INV-9")
    before = books_by_year(lab)
    assert before != empty
    remove_asset(asset=card, by=lab.owner, now=NOW + 1)
    assert books_by_year(lab) == empty
    assert not Asset.objects.exists()
    assert not card.meters.filter(withdrawn_us=None).exists()
    assert AuditEntry.objects.filter(action="asset.removed", subject=card.name).exists()
    restore_asset(asset=card, by=lab.owner, now=NOW + 2)
    assert books_by_year(lab) == before
    assert card.meters.filter(withdrawn_us=None).count() == 1
    with pytest.raises(Conflict, match="is in the register"):
        restore_asset(asset=card, by=lab.owner, now=NOW + 3)
    set_meter(asset=card, node=lab.node, from_us=NOW, by=lab.owner, now=NOW + 4)
    with pytest.raises(UndoRefused, match="its meter was set later"):
        remove_asset(asset=card, by=lab.owner, now=NOW + 5)


def test_an_undone_import_stays_in_the_history_beyond_the_week_of_previews(lab: SmallLab) -> None:
    row = imported(lab, FIRST)
    month_us = 30 * 24 * 3_600 * 1_000_000
    read(lab, "name,kind,bought_on\nx,gpu,2024-01-01\n", NOW + month_us)
    undo(lab, row, now=NOW + month_us)
    assert not Asset.objects.exists()


def test_each_value_has_columns() -> None:
    columns = {column for columns in CELLS.values() for column in columns}
    ignored = {"currency"} | {name for name in OWN if name.startswith("embodied_")}
    assert set(OWN) <= columns | ignored


def test_the_number_of_queries_does_not_grow_with_the_assets(lab: SmallLab) -> None:
    def queries(number: int) -> dict[str, int]:
        """Return the queries of each step for ``number`` assets."""

        def text(note: str, life: int) -> bytes:
            lines = [
                f"card {i},gpu,NVIDIA A100-SXM4-80GB,N{number}-{i},,,,2024-05-01,2024-05-01,"
                f"{life},,,164.5,{note}"
                for i in range(number)
            ]
            return "\n".join([f"{HEAD},embodied_kg,note", *lines]).encode()

        counts: dict[str, int] = {}

        def counted(step: str, work: Callable[[], object]) -> Any:
            with CaptureQueriesContext(connection) as captured:
                result = work()
            counts[step] = len(captured)
            return result

        imported(lab, text("a", 4).decode())
        row = counted("read", lambda: read(lab, text("b", 5).decode()))
        assert row.summary["counts"] == {"changed": number}
        counted("write", lambda: confirm(row=row, by=lab.owner, now=NOW))
        counted("undo", lambda: undo(lab, row))
        counted("redo", lambda: redo(lab, row))
        return counts

    few, many = queries(5), queries(40)
    growth = {step: many[step] - few[step] for step in many}
    assert all(number <= 2 for number in growth.values()), growth  # SQLite writes 36 events at once
