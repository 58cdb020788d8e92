"""/nodes/quarantine/, its windows, and /nodes/device-moves/<id>/."""

import re
import uuid
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.test import Client

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.fleet.models import Device
from apps.fleet.services import register_node
from apps.ingest.choices import Decision, MoveState
from apps.ingest.models import DeclaredGap, DeviceMove, QuarantinedWindow
from apps.ingest.window_rules import MAX_ENERGY_MJ
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, gpu, queries, text_of

LIST = "/nodes/quarantine/"


@pytest.fixture(autouse=True)
def _now() -> Any:
    with time_machine.travel((T0 + 60 * MINUTE) / 1e6, tick=False):
        yield


def _overlapping(lab: SmallLab, **rest: Any) -> QuarantinedWindow:
    """Count two minutes, and quarantine two minutes of which half is counted, by the counter."""
    push(lab.node, [W(gpu(), 2000, T0, T0 + 2 * MINUTE, seq=0, counter_start=0)])
    late = W(gpu(), 2000, T0 + MINUTE, T0 + 3 * MINUTE, seq=0, counter_start=1000, **rest)
    late.epoch += "#second"
    assert push(lab.node, [late]) == [["quarantined", "overlap"]]
    return QuarantinedWindow.objects.get()


def _ledger_mj() -> int:
    run_until_idle(worker="test")
    return sum(LedgerEntry.objects.values_list("energy_mj", flat=True))


def _decide(client: Client, row: QuarantinedWindow, decision: str, **data: Any) -> Any:
    data = {"action": "decide", "decision": decision, "reason": "checked the log", **data}
    return client.post(f"{LIST}{row.pk}/", data)


def test_an_empty_list_says_so(lab: SmallLab, owner: Client) -> None:
    assert "data-empty" in text_of(owner.get(LIST))


def test_the_list_names_energy_node_device_and_reason(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab)
    Device.objects.update(name=HOSTILE)
    page = text_of(owner.get(LIST))
    assert re.findall(r'data-window="(\d+)" data-reason="(\w+)" data-energy="(\d+)"', page) == [
        (str(row.pk), "overlap", "2000")
    ]
    assert HOSTILE not in page
    assert HOSTILE not in text_of(owner.get(f"{LIST}{row.pk}/"))
    assert "data-window" not in text_of(owner.get(f"{LIST}?reason=clock"))
    assert owner.get(f"{LIST}?reason=none").status_code == 404


def test_a_command_examines_windows_again_after_a_rule_changed(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert push(lab.node, [W(gpu(), 10**9)]) == [["quarantined", "impossible"]]

    def run() -> str:
        out = StringIO()
        call_command("reexamine_windows", stdout=out)
        return out.getvalue()

    assert run() == f"{lab.lab.name}: 1 examined, 0 counted now\n"
    assert _ledger_mj() == 0
    monkeypatch.setattr("apps.ingest.window_rules.impossible", lambda *arguments: False)
    assert run() == f"{lab.lab.name}: 1 examined, 1 counted now\n"
    assert _ledger_mj() == 10**9
    assert run() == f"{lab.lab.name}: 0 examined, 0 counted now\n"


def test_implausible_values_of_a_node_break_no_page(lab: SmallLab, owner: Client) -> None:
    node, much = lab.node.uuid, MAX_ENERGY_MJ
    assert push(lab.node, [W(gpu(), 2**62, counter_start=0)])[0][0] == "rejected"
    keys = [gpu(), gpu(1), f"meter:{node}/1", f"meter:{node}/2", f"storage:{node}/1"]
    windows = [W(key, much, counter_start=0) for key in keys]
    for window in windows[2:]:
        window.counter_start, window.measurement = None, "node_meter"
    assert push(lab.node, windows) == [["quarantined", "impossible"]] * len(keys)
    late = [W(gpu(9), 1, at, at + 1, epoch="earlier/1", seq=at) for at in (2**62, 2**53)]
    gaps = [
        {"device": 0, "epoch": "e", "from": low, "to": high, "reason": "lost"}
        for low, high in ((-(2**63), 2**63 - 1), (-5, T0), (T0, 2**62))
    ]
    results = push(lab.node, late, sent_at=T0 + MINUTE, gaps=gaps)
    assert [result[0] for result in results] == ["rejected", "rejected"]
    assert not DeclaredGap.objects.exists()
    for address in ("/", LIST, f"/nodes/{node}/", *(f"{LIST}{pk}/" for pk in _pks())):
        response = owner.get(address)
        assert response.status_code == 200
    assert f'data-energy="{much * len(keys)}"' in text_of(owner.get(LIST))


def _pks() -> list[int]:
    return list(QuarantinedWindow.objects.values_list("pk", flat=True))


def test_the_overview_shows_what_is_not_placed(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab)
    assert 'data-alert="quarantined"' in text_of(owner.get("/"))
    _decide(owner, row, "discard")
    assert 'data-alert="quarantined"' not in text_of(owner.get("/"))


def test_only_the_difference_of_the_counters_is_accepted(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab)
    page = text_of(owner.get(f"{LIST}{row.pk}/"))
    assert 'data-counted="2000"' in page
    assert 'data-part="1000"' in page
    assert _decide(owner, row, "accept").status_code == 302
    assert _ledger_mj() == 3000
    row.refresh_from_db()
    assert (row.decision, row.accepted_mj, row.decided_by) == ("accepted", 1000, lab.owner)
    times = [(w.start_us, w.end_us) for w in row.device.windows.order_by("start_us")]
    assert times == [(T0, T0 + 2 * MINUTE), (T0 + 2 * MINUTE, T0 + 3 * MINUTE)]


def test_a_decision_can_be_undone(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab)
    for decision in ("accept", "discard"):
        _decide(owner, row, decision)
        page = text_of(owner.get(f"{LIST}?show=decided"))
        assert f'data-decision="{Decision(decision + "ed").value}"' in page
        assert owner.post(f"{LIST}{row.pk}/", {"action": "undo"}).status_code == 302
        assert _ledger_mj() == 2000
        row.refresh_from_db()
        assert (row.decision, row.accepted_mj, row.decided_us) == ("", None, None)


def test_another_time_can_be_chosen_and_previewed(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab, measurement="nvml_counter")
    taken = {"start": "2026-11-02T01:00:00", "end": "2026-11-02T01:02:00"}
    page = text_of(owner.get(f"{LIST}{row.pk}/", {"action": "preview", **taken}))
    assert 'data-part="1000"' in page  # free there, but half of its counter is counted
    assert _decide(owner, row, "accept", **taken).status_code == 302
    assert _ledger_mj() == 3000


def test_energy_is_not_counted_in_the_time_of_a_clock_that_was_never_set(
    lab: SmallLab, owner: Client
) -> None:
    unset = W(gpu(), 2000, MINUTE, 2 * MINUTE, epoch="earlier/1", counter_start=0)
    assert push(lab.node, [unset], sent_at=T0) == [["quarantined", "clock"]]
    row = QuarantinedWindow.objects.get()
    assert 'data-problem="early"' in text_of(owner.get(f"{LIST}{row.pk}/"))
    assert _decide(owner, row, "accept").status_code == 400
    data = {"action": "decide", "decision": "accept", "reason": "all", "windows": [row.pk]}
    assert owner.post(LIST, data).status_code == 302
    assert _ledger_mj() == 0
    chosen = {"start": "2026-11-02T01:00:00", "end": "2026-11-02T01:01:00"}
    assert _decide(owner, row, "accept", **chosen).status_code == 302
    assert _ledger_mj() == 2000


def test_an_empty_filter_does_not_state_that_nothing_waits(lab: SmallLab, owner: Client) -> None:
    _overlapping(lab)
    assert 'data-empty="reason"' in text_of(owner.get(f"{LIST}?reason=clock"))
    assert 'data-empty="decided"' in text_of(owner.get(f"{LIST}?show=decided"))


def test_who_cannot_decide_is_informed(lab: SmallLab, viewer: Client, member: Client) -> None:
    _overlapping(lab)
    for client in (viewer, member):
        page = text_of(client.get(LIST))
        assert "data-read-only" in page
        assert "data-all" not in page


def test_energy_without_a_counter_needs_a_free_time(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 2000, T0, T0 + 2 * MINUTE, seq=0, counter_start=0)])
    late = W(gpu(), 900, T0 + MINUTE, T0 + 3 * MINUTE, seq=1, counter_start=None)
    late.measurement = "nvml_power"
    push(lab.node, [late])
    row = QuarantinedWindow.objects.get()
    assert 'data-problem="taken"' in text_of(owner.get(f"{LIST}{row.pk}/"))
    answer = _decide(owner, row, "accept")
    assert answer.status_code == 400
    assert 'data-field-error="start"' in text_of(answer) or "data-form-errors" in text_of(answer)
    assert _ledger_mj() == 2000


def test_selected_windows_are_decided_together(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 10**9, T0 + i * MINUTE, T0 + (i + 1) * MINUTE, seq=i,
                      counter_start=i * 10**9) for i in range(3)])  # fmt: skip
    rows = list(QuarantinedWindow.objects.order_by("pk"))
    assert len(rows) == 3
    data = {"action": "decide", "decision": "accept", "reason": "a big card"}
    assert owner.post(LIST, {**data, "windows": [rows[0].pk, rows[1].pk]}).status_code == 302
    assert _ledger_mj() == 2 * 10**9
    assert owner.post(LIST, {**data, "windows": [rows[2].pk], "reason": " "}).status_code == 400
    assert owner.post(LIST, {**data, "windows": []}).status_code == 400
    assert owner.post(LIST, {**data, "windows": ["x", "9" * 30]}).status_code == 400
    assert QuarantinedWindow.objects.filter(decision="").count() == 1


@pytest.mark.parametrize(
    "data",
    [
        {"start": "x", "end": ""},
        {"start": "0001-01-01T00:00:00", "end": "0001-01-01T00:01:00"},
        {"start": "9999-12-31T23:59:59", "end": "9999-12-31T23:59:59"},
        {"start": "2026-11-02T01:00:00", "end": "2026-11-02T01:00:00"},
        {"decision": "burn"},
        {"reason": "\x00"},
        {"reason": "x" * 400},
    ],
)
def test_bad_input_is_an_error_and_changes_nothing(
    lab: SmallLab, owner: Client, data: dict[str, str]
) -> None:
    row = _overlapping(lab)
    assert _decide(owner, row, data.pop("decision", "accept"), **data).status_code == 400
    assert _ledger_mj() == 2000


def test_a_decided_window_is_not_decided_again(lab: SmallLab, owner: Client) -> None:
    row = _overlapping(lab)
    _decide(owner, row, "discard")
    assert _decide(owner, row, "accept").status_code == 404
    assert _ledger_mj() == 2000


def test_a_viewer_sees_but_does_not_decide(lab: SmallLab, owner: Client, viewer: Client) -> None:
    row = _overlapping(lab)
    page = text_of(viewer.get(f"{LIST}{row.pk}/"))
    assert "data-read-only" in page
    assert _decide(viewer, row, "accept").status_code == 403
    assert viewer.post(LIST, {"action": "decide"}).status_code == 403
    assert_needs_sign_in(LIST)


def test_a_manager_accepts_a_move(lab: SmallLab, owner: Client) -> None:
    other = register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0
    )
    push(lab.node, [W(gpu(), 500)])
    moved = W(gpu(), 700, T0 + 20 * MINUTE, T0 + 21 * MINUTE, seq=1, counter_start=5000)
    push(other, [moved])
    move = DeviceMove.objects.get()
    assert f'data-move="{move.pk}" data-energy="700"' in text_of(owner.get(LIST))
    assert owner.post(f"/nodes/device-moves/{move.pk}/").status_code == 302
    assert _ledger_mj() == 1200
    assert "data-move" not in text_of(owner.get(LIST))
    back = W(gpu(), 300, T0 + 40 * MINUTE, T0 + 41 * MINUTE, seq=2, counter_start=9000)
    push(lab.node, [back])
    assert DeviceMove.objects.get(pk=move.pk).state == MoveState.WITHDRAWN
    page = text_of(owner.get("/"))
    assert 'data-alert="device-conflict"' in page
    assert "ws-1" in page
    assert "ws-2" in page


def test_a_window_of_a_pending_move_leads_to_the_move(lab: SmallLab, owner: Client) -> None:
    other = register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0
    )
    push(lab.node, [W(gpu(), 500)])
    push(other, [W(gpu(), 700, T0 + 20 * MINUTE, T0 + 21 * MINUTE, seq=1, counter_start=5000)])
    row = QuarantinedWindow.objects.get()
    assert f'href="{LIST}#moves"' in text_of(owner.get(f"{LIST}{row.pk}/"))


def test_the_number_of_queries_does_not_grow(lab: SmallLab, owner: Client) -> None:
    _overlapping(lab)
    first = queries(owner, LIST)
    for i in range(1, 6):
        late = W(gpu(), 100, T0, T0 + MINUTE, seq=i, counter_start=None, measurement="nvml_power")
        push(lab.node, [late])
    assert QuarantinedWindow.objects.count() == 6
    assert queries(owner, LIST) <= first


def test_high_power_is_shown_without_an_exponent(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 10**9)])
    page = text_of(owner.get(f"{LIST}{QuarantinedWindow.objects.get().pk}/"))
    assert "16\u202f667 W on average" in page
