"""Consumers and CPU time by process, on a fake /proc."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.processes.consumers import ConsumerResolver, RegistrationRefused
from labcarbon_collect.processes.cpu_accounting import CpuAccount
from labcarbon_collect.processes.cpu_time import tick_us
from labcarbon_collect.processes.procfs import parse_stat

from tests.fakes.proc_tree import ProcTree

RUN, OTHER_RUN = "0b1c7d60-0000-4000-8000-000000000001", "0b1c7d60-0000-4000-8000-000000000002"
JOB = "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0"


@pytest.fixture(autouse=True)
def only_root_has_a_name(monkeypatch):
    """On a machine with any accounts: the other users of the fake /proc are numbers."""
    names = {0: SimpleNamespace(pw_name="root")}
    monkeypatch.setattr(
        "labcarbon_collect.pseudonyms.pwd", SimpleNamespace(getpwuid=names.__getitem__)
    )


@pytest.fixture
def tree(tmp_path):
    tree = ProcTree(tmp_path / "proc")
    tree.put(1, ppid=0, comm="init", uid=0, start=1)
    return tree


@pytest.fixture
def resolver(tree):
    resolver = ConsumerResolver(str(tree.root), cluster="hpc", now_ticks=lambda: 0)
    resolver.snapshot()
    return resolver


def ticks(resolver, key):
    return resolver.cpu_time_us_by_consumer().get(key, 0) // tick_us()


def test_process_name_may_contain_brackets_and_spaces():
    line = b"42 (a) (b c) S 7 8 9 0 -1 64 1 2 3 4 50 5 60 6 20 0 1 0 777 1 2\n"
    stat = parse_stat(line)
    assert (stat.pid, stat.comm, stat.ppid, stat.group, stat.session) == (42, "a) (b c", 7, 8, 9)
    assert (stat.cpu_ticks, stat.children_ticks, stat.start_ticks) == (55, 66, 777)


def test_an_ordinary_process_is_its_user_and_command(tree, resolver):
    tree.put(50, comm="trai\tner", uid=0)
    tree.put(51, comm="kworker/0:1", kernel=True, uid=0)
    tree.put(52, uid=4_000_000)
    resolver.snapshot()
    assert resolver.consumer_of(50) == "proc:root/trai?ner"
    assert resolver.consumer_of(51) == "proc:root/kernel [system account]"
    assert resolver.consumer_of(52) == "proc:4000000/python3"


def test_process_started_after_the_snapshot_is_resolved(tree, resolver):
    tree.put(60, uid=0, comm="late")
    assert resolver.consumer_of(60) == "proc:root/late"


def test_ended_or_hidden_process_is_unknown(resolver):
    assert resolver.consumer_of(4711) == "unknown"


def test_run_takes_precedence_over_job(tree, resolver):
    tree.put(50, cgroup=JOB)
    resolver.snapshot()
    assert resolver.consumer_of(50) == "job:hpc/17"
    resolver.register(RUN, 50, 1000)
    assert resolver.consumer_of(50) == f"run:{RUN}"


def test_children_belong_to_the_run_even_after_their_parent_died(tree, resolver):
    tree.put(50)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    tree.put(51, ppid=50)
    tree.put(52, ppid=51)
    resolver.snapshot()
    tree.drop(51)
    tree.put(52, ppid=1)
    resolver.snapshot()
    assert resolver.consumer_of(52) == f"run:{RUN}"
    tree.drop(50)
    resolver.snapshot()
    assert resolver.consumer_of(52) == f"run:{RUN}"


def test_descendants_from_before_the_registration_belong_to_it(tree, resolver):
    tree.put(50)
    tree.put(51, ppid=50)
    tree.put(52, ppid=51)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    assert resolver.consumer_of(52) == f"run:{RUN}"


def test_nested_run_has_its_own_processes(tree, resolver):
    tree.put(50)
    resolver.register(RUN, 50, 1000)
    tree.put(51, ppid=50)
    resolver.snapshot()
    resolver.register(OTHER_RUN, 51, 1000)
    tree.put(52, ppid=51)
    resolver.snapshot()
    assert [resolver.consumer_of(pid) for pid in (50, 51, 52)] == [
        f"run:{RUN}",
        f"run:{OTHER_RUN}",
        f"run:{OTHER_RUN}",
    ]


@pytest.mark.parametrize("shared", ["group", "session", "cgroup"])
def test_orphan_is_assigned_by_its_group(tree, resolver, shared):
    sign = {"group": 50, "session": 50, "cgroup": "0::/system.slice/run-u7.scope"}[shared]
    tree.put(50, **{shared: sign})
    resolver.register(RUN, 50, 1000)
    resolver.snapshot()
    tree.put(70, ppid=1, **{shared: sign})
    tree.put(71, ppid=1, uid=1001, **{shared: sign})
    resolver.snapshot()
    assert resolver.consumer_of(70) == f"run:{RUN}"
    assert resolver.consumer_of(71) == "proc:1001/python3", (
        "a process of another user is never assigned to the run"
    )


def test_shared_group_assigns_nothing(tree, resolver):
    tree.put(40, comm="bash", session=40)
    tree.put(50, ppid=40, session=40)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    resolver.snapshot()
    tree.put(70, ppid=1, session=40)
    resolver.snapshot()
    assert resolver.consumer_of(70) != f"run:{RUN}"


def test_only_ones_own_process_can_be_registered(tree, resolver):
    tree.put(50, uid=1000)
    with pytest.raises(RegistrationRefused, match="belongs to another user"):
        resolver.register(RUN, 50, 1001)
    with pytest.raises(RegistrationRefused, match="remount,hidepid=2,gid="):
        resolver.register(RUN, 51, 1001)
    assert not resolver.consumer_of(50).startswith("run:")


def test_reused_pid_is_another_process(tree, resolver):
    tree.put(50, start=500)
    resolver.register(RUN, 50, 1000)
    resolver.snapshot()
    tree.put(50, start=900)
    resolver.snapshot()
    assert not resolver.consumer_of(50).startswith("run:")


def test_process_that_changes_user_and_name_is_inspected_again(tree, resolver):
    tree.put(50, comm="sshd", uid=0)
    for _ in range(5):
        resolver.snapshot()
    tree.put(50, comm="train", uid=4_000_000)
    resolver.snapshot()
    assert resolver.consumer_of(50) == "proc:4000000/train"


def test_time_counts_from_the_first_snapshot_and_outlasts_the_process(tree):
    tree.put(50, cpu=1000, uid=0, comm="a")
    resolver = ConsumerResolver(str(tree.root), now_ticks=lambda: 0)
    resolver.snapshot()
    assert ticks(resolver, "proc:root/a") == 0
    tree.put(50, cpu=1300)
    tree.put(60, cpu=40, uid=0, comm="a")
    resolver.snapshot()
    assert ticks(resolver, "proc:root/a") == 340
    tree.drop(50)
    resolver.snapshot()
    assert ticks(resolver, "proc:root/a") == 340


def test_time_of_unobserved_processes_is_counted_at_their_parent(tree, resolver):
    tree.put(50, uid=0, comm="make")
    resolver.snapshot()
    tree.put(50, children=250)
    resolver.snapshot()
    assert ticks(resolver, "proc:root/make") == 250


def test_time_of_observed_child_is_not_counted_again_at_its_parent(tree, resolver):
    tree.put(50, uid=0, comm="make")
    tree.put(51, uid=0, ppid=50, comm="cc", cpu=100)
    resolver.snapshot()
    tree.drop(51)
    tree.put(50, children=130)
    resolver.snapshot()
    assert (ticks(resolver, "proc:root/cc"), ticks(resolver, "proc:root/make")) == (130, 0), (
        "the rest belongs to the child, too"
    )


def test_child_that_ended_one_snapshot_before_its_parent_grew(tree, resolver):
    tree.put(50, uid=0, comm="make")
    tree.put(51, uid=0, ppid=50, comm="cc", cpu=100)
    resolver.snapshot()
    tree.drop(51)
    resolver.snapshot()
    tree.put(50, children=100)
    resolver.snapshot()
    assert (ticks(resolver, "proc:root/cc"), ticks(resolver, "proc:root/make")) == (100, 0)


@pytest.mark.parametrize("snapshots_between", [0, 1])
def test_time_of_child_observed_before_its_work_is_its_own(tree, resolver, snapshots_between):
    """A short run: known since its registration, and ended before the next snapshot without an end
    request.
    """
    tree.put(40, uid=1000, comm="labcarbon-colle")
    tree.put(50, ppid=40, cpu=0)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    tree.drop(50)
    for _ in range(snapshots_between):
        resolver.snapshot()
    tree.put(40, children=260)
    resolver.snapshot()
    resolver.end(RUN, 260 * tick_us())
    resolver.snapshot()
    assert (ticks(resolver, f"run:{RUN}"), ticks(resolver, "proc:1000/labcarbon-colle")) == (260, 0)


def test_the_time_of_a_later_child_is_not_that_of_an_earlier_one(tree, resolver):
    tree.put(40, uid=0, comm="make")
    tree.put(50, uid=0, ppid=40, comm="cc", cpu=0)
    resolver.snapshot()
    tree.drop(50)
    tree.put(40, children=10)
    resolver.snapshot()
    tree.put(40, children=30)
    resolver.snapshot()
    assert (ticks(resolver, "proc:root/cc"), ticks(resolver, "proc:root/make")) == (10, 20)


def test_an_orphan_reaped_by_init_does_not_make_init_busy(tree, resolver):
    tree.put(50, uid=0)
    tree.put(51, uid=0, ppid=50, comm="job", cpu=90_000)
    resolver.snapshot()
    tree.drop(50)
    tree.drop(51)
    tree.put(1, children=90_000)
    resolver.snapshot()
    assert ticks(resolver, "proc:root/init") == 0


def test_process_that_becomes_visible_late_adds_no_past_time(tree):
    resolver = ConsumerResolver(str(tree.root), now_ticks=lambda: 100_000)
    resolver.snapshot()
    tree.put(50, uid=0, comm="old", start=500, cpu=70_000)
    resolver.snapshot()
    assert ticks(resolver, "proc:root/old") == 0


def test_end_of_run_adds_time_of_short_processes(tree, resolver):
    tree.put(40, uid=1000, comm="labcarbon-colle")
    tree.put(50, ppid=40, cpu=0)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    tree.put(50, cpu=30)
    resolver.snapshot()
    resolver.end(RUN, 100 * tick_us())
    assert ticks(resolver, f"run:{RUN}") == 100
    tree.drop(50)
    tree.put(40, children=100)
    resolver.snapshot()
    assert ticks(resolver, f"run:{RUN}") == 100, (
        "the time by the wrapper's wait was already counted"
    )
    assert ticks(resolver, "proc:1000/labcarbon-colle") == 0


def test_end_with_less_time_removes_nothing(tree, resolver):
    tree.put(50)
    resolver.register(RUN, 50, 1000)
    tree.put(50, cpu=30)
    resolver.snapshot()
    resolver.end(RUN, 0)
    assert ticks(resolver, f"run:{RUN}") == 30


def test_absent_consumer_is_forgotten_and_others_are_not(tree, resolver, monkeypatch):
    monkeypatch.setattr("labcarbon_collect.processes.consumers._FORGET_INTERVAL", 10)
    tree.put(50, uid=0, comm="stays")
    tree.put(60, uid=0, comm="goes")
    resolver.snapshot()
    tree.put(50, cpu=30)
    tree.put(60, cpu=20)
    resolver.snapshot()
    tree.drop(60)
    for _ in range(8):
        resolver.snapshot()
    assert ticks(resolver, "proc:root/goes") == 20
    for _ in range(20):
        resolver.snapshot()
    assert "proc:root/goes" not in resolver.cpu_time_us_by_consumer()
    assert ticks(resolver, "proc:root/stays") == 30


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["work", "fork", "exit", "end"]), st.integers(50, 58), st.integers(0, 300)
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_time_never_falls_and_nothing_is_counted_twice(tmp_path_factory, steps):
    """For any history of a process tree: cumulative times only rise, their sum never exceeds the
    work.
    """
    tree = ProcTree(tmp_path_factory.mktemp("proc"))
    tree.put(1, ppid=0, comm="init", uid=0, start=1)
    tree.put(50, start=2)
    resolver = ConsumerResolver(str(tree.root), now_ticks=lambda: 0)
    resolver.snapshot()
    resolver.register(RUN, 50, 1000)
    alive, worked, clock, before = {50: (1, 0)}, 0, 10, {}
    children: dict[int, int] = {1: 0, 50: 0}
    for kind, pid, amount in steps:
        clock += 1
        if kind == "work" and pid in alive:
            ppid, cpu = alive[pid]
            alive[pid] = (ppid, cpu + amount)
            worked += amount
            tree.put(pid, cpu=cpu + amount)
        elif kind == "fork" and pid not in alive:
            ppid = amount % 9 + 50 if amount % 9 + 50 in alive else 1
            alive[pid], children[pid] = (ppid, 0), 0
            tree.put(pid, ppid=ppid, start=clock, cpu=0, children=0)
        elif kind == "exit" and pid in alive:
            ppid, cpu = alive.pop(pid)
            tree.drop(pid)
            for orphan, (parent, used) in list(alive.items()):
                if parent == pid:
                    alive[orphan] = (1, used)
                    tree.put(orphan, ppid=1)
            children[ppid] += cpu + children.pop(pid)
            tree.put(ppid, children=children[ppid])
        elif kind == "end":
            resolver.end(RUN, 0)
        resolver.snapshot()
        after = resolver.cpu_time_us_by_consumer()
        assert all(after[key] >= used for key, used in before.items())
        before = after
    assert sum(before.values()) <= worked * tick_us()
    assert sum(before.values()) == worked * tick_us(), (
        "every process was observed, so nothing is missing"
    )


def test_prepaid_time_is_deducted_one_time():
    tally = CpuAccount()
    tally.add("run:a", 10)
    tally.raise_to("run:a", 25)
    tally.add("run:a", 10)
    tally.add("run:a", 10)
    assert tally.ticks == {"run:a": 30}
