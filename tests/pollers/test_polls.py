"""Polls: add, change, vanish, rename, away, rubbish, half of the rows gone. Nothing is retired."""

import copy
from typing import Any

import pytest
from django.test import override_settings

from apps.accounts.models import AuditEntry
from apps.assets.models import Asset, LifecycleEvent, RegisterImport
from apps.assets.services.csv_import import confirm
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.pollers.choices import Policy
from apps.pollers.clients import connection as remote
from apps.pollers.differences import differences, loses_too_many
from apps.pollers.models import AssetSource, PolledRow
from apps.pollers.services.changes import dismiss_changes, ignore_rows, update_asset
from apps.pollers.services.poll import EVERY_US, poll_source
from apps.pollers.services.sources import (
    POLL,
    SourceInput,
    accept_loss,
    change_source,
    poll_again,
    remove_source,
    switch_source,
)
from tests.assets.support import bought
from tests.builders import SmallLab
from tests.fakes.asset_servers import SESSION, TOKEN, FakeAssets
from tests.pollers.conftest import Start

HTML = b"<!DOCTYPE html><html>Sign in</html>"


def poll(source: AssetSource) -> AssetSource:
    """Poll a source once."""
    found = AssetSource.objects.select_related("lab", "pending_import").get(pk=source.pk)
    poll_source(found)
    return AssetSource.objects.select_related("lab", "pending_import").get(pk=source.pk)


def row(source: AssetSource, number: int) -> PolledRow:
    return source.rows.select_related("asset__lab", "asset__model").get(number=number)


def many(fake: FakeAssets, count: int) -> None:
    """Replace the rows by ``count`` servers."""
    sample = fake.rows[0]
    fake.rows = []
    for i in range(1, count + 1):
        device = copy.deepcopy(sample)
        device |= {"id": i, "name": f"n{i:04}", "serial": f"S{i:04}", "asset_tag": f"T{i:04}"}
        fake.rows.append(device)


def state() -> list[Any]:
    """Return everything that a poll of a bad list must not change."""
    return [
        list(Asset.objects.order_by("pk").values()),
        list(LifecycleEvent.objects.order_by("pk").values()),
        list(PolledRow.objects.order_by("pk").values()),
        list(RegisterImport.objects.order_by("pk").values("pk", "state", "content")),
    ]


# ---- add ----


def test_new_rows_are_proposed_and_registered_by_a_person(start: Start, lab: SmallLab) -> None:
    _, source = start()
    assert source.succeeded_us is None
    source = poll(source)
    assert (source.problem, source.succeeded_us is not None) == ("", True)
    assert Asset.objects.count() == 0
    pending = source.pending_import
    assert pending is not None
    assert pending.summary["counts"] == {"new": 3}
    assert "decommissioning" in row(source, 4).problem
    assert "neither an inventory number nor a serial number" in row(source, 5).problem
    assert poll(source).pending_import == pending  # unchanged: the proposal stays
    confirm(row=pending, by=lab.owner, now=now_us())
    source = poll(source)
    assert source.pending_import is None
    assert Asset.objects.count() == 3
    server, card, switch = (row(source, number).asset for number in (1, 2, 3))
    assert server is not None
    assert card is not None
    assert switch is not None
    assert (server.name, server.tag, server.serial) == ("gpu-01", "INV-1", "CZ-100")
    assert (server.location, server.state) == ("Cage A, rack R12", "use")
    assert server.site == lab.site
    assert card.parent == server
    assert card.model is not None
    assert (switch.location, switch.state) == ("Basement, rack R1", "stock")


def test_new_rows_are_registered_by_policy_once(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    poll(source)
    assert Asset.objects.count() == 3
    before = state()
    assert poll(source).pending_import is None
    assert state() == before
    fake.rows.append({**fake.rows[0], "id": 6, "name": "new", "serial": "N", "asset_tag": "N"})
    poll(source)
    assert Asset.objects.count() == 4


def test_assets_that_are_registered_already_are_linked(start: Start, lab: SmallLab) -> None:
    mine = bought(lab, kind="server", name="My name", tag="INV-1")
    _, source = start(policy=Policy.APPLY)
    poll(source)
    assert row(source, 1).asset == mine
    mine.refresh_from_db()
    assert mine.name == "My name"
    assert Asset.objects.count() == 3


def test_ignored_rows_are_not_proposed(start: Start) -> None:
    _, source = start()
    poll(source)
    ignore_rows(source=source, rows=[row(source, 1)], ignored=True)
    pending = poll(source).pending_import
    assert pending is not None
    assert pending.summary["counts"] == {"new": 1}
    assert "gpu-01" in row(source, 2).problem  # the card is built into the ignored machine


def test_snipe_it(start: Start) -> None:
    fake, source = start("snipe_it", policy=Policy.APPLY, bought_on="")
    fake.max_page = 2
    poll(source)
    assert "purchase date is missing" in row(source, 13).problem
    asset = row(source, 11).asset
    assert asset is not None
    assert (asset.name, asset.supplier) == ("Ada's workstation", "Meyer & Co")
    assert (asset.order_number, asset.note.startswith("Under the desk")) == ("PO-7", True)
    assert (asset.price_ucurrency, asset.currency) == (2_345_500_000, "EUR")
    assert str(asset.warranty_until) == "2027-03-01"
    assert (asset.state, asset.contact) == ("use", "")
    assert "Lovelace" not in str(PolledRow.objects.values())
    laptop = row(source, 12).asset
    assert laptop is not None
    assert (laptop.name, laptop.location, laptop.state) == ("Latitude 7440 S-2", "Store", "stock")


def test_glpi(start: Start) -> None:
    fake, source = start("glpi", policy=Policy.APPLY)
    fake.max_page = 1
    assert poll(source).problem == ""
    asset = row(source, 34).asset
    assert asset is not None
    assert (asset.name, asset.tag, asset.location) == ("pc-34", "G-34", "Building A > Room 3")
    assert (asset.state, asset.kind) == ("use", "workstation")
    assert "R&D" in asset.note
    other = row(source, 35).asset
    assert other is not None
    assert (other.location, other.state, other.kind) == ("", "stock", "laptop")
    assert source.rows.count() == 7  # neither the template nor the deleted phone
    others = Asset.objects.exclude(pk__in=[asset.pk, other.pk])
    assert {each.name: each.kind for each in others} == {
        "screen-1": "monitor",
        "sw-1": "network",
        "printer-1": "other",
        "dock-1": "other",
        "phone-1": "other",
    }
    screen = Asset.objects.get(name="screen-1")  # its number in GLPI is that of a computer
    assert (screen.tag, screen.serial) == ("G-100", "M-1")
    assert "U2720Q" in (screen.note + (screen.model.name if screen.model else ""))
    assert fake.requests[-1][0] == "/apirest.php/killSession/"
    assert fake.requests[-1][2]["session-token"] == SESSION


def test_types_that_the_profile_may_not_read_are_left_out(start: Start) -> None:
    fake, source = start("glpi")
    fake.forbidden = {"Printer", "Phone"}
    source = poll(source)
    assert (source.problem, source.rows.count()) == ("", 5)
    before = state()
    fake.forbidden = {"Computer"}
    assert "refuses the token (403)" in poll(source).problem
    assert state() == before
    assert fake.requests[-1][0] == "/apirest.php/killSession/"


def test_types_without_items(start: Start) -> None:
    fake, source = start("glpi")
    fake.other_types = {}
    source = poll(source)
    assert (source.problem, source.rows.count()) == ("", 2)


def test_a_type_with_an_error_makes_the_list_incomplete(start: Start) -> None:
    fake, source = start("glpi")
    source = poll(source)
    before = state()
    fake.other_types["Phone"][0]["id"] = "x"
    assert "a row has no number" in poll(source).problem
    assert state() == before


@pytest.mark.parametrize("page", [1, 7, 200])
def test_all_pages_are_read(start: Start, page: int) -> None:
    fake, source = start()
    many(fake, 23)
    fake.max_page = page
    assert poll(source).problem == ""
    assert source.rows.count() == 23
    assert len(fake.requests) == -(-23 // page)


def test_more_rows_than_a_page_reads_at_once(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    many(fake, 620)
    assert poll(source).problem == ""
    assert Asset.objects.count() == 620


# ---- change, rename ----


def test_changes_are_proposed_and_only_they_are_written(start: Start, lab: SmallLab) -> None:
    fake, source = start()
    pending = poll(source).pending_import
    assert pending is not None
    confirm(row=pending, by=lab.owner, now=now_us())
    poll(source)
    asset = row(source, 1).asset
    assert asset is not None
    Asset.objects.filter(pk=asset.pk).update(supplier="Mine", location="Mine")
    fake.rows[0] |= {"name": "gpu-renamed", "asset_tag": "INV-1b", "status": {"value": "offline"}}
    poll(source)
    asset.refresh_from_db()
    assert (asset.name, asset.tag) == ("gpu-01", "INV-1")
    found = row(source, 1)
    listed = [
        (each.cell, each.before, each.after, each.is_fact)
        for each in differences(found.accepted, found.cells)
    ]
    assert listed == [
        ("name", "gpu-01", "gpu-renamed", True),
        ("status", "active", "offline", False),
        ("tag", "INV-1", "INV-1b", True),
    ]
    events = LifecycleEvent.objects.count()
    assert update_asset(source=source, row=found, by=lab.owner, now=now_us())
    asset.refresh_from_db()
    assert (asset.name, asset.tag) == ("gpu-renamed", "INV-1b")
    assert (asset.supplier, asset.location) == ("Mine", "Mine")
    assert (asset.state, LifecycleEvent.objects.count()) == ("use", events)
    assert [each.cell for each in differences(found.accepted, found.cells)] == ["status"]
    dismiss_changes(source=source, rows=[found])
    found.refresh_from_db()
    assert differences(found.accepted, found.cells) == []
    assert Asset.objects.filter(name="gpu-renamed").count() == 1


def test_changes_are_applied_by_policy_but_no_life_changes(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    poll(source)
    events = list(LifecycleEvent.objects.order_by("pk").values())
    fake.rows[0] |= {
        "name": "gpu-renamed",
        "status": {"value": "decommissioning", "label": "Decommissioning"},
        "site": {"id": 2, "name": "Basement"},
        "device_type": {"manufacturer": {"name": "HPE"}, "model": "DL380"},
    }
    poll(source)
    found = row(source, 1)
    assert found.asset is not None
    assert (found.asset.name, found.asset.state) == ("gpu-renamed", "use")
    assert list(LifecycleEvent.objects.order_by("pk").values()) == events
    assert [each.cell for each in differences(found.accepted, found.cells)] == [
        "manufacturer",
        "model",
        "site",
        "status",
    ]
    entry = AuditEntry.objects.filter(action="asset.changed").latest("sequence")
    assert entry.actor == "the server"


def test_a_change_that_is_impossible_is_shown_with_its_row(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy=Policy.APPLY)
    poll(source)
    bought(lab, name="Other", tag="TAKEN")
    fake.rows[0] |= {"asset_tag": "TAKEN"}
    assert poll(source).problem == ""
    assert "'TAKEN' is in use" in row(source, 1).problem


# ---- vanish ----


def test_vanished_rows_are_listed_never_retired_and_may_return(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    many(fake, 10)
    poll(source)
    assets = list(Asset.objects.order_by("pk").values())
    gone = [fake.rows.pop(), fake.rows.pop()]  # exactly a fifth
    assert poll(source).problem == ""
    assert source.rows.filter(vanished_us__isnull=False).count() == 2
    assert list(Asset.objects.order_by("pk").values()) == assets
    fake.rows += gone
    poll(source)
    assert source.rows.filter(vanished_us__isnull=False).count() == 0
    assert list(Asset.objects.order_by("pk").values()) == assets


@pytest.mark.parametrize(
    ("present", "lost", "stops"),
    [(10, 2, False), (10, 3, True), (5, 1, False), (4, 1, True), (1, 1, True), (0, 0, False),
     (1000, 200, False), (1000, 201, True)],
)  # fmt: skip
def test_a_fifth_is_the_limit(present: int, lost: int, stops: bool) -> None:
    assert loses_too_many(present=present, lost=lost) is stops


def test_half_of_the_rows_gone_stops_the_polling(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy=Policy.APPLY)
    many(fake, 10)
    poll(source)
    before, rows = state(), fake.rows
    fake.rows = [{**rows[0], "name": "changed"}, *rows[1:5]]
    source = poll(source)
    assert "5 of 10 rows are missing" in source.problem
    assert (source.lost_rows, source.halted_us is not None) == (5, True)
    assert state() == before
    assert AuditEntry.objects.filter(action="asset_source.halted").count() == 1
    sent = len(fake.requests)
    Job.objects.all().delete()
    Job.objects.create(kind=POLL, key=str(source.pk), requested=1, done=0, due_us=0)
    run_until_idle(worker="test")
    assert len(fake.requests) == sent  # no poll until a person decides
    fake.rows = rows
    poll_again(source=source)
    assert poll(source).problem == ""
    assert state() == before


def test_a_person_accepts_the_loss_and_no_larger_one(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy=Policy.APPLY)
    many(fake, 10)
    poll(source)
    fake.rows = fake.rows[:5]
    source = poll(source)
    accept_loss(source=source, by=lab.owner, now=now_us())
    rows, fake.rows = fake.rows, fake.rows[:4]
    assert poll(source).halted_us is not None
    fake.rows = rows
    accept_loss(source=source, by=lab.owner, now=now_us())
    source = poll(source)
    assert (source.problem, source.loss_accepted) == ("", 0)
    assert source.rows.filter(vanished_us__isnull=False).count() == 5
    assert Asset.objects.exclude(state="use").count() == 0
    fake.rows = fake.rows[:2]
    assert poll(source).halted_us is not None


def test_an_empty_list_stops_the_polling(start: Start) -> None:
    fake, source = start()
    poll(source)
    fake.rows = []
    assert "5 of 5 rows are missing" in poll(source).problem


# ---- away, rubbish ----


@pytest.mark.parametrize("system", ["netbox", "snipe_it", "glpi"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((401, {}, b"{}"), "refuses the token (401)"),
        ((403, {}, b"{}"), "refuses the token (403)"),
        ((404, {}, b"{}"), "has no such API"),
        ((429, {"Retry-After": "7200"}, b"{}"), "limits the request rate (429)"),
        ((500, {}, b"{}"), "returned an error (500)"),
        ((302, {"Location": "http://169.254.169.254/x"}, b""), "Redirects are not followed"),
        ((200, {}, HTML), "does not return JSON"),
        ((200, {}, b""), "does not return JSON"),
        ((200, {}, b"[" * 100_000), "does not return JSON"),
        ((200, {}, b"null"), "Nothing was changed"),
        ((200, {}, b'"x"'), "Nothing was changed"),
        ((200, {}, b"{}"), "Nothing was changed"),
        ((200, {}, b'[[], {"id": 1}]'), "Nothing was changed"),
        ((200, {}, b'{"count": 1, "total": 1, "results": {}, "rows": 7}'), "Nothing was changed"),
        (
            (200, {}, b'{"count": 1, "total": 1, "results": [{"id": "x"}], "rows": [{"id": -1}]}'),
            "Nothing was changed",
        ),
        (
            (200, {}, b'{"count": 9e9, "total": true, "results": [], "rows": []}'),
            "Nothing was changed",
        ),
        ("half", "was truncated"),
        ("huge", "returned more than 8 MiB"),
        ("silent", "did not respond"),
        ("drips", "did not respond within"),
    ],
)
def test_a_bad_answer_changes_nothing_and_is_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch, system: str, fault: Any, words: str
) -> None:
    fake, source = start(system, policy=Policy.APPLY)
    poll(source)
    before = state()
    monkeypatch.setattr(remote, "TIMEOUT_S", 0.3)
    fake.fault = fault
    fake.requests.clear()
    source = poll(source)
    assert words in source.problem, source.problem
    assert state() == before
    assert source.failures == 1
    wait_us = source.due_us - (source.polled_us or 0)
    assert wait_us == (7_200_000_000 if "429" in words else EVERY_US)
    assert len(fake.requests) <= 2
    fake.fault = None
    source = poll(source)
    assert (source.problem, source.failures) == ("", 0)
    assert state() == before


def test_a_server_that_is_away(start: Start) -> None:
    _, source = start()
    with override_settings(ASSET_SOURCES=("http://127.0.0.1:1",)):
        AssetSource.objects.filter(pk=source.pk).update(address="http://127.0.0.1:1")
        waits = []
        for _ in range(7):
            source = poll(source)
            assert "refused the connection" in source.problem
            waits.append((source.due_us - (source.polled_us or 0)) // EVERY_US)
    assert waits == [1, 2, 4, 8, 16, 24, 24]
    assert source.succeeded_us is None


def test_rows_of_strange_values(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    device = fake.rows[0]
    device |= {
        "name": "=cmd|' /C calc'!A0\x00\ud800",
        "comments": "x" * 50_000 + '",\r\n"INJECTED',
        "rack": [1],
        "site": True,
        "location": {"name": {"name": "deep"}},
        "role": 7,
        "status": [],
        "parent_device": "no object",
    }
    source = poll(source)
    assert source.problem == ""
    assert "There is no 'no object'" in row(source, 1).problem
    device["parent_device"] = None
    poll(source)
    asset = row(source, 1).asset
    assert asset is not None
    assert asset.name == "=cmd|' /C calc'!A0\ufffd\ufffd"
    assert len(asset.note) <= 1000
    assert Asset.objects.filter(name__contains="INJECTED").count() == 0


def test_two_rows_with_one_number_are_an_incomplete_list(start: Start) -> None:
    fake, source = start()
    fake.rows[1] = {**fake.rows[1], "id": 1}
    assert "4 of 5 rows were received" in poll(source).problem
    assert source.rows.count() == 0


def test_two_rows_with_one_serial_number_are_one_asset_and_a_problem(start: Start) -> None:
    fake, source = start(policy=Policy.APPLY)
    fake.rows[2] |= {"asset_tag": None, "serial": "CZ-100"}
    poll(source)
    assert "Another row has the same" in row(source, 3).problem
    assert row(source, 3).asset is None
    assert Asset.objects.filter(serial="CZ-100").count() == 1


def test_too_many_rows(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = start()
    monkeypatch.setattr(remote, "MAX_ROWS", 4)
    assert "more than 4 rows" in poll(source).problem


def test_a_slow_list_ends_in_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, source = start()
    many(fake, 20)
    fake.max_page = 1
    moments = iter(range(0, 10_000, 10))
    monkeypatch.setattr(remote.time, "monotonic", lambda: float(next(moments)))
    assert "within 45 s" in poll(source).problem
    assert len(fake.requests) < 8


# ---- sources ----


def test_the_token_is_encrypted_and_only_get_is_sent(start: Start) -> None:
    fake, source = start()
    source.refresh_from_db()
    assert TOKEN not in source.token
    poll(source)
    assert {path for path, _, _ in fake.requests} == {"/api/dcim/devices/"}
    assert TOKEN not in str(list(AuditEntry.objects.values()))


def test_tokens_of_netbox_4_5_have_their_own_scheme(start: Start) -> None:
    fake, source = start(token="nbt_abc.def")
    poll(source)
    assert fake.requests[0][2]["authorization"] == "Bearer nbt_abc.def"


def test_jobs_poll_again_and_stop_with_the_source(start: Start, lab: SmallLab) -> None:
    fake, source = start()
    run_until_idle(worker="test")
    source.refresh_from_db()
    again = Job.objects.get(kind="pollers.poll_again")
    assert (again.key, again.due_us) == (str(source.pk), source.due_us)
    switch_source(source=source, enabled=False, by=lab.owner, now=now_us())
    sent = len(fake.requests)
    Job.objects.filter(kind=POLL).update(due_us=0, requested=9)
    run_until_idle(worker="test")
    assert len(fake.requests) == sent
    switch_source(source=source, enabled=True, by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    assert len(fake.requests) > sent


def test_removed_with_its_tokens_and_rows_and_assets_stay(start: Start, lab: SmallLab) -> None:
    _, source = start(policy=Policy.APPLY)
    poll(source)
    remove_source(source=source, by=lab.owner, now=now_us())
    source.refresh_from_db()
    assert (source.token, source.app_token, source.rows.count()) == ("", "", 0)
    assert Asset.objects.count() == 3


def test_changed_without_a_new_token_and_address(start: Start, lab: SmallLab) -> None:
    _, source = start()
    source.refresh_from_db()
    token = source.token
    values = SourceInput(
        system=source.system,  # type: ignore[arg-type]
        name="Other",
        address="http://127.0.0.1:9",
        policy=Policy.APPLY,
        bought_on="2024-01-01",
    )
    changed = change_source(source=source, values=values, by=lab.owner, now=now_us())
    assert (changed.name, changed.policy) == ("Other", "apply")
    assert (changed.address, changed.token) == (source.address, token)
