"""An engineer's day with a full disk: scanned, planned, reviewed, owners told, one pinned,
approved, carried out, the trash emptied. The real commands against the real server: what goes is
what was planned, the very files, and nothing else."""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import Membership, User
from apps.accounts.services.labs import issue_user_token
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupPlan, Copy
from apps.core.clock import now_us, utc
from apps.dashboard.formatting import size
from tests.api.conftest import Caller
from tests.artifacts.sample_disk import RUNS, Item, engineers_disk, listing
from tests.builders import MINUTE, SmallLab, W, push, small_lab
from tests.collector.cleanup.support import read_digest, two_days_ago
from tests.collector.collector_process import Collector
from tests.dashboard.conftest import client_of
from tests.dashboard.support import figures_on, text_of
from tests.serialized_server import serialize_requests

pytestmark = pytest.mark.django_db(transaction=True)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "artifacts.md"
PLANS, TRASH, TOMBSTONE = "/artifacts/cleanup/", ".labcarbon-trash", ".labcarbon-tombstone.json"
RUN_MJ = 300_000
CHOSEN = "runs/lr-1/step=20.ckpt"
HERS, LEFT, TAKEN = (
    "runs/unet/epoch=3.ckpt",
    "runs/segment/model-200.safetensors",
    "runs/lr-1/step=30.ckpt",
)


@dataclass
class Day:
    """A lab, an engineer of it, and her machine with its disk."""

    lab: SmallLab
    engineer: User
    machine: Collector
    disk: Path
    items: dict[str, Item]

    @property
    def url(self) -> str:
        return self.machine.settings["LABCARBON_URL"]

    @cached_property
    def runs(self) -> dict[str, str]:
        return {name: str(uuid4()) for name in RUNS}

    @cached_property
    def digests(self) -> dict[str, str]:
        """By path, as the documents say that they are made."""
        return {path: read_digest(self.disk / path)[1] for path in self.items}

    @cached_property
    def bytes(self) -> dict[str, int]:
        return {path: read_digest(self.disk / path)[2] for path in self.items}

    def api(self, method: str, path: str, body: Any = None) -> Any:
        reply = Caller(self.machine.settings["LABCARBON_TOKEN"])(method, path, body)
        assert reply.status_code == 200, reply.content
        return reply.json()  # type: ignore[attr-defined]

    def post(self, who: User, address: str, **data: Any) -> str:
        """Post a form as a browser does; return the page that comes of it."""
        client = client_of(who)
        reply = client.post(address, data)
        assert reply.status_code == 302, text_of(reply)[:2000]
        return text_of(client.get(reply["Location"]))

    def get(self, address: str) -> str:
        return text_of(client_of(self.lab.owner).get(address))

    def page_of(self, path: str) -> str:
        return f"/artifacts/{self.digests[path]}/"

    def command(self, *words: str) -> str:
        done = self.machine.call(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def day(live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Day:
    serialize_requests(monkeypatch)
    lab = small_lab()
    Client().get("/api/v1/preflight/")  # the first request of a process reads its code
    engineer = User.objects.create_user(username="eng")
    Membership.objects.create(lab=lab.lab, user=engineer, role="member")
    token = issue_user_token(lab=lab.lab, user=engineer, now=now_us())
    machine = Collector(
        tmp_path,
        {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token},
        node_id=str(lab.node.uuid),
    )
    items = {item.path: item for item in engineers_disk(tmp_path / "disk")}
    return Day(lab, engineer, machine, tmp_path / "disk", items)


@contextmanager
def later(days: int) -> Iterator[None]:
    with time_machine.travel((now_us() + days * DAY_US) / 1e6, tick=True):
        yield


def tell_runs(day: Day) -> None:
    """Runs with what they read and made, over the API; the first of them was measured."""
    began_us = now_us() - 120 * MINUTE
    for name, uuid in day.runs.items():
        state, sweep = RUNS[name]
        facts = {
            "name": name,
            "started_at": utc(began_us).isoformat(),
            "project": "demo",
            "sweep": sweep,
        }
        day.api("PUT", f"runs/{uuid}/", facts)
        day.api("POST", f"runs/{uuid}/metrics/", {"points": [["val_acc", 1, 0.875, None]]})
        made = [_row(day, item) for item in day.items.values() if item.run and item.run[0] == name]
        assert {
            answer[0] for answer in day.api("POST", "artifacts/", {"artifacts": made})["results"]
        } == {"created"}
        if state != "running":
            day.api(
                "PATCH",
                f"runs/{uuid}/",
                {"state": state, "ended_at": utc(began_us + MINUTE).isoformat()},
            )
    shares = ((f"run:{day.runs['unet']}", RUN_MJ),)
    window = W("gpu:GPU-1111", RUN_MJ, start_us=began_us, end_us=began_us + MINUTE, shares=shares)
    assert push(day.lab.node, [window]) == [["accepted"]]


def _row(day: Day, item: Item) -> dict[str, Any]:
    form, digest, number, files = read_digest(day.disk / item.path)
    assert item.run
    run, role = item.run
    return {
        "digest": digest,
        "name": Path(item.path).name,
        "bytes": number,
        "files": files,
        "form": form,
        "facts": item.facts,
        "kind": "checkpoint" if role == "produced" else "model",
        "runs": [{"run": day.runs[run], "role": role}],
    }


def scan(day: Day) -> None:
    """Each artifact is found where it lies, and nothing else is one."""
    day.command("scan", "--medium", "ssd", str(day.disk))
    found = Copy.objects.values_list("path", "artifact__digest", "artifact__bytes", "state")
    assert sorted(found) == sorted(
        (str(day.disk / path), digest, day.bytes[path], "present")
        for path, digest in day.digests.items()
    )


def make_plan(day: Day) -> CleanupPlan:
    """Days are set, the sweep has its winner, and a plan lists what is due: all for its reason."""
    owner = day.lab.owner
    day.post(owner, PLANS, **{"action": "retention", "days:intermediate": "30", "days:final": "20"})
    day.post(day.engineer, day.page_of(CHOSEN), action="mark_candidate")
    assert Artifact.objects.get(digest=day.digests[CHOSEN]).state == "candidate"
    day.post(day.engineer, PLANS, action="create", node=str(day.lab.node.uuid))
    plan = CleanupPlan.objects.get()
    listed = plan.items.values_list("copy__path", "retention_class", "selected", "is_last_copy")
    assert set(listed) == {
        (str(day.disk / item.path), item.retention_class, item.retention_class != "final", True)
        for item in day.items.values()
        if item.retention_class
    }
    return plan


def review(day: Day, plan: CleanupPlan) -> dict[str, int]:
    """Look through the lines: one stays, the last of a run goes. Then owners are notified.
    Returns the selected items.
    """
    address = f"{PLANS}{plan.uuid}/"
    page = day.get(address)
    listed = [int(pk) for pk in re.findall(r'name="listed" value="(\d+)"', page)]
    ticked = {int(pk) for pk in re.findall(r'name="item" value="(\d+)" checked', page)}
    lines = {
        path.removeprefix(f"{day.disk}/"): pk
        for path, pk in plan.items.values_list("copy__path", "pk")
    }
    assert (sorted(listed), ticked) == (
        sorted(lines.values()),
        {pk for path, pk in lines.items() if day.items[path].retention_class != "final"},
    )
    ticked = ticked - {lines[LEFT]} | {lines[TAKEN]}
    assert "2 items changed" in day.post(
        day.lab.owner, address, action="select", listed=listed, item=sorted(ticked)
    )
    day.post(day.lab.owner, address, action="notify", grace_days="7", trash_days="1")
    assert Artifact.objects.filter(state="scheduled").count() == len(ticked)
    return {path: pk for path, pk in lines.items() if pk in ticked}


def pin_hers(day: Day, plan: CleanupPlan, lines: dict[str, int]) -> None:
    """Who owns it sees on any page that it is to go, and pins it."""
    assert f'data-pending="{len(lines)}"' in text_of(client_of(day.engineer).get("/runs/"))
    day.post(day.engineer, day.page_of(HERS), action="pin", reason="my thesis")
    assert "my thesis" in day.get(f"{PLANS}{plan.uuid}/")
    assert f'data-pending="{len(lines) - 1}"' in text_of(client_of(day.engineer).get("/runs/"))


def approve(day: Day, plan: CleanupPlan) -> None:
    address = f"{PLANS}{plan.uuid}/"
    with later(-1):
        early = client_of(day.lab.owner).post(address, {"action": "approve"})
        assert (early.status_code, "grace period is not over" in text_of(early)) == (409, True)
    assert "labcarbon-collect apply-plan" in day.post(day.lab.owner, address, action="approve")


def moved(
    before: dict[str, tuple[Any, ...]], plan: CleanupPlan, lines: dict[str, int]
) -> dict[str, tuple[Any, ...]]:
    """The same disk with what went in its trash."""
    found = {}
    for name, which in before.items():
        parts = name.split("/")
        above = next(
            (path for i in range(len(parts)) if (path := "/".join(parts[: i + 1])) in lines), None
        )
        slot = f"{Path(above).parent}/{TRASH}/{plan.uuid}/{lines[above]}" if above else ""
        found[slot + name.removeprefix(above) if above else name] = which
    return found


def new_names(plan: CleanupPlan, lines: dict[str, int], *, is_empty: bool) -> set[str]:
    """What a disk has besides: a tombstone for each line, and the folders of its trash."""
    found = {f"{path}{TOMBSTONE}" for path in lines}
    folders = set() if is_empty else {str(Path(path).parent) for path in lines}
    return found | {
        f"{folder}/{TRASH}{more}" for folder in folders for more in ("", f"/{plan.uuid}")
    }


def assert_same_disk(
    after: dict[str, tuple[Any, ...]], expected: dict[str, tuple[Any, ...]], new: set[str]
) -> None:
    assert set(after) - set(expected) == new
    assert {name: after.get(name) for name in expected} == expected


def keys_listed(*kinds: str) -> set[str]:
    """The keys of a tombstone's file, as the page lists them in the rows that begin so."""
    part = DOCS.read_text(encoding="utf-8").split("### Tombstone file")[1].split("###")[0]
    rows = [
        line
        for line in part.splitlines()
        if line.startswith("| ") and line.split(" | ")[0][2:] in kinds
    ]
    assert len(rows) == len(kinds)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split(" | ")[1])}


def assert_tombstones(day: Day, plan: CleanupPlan, lines: dict[str, int], state: str) -> None:
    """The files that lie in the place of what went say all that the page lists."""
    kinds = ("original", "reason", "in the trash" if state == "in the trash" else "deleted")
    for path, pk in lines.items():
        told = json.loads((day.disk / f"{path}{TOMBSTONE}").read_text())
        assert set(told) == keys_listed(*kinds)
        assert (told["digest"], told["bytes"], told["state"]) == (
            day.digests[path],
            day.bytes[path],
            state,
        )
        assert (told["path"], told["line"], told["plan"]) == (
            str(day.disk / path),
            pk,
            str(plan.uuid),
        )
        assert told["page"] == f"{day.url}/artifacts/plans/{plan.uuid}/", "redirects to the page"


def assert_pages_say(day: Day, plan: CleanupPlan, lines: dict[str, int], *, in_trash: bool) -> None:
    """The board, the storage cost and the plan, of what is there and of what went."""
    there = set(day.items) - set(lines)
    whole = size(sum(day.bytes[path] for path in there))
    kept = _csv(day.get("/artifacts.csv?copies=present"))
    assert {(row["path"], row["digest"]) for row in kept} == {
        (str(day.disk / path), day.digests[path]) for path in there
    }
    assert f"{len(there)} artifacts · {whole}" in _plain(day.get("/artifacts/"))
    costs = _csv(day.get("/artifacts/storage.csv"))
    assert [sum(int(row[name]) for row in costs) for name in ("copies", "bytes")] == [
        len(there),
        sum(day.bytes[path] for path in there),
    ]
    page = _plain(day.get("/artifacts/storage/"))
    assert f"Storage of {whole}:" in page
    assert f"{len(there)} present copies" in page
    gone = _csv(day.get(f"/artifacts.csv?state={'scheduled' if in_trash else 'tombstone'}"))
    assert {(row["digest"], int(row["bytes"])) for row in gone} == {
        (day.digests[path], day.bytes[path]) for path in lines
    }
    lead = f"{'in the trash' if in_trash else 'deleted'}: {len(lines)}"
    assert lead in _plain(day.get(f"{PLANS}{plan.uuid}/"))


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _plain(page: str) -> str:
    """A page's words, without tags, its spaces as typed."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))


def known(day: Day, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that the server tells of an artifact, and its lineage; what becomes of its copies left
    out.
    """
    told = day.api("GET", f"artifacts/{day.digests[path]}/")
    copies = [{**copy, "state": None, "seen_at": None} for copy in told["copies"]]
    lineage = day.api("GET", f"artifacts/{day.digests[path]}/lineage/")
    states = [{**each, "state": None} for each in lineage["artifacts"]]
    return {**told, "state": None, "copies": copies}, {**lineage, "artifacts": states}


def assert_all_is_known_still(day: Day, before: dict[str, Any], lines: dict[str, int]) -> None:
    """Of what is gone the server lost nothing: digest, bytes, facts, lineage, metrics, energy."""
    assert set(lines) <= set(before)
    for path in lines:
        told = day.api("GET", f"artifacts/{day.digests[path]}/")
        assert (told["state"], told["digest"], told["bytes"]) == (
            "tombstone",
            day.digests[path],
            day.bytes[path],
        )
        assert [copy["state"] for copy in told["copies"]] == ["deleted"]
        assert known(day, path) == before[path]
    page = day.get(day.page_of("runs/unet/epoch=1.ckpt"))
    assert RUN_MJ in {value for query, value in figures_on(page) if "metric=energy_mj" in query}
    assert "val_acc 0.875" in page


def test_what_goes_is_what_was_planned_the_very_files_and_nothing_else(day: Day) -> None:
    assert sum(path.is_file() for path in day.disk.rglob("*")) > 55
    tell_runs(day)
    scan(day)
    before = listing(day.disk)
    with later(31):
        told = {path: known(day, path) for path, item in day.items.items() if item.retention_class}
        plan = make_plan(day)
        lines = review(day, plan)
        pin_hers(day, plan, lines)
    del lines[HERS]
    with later(38):
        approve(day, plan)
        assert f"to be moved to the trash: {len(lines)} items" in day.command(
            "apply-plan", str(plan.uuid), "--dry-run"
        )
        assert listing(day.disk) == before, "it is only said"
        assert f"moved to the trash: {len(lines)} items" in day.command(
            "apply-plan", str(plan.uuid), "--yes"
        )
        assert_same_disk(
            listing(day.disk), moved(before, plan, lines), new_names(plan, lines, is_empty=False)
        )
        assert_tombstones(day, plan, lines, "in the trash")
        assert_pages_say(day, plan, lines, in_trash=True)
        two_days_ago(day.machine.home / "plans" / f"{plan.uuid}.jsonl")
        day.command("apply-plan", str(plan.uuid), "--empty", "--yes")
        stays = {
            name: which for name, which in moved(before, plan, lines).items() if TRASH not in name
        }
        assert_same_disk(listing(day.disk), stays, new_names(plan, lines, is_empty=True))
        assert_tombstones(day, plan, lines, "deleted")
        assert_pages_say(day, plan, lines, in_trash=False)
        assert_all_is_known_still(day, told, lines)
    rest = Artifact.objects.exclude(state="tombstone").values_list("digest", "state")
    assert {path: dict(rest)[day.digests[path]] for path in day.items if path not in lines} == {
        path: "candidate" if path == CHOSEN else "stored" for path in day.items if path not in lines
    }
