"""One hardware list in six formats: one total, and every odd line is reported."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from apps.assets.models import Asset, LifecycleEvent, RegisterImport
from apps.assets.services.csv_import import assign_columns, confirm, upload
from apps.assets.services.file_columns import Answers
from apps.assets.services.recompute import differing
from apps.assets.services.undo import redo_import, undo_import
from apps.assets.spreadsheets.catalog_match import either_disk, embodied_of
from apps.assets.spreadsheets.cells import capacity_in
from apps.assets.spreadsheets.rows import Options
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import best_figure, category_default
from apps.core.jobs import run_until_idle
from tests.assets import hardware_list
from tests.assets.books_by_year import books_by_year
from tests.assets.hardware_list import FORMATS, THINGS, Thing, things
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def read_file(lab: SmallLab, name: str) -> RegisterImport:
    """Upload the list in a format; assign its columns as proposed, where that is asked."""
    write, file_name, _ = FORMATS[name]
    row = upload(
        lab=lab.lab, file_name=file_name, content=write(), options=Options(currency="EUR"),
        by=lab.owner, now=T0,
    )  # fmt: skip
    assign_as_proposed(lab, row)
    assert row.state == "read", row.summary
    return row


def assign_as_proposed(lab: SmallLab, row: RegisterImport) -> None:
    """Assign the columns of a file as proposed, where that is asked."""
    if row.state == "mapping":
        columns = {each["key"]: each["field"] for each in row.summary["questions"]["columns"]}
        assign_columns(row=row, answers=Answers(columns), by=lab.owner, now=T0)
    row.refresh_from_db()


def expected_ug(thing: Thing) -> int:
    """Return the embodied carbon of a line by the catalogue's rows that the list names."""
    if "left_out" in thing.odd or "unknown" in thing.odd:
        return 0
    capacity = capacity_in(thing.capacity)
    if thing.expected_model:
        model = HardwareModel.objects.get(name=thing.expected_model, lab=None)
        figure = best_figure(model, None) or category_default(model.kind, model.category)
    else:
        kind, category = thing.expected_default.split(":")
        if category == "disk":
            assert capacity is not None
            disk = either_disk(capacity)
            assert disk is not None
            return disk.total_ug * thing.quantity
        figure = category_default(kind, category)
    assert figure is not None, thing
    embodied = embodied_of(figure, capacity)
    assert embodied is not None, thing
    return embodied.total_ug * thing.quantity


def test_the_list_has_125_things_and_six_formats() -> None:
    listed = things()
    assert sum(thing.quantity for thing in listed) == THINGS
    assert len({thing.tag for thing in listed}) == len(listed)
    contents = {name: write() for name, (write, _, _) in FORMATS.items()}
    assert len(contents) == 6
    for content in contents.values():
        assert len(content) > 5_000


def test_the_list_names_models_of_the_catalogue() -> None:
    named = {thing.expected_model for thing in things()} - {""}
    shipped = HardwareModel.objects.filter(name__in=named, lab=None)
    assert set(shipped.values_list("name", flat=True)) == named


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_same_total_and_reports_each_odd_line(
    lab: SmallLab, name: str
) -> None:
    listed = things()
    row = read_file(lab, name)
    summary: dict[str, Any] = row.summary
    left_out = sum(thing.quantity for thing in listed if "left_out" in thing.odd)
    assert summary["counts"] == {"new": THINGS - left_out, "left_out": left_out}, summary["wrong"]
    assert summary["total_ug"] == sum(expected_ug(thing) for thing in listed)
    is_list = FORMATS[name][2]
    by_tag = rows_by_tag(summary)
    for thing in listed:
        tag = thing.tag if is_list or thing.quantity == 1 else f"{thing.tag}.1"
        told = by_tag[thing.name if tag == thing.tag else f"{thing.name} 1"]
        expected = set(thing.odd)
        if not is_list:
            expected.discard("quantity")
        if is_list and thing.capacity:
            expected.discard("capacity")  # it has a column of its own
        codes = {remark["code"] for remark in told["remarks"]}
        codes |= {"left_out"} if told["outcome"] == "left_out" else set()
        assert codes == expected, (thing, told)
        if "left_out" in expected:
            assert told["message"]
            continue
        assert told["kind"] == thing.expected_kind, (thing, told)
        assert told["model"] == thing.expected_model, (thing, told)
        assert told["bought_on"] == thing.bought_on.isoformat()
        assert told["price_ucurrency"] == round(float(thing.price_eur) * 100) * 10_000
        assert told["currency"] == "EUR"
        assert told["capacity_gb"] == capacity_in(thing.capacity)
        assert told["ended_on"] == (thing.ended_on.isoformat() if thing.ended_on else "")
        states = {"retired": "retired", "stolen": "disposed"}
        if name == "NetBox":  # it has one status for both
            states["stolen"] = "retired"
        assert told["state"] == states.get(thing.state, thing.state), (thing, told)


def rows_by_tag(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the listed rows by name: several things of one line are listed once."""
    return {told["name"]: told for told in summary["rows"]}


def test_the_list_is_registered_with_its_total_and_recognised_in_another_format(
    lab: SmallLab,
) -> None:
    row = read_file(lab, "German CSV")
    confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    totals = LifecycleEvent.objects.filter(asset__lab=lab.lab).values_list("total_ug", flat=True)
    assert sum(filter(None, totals)) == row.summary["total_ug"]
    assert Asset.objects.filter(lab=lab.lab).count() == row.summary["counts"]["new"]
    other = read_file(lab, "GLPI")
    assert {outcome for outcome, count in other.summary["counts"].items() if count} == {
        "changed",  # GLPI has serial numbers and rooms, which the first file did not contain
        "left_out",
    }
    changed = {
        change["field"] for told in other.summary["rows"] for change in told.get("changes", ())
    }
    assert changed == {"serial", "location", "note"}  # no kind, model, date, price or figure


@pytest.mark.parametrize("name", FORMATS)
def test_import_change_import_again_and_undo_leave_every_year_as_before(
    lab: SmallLab, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = books_by_year(lab)
    first = register_list(lab, name)
    after_first = books_by_year(lab)
    registered = Asset.objects.filter(lab=lab.lab).count()
    assert first.changes.count() == registered == first.summary["counts"]["new"]
    listed = changed_things()
    monkeypatch.setattr(hardware_list, "things", lambda: listed)
    second = register_list(lab, name)
    assert second.summary["counts"]["changed"] > 20
    assert second.summary["counts"]["new"] == 2
    assert books_by_year(lab) != after_first
    again = read_file(lab, name)
    assert not {"new", "changed"} & {key for key, count in again.summary["counts"].items() if count}
    undo_import(row=second, leave_out=(), by=lab.owner, now=T0 + 1)
    assert books_by_year(lab) == after_first
    undo_import(row=first, leave_out=(), by=lab.owner, now=T0 + 2)
    assert books_by_year(lab) == empty
    assert not Asset.objects.filter(lab=lab.lab).exists()
    redo_import(row=first, leave_out=(), by=lab.owner, now=T0 + 3)
    assert books_by_year(lab) == after_first
    assert Asset.objects.filter(lab=lab.lab).count() == registered
    assert differing(lab=lab.lab, repair=False) == []


def changed_things() -> list[Thing]:
    """Return the list with other dates on a third of the lines, and a line with two more things."""
    listed = things()
    for at, thing in enumerate(listed):
        if at % 3 == 0 and thing.ended_on is None:
            listed[at] = replace(thing, bought_on=thing.bought_on + timedelta(days=40))
    cards = next(thing for thing in listed if thing.quantity > 1 and not thing.prefix)
    return [*listed, replace(cards, tag="INV-900", name="two more", quantity=2)]


def register_list(lab: SmallLab, name: str) -> RegisterImport:
    row = read_file(lab, name)
    confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    row.refresh_from_db()
    assert row.state == "done"
    return row


def test_half_of_the_total_rests_on_defaults_at_most(lab: SmallLab) -> None:
    summary = read_file(lab, "XLSX").summary
    defaults = sum(expected_ug(thing) for thing in things() if thing.expected_default)
    assert summary["default_ug"] == defaults > 0
    assert summary["sheet"] == "Geräte"
    assert summary["other_sheets"] == ["Hinweise"]
