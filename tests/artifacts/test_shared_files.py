"""Copies that share files: totals count these once, and a plan promises what its deletions free."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.artifacts.choices import CopyState
from apps.artifacts.cleanup.freed_space import freed_space
from apps.artifacts.cleanup.notifications import compose_mail
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import check_plan
from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners, select_items
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.cleanup.totals import plan_totals
from apps.artifacts.models import Artifact, CleanupPlan, Copy, SharedBytes
from apps.artifacts.parsing import CopySpaceRow
from apps.artifacts.services.copy_spaces import record_copy_spaces
from apps.artifacts.storage import storage_lots, totals_by_kind
from apps.artifacts.storage_model import StoredBytes, storage_energy
from apps.core.units import hour_of
from apps.dashboard.artifacts.storage_page import storage_csv_rows
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER
from tests.artifacts.support import create_run, edge, register_rows, row
from tests.builders import MINUTE, T0, SmallLab
from tests.dashboard.support import text_of

Files = Mapping[str, int]  # name of a file → bytes


def disk_bytes(*contents: Files) -> int:
    """Return the bytes of files that several copies can use, each counted once."""
    return sum({name: size for files in contents for name, size in files.items()}.values())


def report_spaces(lab: SmallLab, contents: Mapping[str, Files]) -> None:
    """Report the space of copies (path → files) as a scan does."""
    users: dict[str, frozenset[str]] = {}
    for files in contents.values():
        for name in files:
            users[name] = frozenset(path for path, other in contents.items() if name in other)
    rows = []
    for path, files in contents.items():
        groups: dict[frozenset[str], int] = {}
        for name, size in files.items():
            groups[users[name]] = groups.get(users[name], 0) + size
        own = groups.pop(frozenset([path]), 0)
        shared = [
            {
                "key": f"{hash(tuple(sorted(group))) % 2**255:064x}",
                "bytes": size,
                "copies": len(group),
            }
            for group, size in groups.items()
        ]
        rows.append({"path": path, "own_bytes": own, "shared": shared})
    record_copy_spaces(
        lab=lab.lab, node=lab.node, rows=msgspec.convert(rows, type=list[CopySpaceRow])
    )


def register_contents(lab: SmallLab, contents: Mapping[str, Files], **more: Any) -> Run:
    """Register copies of checkpoints of one finished run, and their space."""
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    rows = [
        row(
            path,
            bytes=sum(files.values()),
            form="folder",
            kind="checkpoint",
            facts={"step": step},
            copies=[{"path": path, "medium": "hdd"}],
            runs=[edge(run)],
            **more,
        )
        for step, (path, files) in enumerate(contents.items())
    ]
    register_rows(lab, *rows, row("last", kind="checkpoint", facts={"step": 99}, runs=[edge(run)]))
    report_spaces(lab, contents)
    return run


def stored_bytes(lab: SmallLab) -> int:
    return sum(lot.bytes for lot in storage_lots(lab.lab, hour_of(T0)))


def plan_of(lab: SmallLab, *paths: str) -> CleanupPlan:
    """A plan in which only the copies at ``paths`` are selected."""
    plan = create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=LATER)
    items = {item.copy.path: item.pk for item in plan.items.select_related("copy")}
    select_items(
        plan=plan,
        selected=[items[path] for path in paths],
        listed=list(items.values()),
        by=lab.owner,
        now=LATER,
    )
    return plan


def approved(lab: SmallLab, plan: CleanupPlan) -> CleanupPlan:
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    return approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)


def delete_all(lab: SmallLab, plan: CleanupPlan) -> None:
    for outcome in ("trashed", "deleted"):
        lines = [Outcome(item.pk, outcome) for item in plan.items.filter(selected=True)]  # type: ignore[arg-type]
        record_outcomes(plan=plan, outcomes=lines, by=lab.owner, now=LATER + 8 * DAY_US)


THREE = {
    "/hub/a": {"all": 1000, "pair": 100, "a": 1},
    "/hub/b": {"all": 1000, "pair": 100, "b": 20},
    "/hub/c": {"all": 1000, "c": 3},
}


def test_each_total_counts_a_shared_file_once(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    other = Project.objects.create(lab=lab.lab, name="Other", slug="other", created_us=T0)
    Artifact.objects.filter(name="/hub/b").update(project=other)
    Copy.objects.filter(path="/hub/c").update(medium="ssd")
    total = disk_bytes(*THREE.values())
    assert stored_bytes(lab) == total == 1124
    by_project = {
        project: sum(
            lot.bytes for lot in storage_lots(lab.lab, hour_of(T0)) if lot.project_id == project
        )
        for project in Artifact.objects.values_list("project", flat=True).distinct()
    }
    assert sum(by_project.values()) == total
    assert by_project[other.pk] == 20
    assert sum(part.bytes for part in totals_by_kind(lab.lab)) == total
    assert sum(line[3] for line in storage_csv_rows(lab.lab, T0)) == total


def test_identical_revisions_elsewhere_are_copies(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    register_rows(lab, row("/hub/a", bytes=1101, form="folder", copies=[{"path": "/backup/a"}]))
    assert stored_bytes(lab) == 1124 + 1101
    assert sum(part.bytes for part in totals_by_kind(lab.lab)) == 1124


def test_another_copy_counts_the_file_after_the_first_is_gone(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    Copy.objects.filter(path="/hub/a").update(state=CopyState.MISSING)
    assert stored_bytes(lab) == disk_bytes(THREE["/hub/b"], THREE["/hub/c"])
    Copy.objects.filter(path="/hub/b").update(state=CopyState.DELETED)
    assert stored_bytes(lab) == disk_bytes(THREE["/hub/c"])


def test_nodes_with_equal_paths_share_nothing(lab: SmallLab) -> None:
    from apps.fleet.services import register_node

    register_contents(lab, THREE)
    node = register_node(
        lab=lab.lab,
        uuid="7f1d3b52-2222-4333-8444-555566667799",  # type: ignore[arg-type]
        hostname="second",
        facts={},
        site=lab.site,
        now=T0,
    )
    register_contents(SmallLab(lab.lab, lab.owner, lab.site, node), THREE)
    assert stored_bytes(lab) == 2 * 1124


@pytest.mark.parametrize(
    ("paths", "freed"),
    [
        ((), 0),
        (("/hub/a",), 1),
        (("/hub/b",), 20),
        (("/hub/a", "/hub/b"), 121),
        (("/hub/a", "/hub/c"), 4),
        (("/hub/a", "/hub/b", "/hub/c"), 1124),
    ],
)
def test_a_plan_promises_what_it_frees(lab: SmallLab, paths: tuple[str, ...], freed: int) -> None:
    register_contents(lab, THREE)
    plan, before = plan_of(lab, *paths), stored_bytes(lab)
    totals = plan_totals(plan)
    assert (totals.lines, totals.bytes) == (len(paths), freed)
    items = freed_space([plan])
    assert sum(item.bytes for item in items.values() if item.is_selected) == freed
    assert totals.storage_mj == (
        sum(item.storage_mj or 0 for item in items.values() if item.is_selected) if paths else None
    )
    if paths:
        plan = approved(lab, plan)
        delete_all(lab, plan)
        assert before - stored_bytes(lab) == freed
        assert plan_totals(plan).bytes == freed


def test_an_unselected_item_shows_what_it_would_free_in_addition(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    plan = plan_of(lab, "/hub/a")
    freed = freed_space([plan])
    by_path = {item.copy.path: freed[item.pk].bytes for item in plan.items.select_related("copy")}
    assert by_path == {"/hub/a": 1, "/hub/b": 120, "/hub/c": 3}


def test_what_a_plan_left_is_freed_by_the_next(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    plan = approved(lab, plan_of(lab, "/hub/a"))
    delete_all(lab, plan)
    plan = plan_of(lab, "/hub/b")
    assert plan_totals(plan).bytes == 120
    Copy.objects.filter(path="/hub/a").update(state=CopyState.TRASHED)
    assert plan_totals(plan).bytes == 20, "the files in the trash can be restored"


def test_refused_and_restored_items_keep_shared_files(lab: SmallLab) -> None:
    register_contents(lab, THREE)
    plan = approved(lab, plan_of(lab, "/hub/a", "/hub/b"))
    refused = plan.items.get(copy__path="/hub/a")
    record_outcomes(
        plan=plan,
        outcomes=[Outcome(refused.pk, "refused")],  # type: ignore[arg-type]
        by=lab.owner,
        now=LATER + 8 * DAY_US,
    )
    freed = freed_space([plan])
    assert freed[plan.items.get(copy__path="/hub/b").pk].bytes == 20


def test_files_with_other_names_are_neither_proposed_nor_deleted(lab: SmallLab) -> None:
    register_contents(lab, {"/x": {"x": 5, "y": 7}, "/y": {"y": 7, "z": 1}, "/z": {"z": 1}})
    plan = approved(lab, plan_of(lab, "/x", "/y", "/z"))
    assert plan_totals(plan).bytes == 13
    SharedBytes.objects.filter(bytes=7).update(copies=None)
    assert plan_totals(plan).bytes == 0, "z is used by y, which stays"
    reasons = {each.item.copy.path: each.blocked_reason for each in check_plan(plan, LATER)}
    assert (bool(reasons["/x"]), bool(reasons["/y"]), reasons["/z"]) == (True, True, "")
    plan.delete()
    plan = create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=LATER)
    assert set(plan.items.values_list("copy__path", flat=True)) == {"/z"}


def test_a_copy_with_its_space_costs_what_it_uses(lab: SmallLab) -> None:
    register_contents(lab, {"/a": {"s": 10**12, "a": 10**12}, "/b": {"s": 10**12}})
    plan = plan_of(lab, "/a")
    energy = storage_energy(StoredBytes("hdd", 10**12, 1_000_000)).energy_mj
    item = plan.items.get(copy__path="/a")
    assert freed_space([plan])[item.pk].storage_mj == energy == plan_totals(plan).storage_mj
    assert item.storage_mj == 2 * energy


def test_page_csv_list_mail_and_api_show_the_freed_bytes(lab: SmallLab, client: Client) -> None:
    gigabytes = {
        path: {name: size * 10**9 for name, size in files.items()} for path, files in THREE.items()
    }
    register_contents(lab, gigabytes)
    client.force_login(lab.owner)
    plan = plan_of(lab, "/hub/a", "/hub/b")
    address = f"/artifacts/cleanup/{plan.uuid}/"
    page = client.get(address).content.decode()
    assert re.search(r"121\s*(&nbsp;)?GB", page)
    shown = [int(figure) for figure in re.findall(r'data-freed-bytes="(\d+)"', page)]
    assert shown == [20 * 10**9, 101 * 10**9], "shared files at the last selected item"
    lines = text_of(client.get(f"{address[:-1]}.csv")).splitlines()
    head = lines[0].split(",")
    freed = {
        line.split(",")[head.index("path")]: line.split(",")[head.index("freed_bytes")]
        for line in lines[1:]
    }
    assert freed == {
        "/hub/a": str(101 * 10**9),
        "/hub/b": str(20 * 10**9),
        "/hub/c": str(1003 * 10**9),
    }
    assert "121" in client.get("/artifacts/cleanup/").content.decode()
    plan = approved(lab, plan)
    (notification,) = plan.notifications.all()
    body = compose_mail(notification).body
    assert "121 GB" in body, body
    reply = client.get("/artifacts/storage/").content.decode()
    assert "1.12" in reply


NAMES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), min_size=1)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_caches_are_exact(lab: SmallLab, data: st.DataObject) -> None:
    """Totals are the bytes on disk before and after any deletion; a plan frees the difference."""
    sizes = data.draw(st.fixed_dictionaries({name: st.integers(0, 10**15) for name in "abcdef"}))
    users = data.draw(
        st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=5)
    )
    contents = {
        f"/hub/{number}": {name: sizes[name] for name in sorted(names)}
        for number, names in enumerate(users)
    }
    CleanupPlan.objects.all().delete()
    Artifact.objects.all().delete()
    register_contents(lab, contents)
    chosen = data.draw(st.sets(st.sampled_from(sorted(contents)), min_size=1))
    rest = [files for path, files in contents.items() if path not in chosen]
    plan = plan_of(lab, *sorted(chosen))
    promised = plan_totals(plan).bytes
    assert stored_bytes(lab) == disk_bytes(*contents.values())
    assert sum(part.bytes for part in totals_by_kind(lab.lab)) == stored_bytes(lab)
    delete_all(lab, approved(lab, plan))
    assert stored_bytes(lab) == disk_bytes(*rest)
    assert promised == disk_bytes(*contents.values()) - disk_bytes(*rest)
