"""A plan from proposal to tombstones: real services, the real server, the real command, real
files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Membership, User
from apps.accounts.services.labs import issue_user_token
from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners, select_items
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.cleanup.totals import plan_totals
from apps.artifacts.models import Artifact, CleanupPlan, Copy, Pin
from apps.artifacts.storage import storage_lots
from apps.core.clock import now_us
from apps.core.units import hour_of
from apps.runs.models import Run
from tests.artifacts.support import create_run, edge, register_rows
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.collector.cleanup.support import read_digest, two_days_ago
from tests.collector.collector_process import Collector
from tests.collector.scan.hub_cache import revision, used_bytes
from tests.serialized_server import serialize_requests

pytestmark = pytest.mark.django_db(transaction=True)


def _approved(lab: SmallLab, folder: Path, *inside: Path) -> CleanupPlan:
    """All that lies in a folder as checkpoints of a finished run, and what lies deeper; the last
    is for review, the others go.
    """
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    rows = []
    for step, path in enumerate([*inside, *sorted(folder.iterdir())], 1):
        form, digest, size, files = read_digest(path)
        rows.append(
            {
                "digest": digest,
                "name": path.name,
                "bytes": size,
                "files": files,
                "form": form,
                "kind": "checkpoint",
                "facts": {"step": step},
                "copies": [{"path": str(path), "medium": "hdd"}],
                "runs": [edge(run)],
            }
        )
    assert {answer[0] for answer in register_rows(lab, *rows, now=T0)} == {"created"}
    later = T0 + 365 * DAY_US
    plan = create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=later)
    notify_owners(plan=plan, grace_days=1, trash_days=1, by=lab.owner, now=later)
    return approve(plan=plan, by=lab.owner, now=later + DAY_US)


def test_from_a_plan_to_tombstones(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize_requests(monkeypatch)
    lab = small_lab()
    folder = tmp_path / "ckpt"
    for name, content in (("step1.pt", b"1"), ("step3.pt", b"3"), ("step4.pt", b"44")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "step2").mkdir()
    (folder / "step2" / "weights.bin").write_bytes(b"22")
    plan = _approved(lab, folder)
    lines = {line.artifact.name: line for line in plan.items.select_related("artifact")}
    Client().get("/api/v1/preflight/")  # the first request of a process reads its code
    user = User.objects.create_user(username="eng", password="correct horse battery")
    Membership.objects.create(lab=lab.lab, user=user, role="member")
    token = issue_user_token(lab=lab.lab, user=user, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )

    (folder / "step1.pt").write_bytes(b"X")  # changed since it was registered
    done = machine.call("apply-plan", f"{live_server.url}/artifacts/plans/{plan.uuid}/", "--yes")
    assert done.returncode == 1, done.stderr
    assert "step1.pt: it changed: its content does not match its registered hash" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == [
        ".labcarbon-trash",
        "step1.pt",
        "step2.labcarbon-tombstone.json",
        "step3.pt.labcarbon-tombstone.json",
        "step4.pt",
    ]
    outcomes = {
        line.artifact.name: (line.outcome, line.message)
        for line in plan.items.select_related("artifact")
    }
    assert outcomes["step2"] == outcomes["step3.pt"] == ("trashed", "")
    assert outcomes["step1.pt"] == (
        "refused",
        "it changed: its content does not match its registered hash",
    )
    assert outcomes["step4.pt"] == ("", ""), "for review, and nobody ticked it"

    done = machine.call(
        "apply-plan", str(plan.uuid), "--restore", str(lines["step3.pt"].pk), "--yes"
    )
    assert done.returncode == 0, done.stderr
    assert (
        hashlib.sha256((folder / "step3.pt").read_bytes()).hexdigest()
        == lines["step3.pt"].artifact.digest
    )

    assert (
        "for less than 1 day: 1 item"
        in machine.call("apply-plan", str(plan.uuid), "--purge", "--yes").stdout
    )
    two_days_ago(machine.home / "plans" / f"{plan.uuid}.jsonl")
    pin = Pin.objects.create(artifact=lines["step2"].artifact, reason="thesis", from_us=now_us())
    done = machine.call("apply-plan", str(plan.uuid), "--purge", "--yes")
    assert (done.returncode, "#" in done.stdout) == (0, True), done.stderr
    assert (
        folder / ".labcarbon-trash" / str(plan.uuid) / str(lines["step2"].pk) / "weights.bin"
    ).exists()
    Pin.objects.filter(pk=pin.pk).update(ended_us=now_us())
    done = machine.call("apply-plan", str(plan.uuid), "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "step1.pt",
        "step2.labcarbon-tombstone.json",
        "step3.pt",
        "step4.pt",
    ]
    assert {each.name: each.state for each in Artifact.objects.all()} == {
        "step1.pt": "stored",
        "step2": "tombstone",
        "step3.pt": "stored",
        "step4.pt": "stored",
    }
    assert Copy.objects.get(artifact=lines["step2"].artifact).state == "deleted"
    assert CleanupPlan.objects.get().state == "applied"
    carried = (
        AuditEntry.objects.filter(action="plan.carried_out")
        .order_by("pk")
        .values_list("user__username", flat=True)
    )
    assert list(carried) == ["eng"] * 3


def test_items_inside_a_folder_are_moved_and_restored_with_it(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize_requests(monkeypatch)
    lab = small_lab()
    folder = tmp_path / "ckpt"
    (folder / "hf" / "sub").mkdir(parents=True)
    inner = folder / "hf" / "sub" / "early.pt"
    inner.write_bytes(b"early")
    (folder / "last.pt").write_bytes(b"last")
    plan = _approved(lab, folder, inner)
    Client().get("/api/v1/preflight/")
    token = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )

    done = machine.call("apply-plan", str(plan.uuid), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "moved with their folder: 1 item" in done.stdout
    lines = {
        line.artifact.name: line
        for line in plan.items.select_related("artifact", "copy", "parent_item__artifact")
    }
    assert {name: (line.outcome, str(line.copy.state)) for name, line in lines.items()} == {
        "hf": ("trashed", "trashed"),
        "early.pt": ("trashed", "trashed"),
        "last.pt": ("", "present"),
    }
    assert lines["early.pt"].parent_item == lines["hf"]

    done = machine.call("apply-plan", str(plan.uuid), "--restore", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert inner.read_bytes() == b"early"
    assert set(plan.items.filter(selected=True).values_list("outcome", flat=True)) == {"restored"}
    assert set(Copy.objects.values_list("state", flat=True)) == {"present"}


def test_a_plan_with_only_blocked_items_is_completed(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize_requests(monkeypatch)
    lab = small_lab()
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for name in ("step1.pt", "step2.pt"):
        (folder / name).write_bytes(name.encode())
    plan = _approved(lab, folder)
    line = plan.items.select_related("artifact").get(selected=True)
    Pin.objects.create(artifact=line.artifact, reason="thesis", from_us=now_us())
    Client().get("/api/v1/preflight/")
    token = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )
    assert machine.call("apply-plan", str(plan.uuid), "--dry-run").returncode == 0
    assert CleanupPlan.objects.get().state == "approved"
    done = machine.call("apply-plan", str(plan.uuid))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["step1.pt", "step2.pt"]
    assert CleanupPlan.objects.get().state == "applied"
    line = plan.items.select_related("artifact").get(pk=line.pk)
    assert (line.selected, line.objection, line.artifact.state) == (False, "pinned", "stored")


@pytest.mark.parametrize("selected", [("aaa",), ("aaa", "bbb"), ("aaa", "bbb", "ccc")])
def test_revisions_of_a_hub_cache_free_what_their_plan_promises(
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    selected: tuple[str, ...],
) -> None:
    """From the scan to the scan after the purge."""
    serialize_requests(monkeypatch)
    lab, cache, name = small_lab(), tmp_path / "hub", "models--org--m"
    pair = {"pair": b"p" * 100, "all": b"a" * 1000}
    tops = {
        "aaa": revision(cache, name, "aaa", {**pair, "own": b"1"}),
        "bbb": revision(cache, name, "bbb", {**pair, "own": b"22"}),
        "ccc": revision(cache, name, "ccc", {"all": b"a" * 1000, "own": b"333"}),
    }
    Client().get("/api/v1/preflight/")
    token = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )

    def stored_bytes() -> int:
        assert machine.call("scan", str(cache)).returncode == 0
        return sum(lot.bytes for lot in storage_lots(lab.lab, hour_of(now_us())))

    assert stored_bytes() == used_bytes(tops.values()) == 1106
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    rows = [
        {"digest": each.digest, "name": each.name, "bytes": each.bytes, "form": "folder"}
        for each in Artifact.objects.order_by("pk")
    ]
    register_rows(lab, *({**row, "runs": [edge(run)]} for row in rows), now=T0)
    later = now_us() + 365 * DAY_US
    plan = create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=later)
    items = {item.artifact.name: item.pk for item in plan.items.select_related("artifact")}
    select_items(
        plan=plan,
        selected=[items[each] for each in selected],
        listed=list(items.values()),
        by=lab.owner,
        now=later,
    )
    promised = plan_totals(plan).bytes
    notify_owners(plan=plan, grace_days=1, trash_days=1, by=lab.owner, now=later)
    approve(plan=plan, by=lab.owner, now=later + DAY_US)
    done = machine.call("apply-plan", str(plan.uuid), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    two_days_ago(machine.home / "plans" / f"{plan.uuid}.jsonl")
    done = machine.call("apply-plan", str(plan.uuid), "--purge", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    rest = [top for each, top in tops.items() if each not in selected]
    assert used_bytes([cache / name / "blobs"]) == used_bytes(rest) == 1106 - promised
    before_scan = sum(lot.bytes for lot in storage_lots(lab.lab, hour_of(now_us())))
    assert before_scan == used_bytes(rest), "known before the next scan"
    assert stored_bytes() == used_bytes(rest)
    assert all(file.read_bytes() for top in rest for file in top.iterdir())
