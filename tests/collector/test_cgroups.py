"""Jobs, pods and containers by cgroup paths of real managers, and by imitations created by users.

The paths are in cgroup_paths.csv. A bar is the end of a line of /proc/<pid>/cgroup.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from labcarbon_collect.processes.cgroups import cgroup_consumer, cluster_name
from labcarbon_collect.processes.consumers import ConsumerResolver
from labcarbon_collect.pseudonyms import DROP, HASH, UserNames

from tests.fakes.proc_tree import ProcTree

ID = "4e5d" * 16
UID = "0f3c9a51-7b1e-4c1a-9d7e-1234567890ab"
POD_SLICE = "kubepods-burstable-pod" + UID.replace("-", "_") + ".slice"
POD = f"0::/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}/cri-containerd-{ID}.scope"
ROOTLESS = (
    f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container"
)
NAMES = {1000: "ana", 1001: "ben"}
with Path(__file__).with_name("cgroup_paths.csv").open(encoding="utf-8", newline="") as table:
    RECORDED = {
        origin: (path.replace("|", "\n"), key) for origin, path, key in list(csv.reader(table))[1:]
    }


@pytest.mark.parametrize("origin", RECORDED)
def test_consumer_by_cgroup(origin, tmp_path):
    text, key = RECORDED[origin]
    assert cgroup_consumer(text, "hpc", str(tmp_path), user_of=NAMES.__getitem__) == key


def test_table_has_enough_paths():
    assert len(RECORDED) >= 25
    assert sum(origin.startswith("HOSTILE") for origin in RECORDED) >= 8


@pytest.mark.parametrize("origin", [name for name in RECORDED if name.startswith("HOSTILE")])
def test_path_named_by_a_user_is_never_trusted(origin, tmp_path):
    """No hostile path yields a key of an honest one: jobs, pods, and containers without a user in
    the key.
    """
    honest = {key for name, (_, key) in RECORDED.items() if not name.startswith("HOSTILE") and key}
    own_paths = {f"container:{name}/" for name in NAMES.values()}
    text, _ = RECORDED[origin]
    key = cgroup_consumer(text, "hpc", str(tmp_path), user_of=NAMES.__getitem__)
    assert key not in honest or any(key.startswith(own) for own in own_paths)


def test_a_pods_namespace_and_name_come_from_the_kubelets_log_folders(tmp_path):
    (tmp_path / f"vision_train-7_{UID}").mkdir()
    (tmp_path / "other_pod_00000000-0000-0000-0000-000000000000").mkdir()
    (tmp_path / "lost+found").mkdir()
    assert cgroup_consumer(POD, "hpc", str(tmp_path)) == "pod:hpc/vision/train-7"


def test_names_of_static_pod_are_resolved_by_its_hash(tmp_path):
    (tmp_path / ("kube-system_etcd-n1_" + "ab" * 16)).mkdir()
    path = f"0::/kubepods/burstable/pod{'ab' * 16}/{ID}"
    assert cgroup_consumer(path, "hpc", str(tmp_path)) == "pod:hpc/kube-system/etcd-n1"


def test_without_readable_log_folders_a_pod_is_its_uid(tmp_path):
    assert cgroup_consumer(POD, "hpc", str(tmp_path / "none")) == f"pod:hpc/-/{UID}"
    (tmp_path / "file").write_text("")
    assert cgroup_consumer(POD, "hpc", str(tmp_path / "file")) == f"pod:hpc/-/{UID}"


@pytest.mark.parametrize("users", [UserNames(HASH, b"k" * 32), UserNames(DROP)])
def test_names_that_may_be_peoples_follow_the_setting_and_the_namespace_stays(tmp_path, users):
    (tmp_path / f"vision_jupyter-ana_{UID}").mkdir()
    masked = users.public_name("ana")
    assert cgroup_consumer(POD, "hpc", str(tmp_path), users=users) == f"pod:hpc/vision/{UID}"
    rootless = cgroup_consumer(
        ROOTLESS, "hpc", str(tmp_path), users=users, user_of=NAMES.__getitem__
    )
    assert rootless == f"container:{masked}/{ID}"
    assert (
        cgroup_consumer("0::/lxc.payload.ana", "hpc", str(tmp_path), users=users)
        == f"container:{masked}"
    )


def test_process_in_a_pod_belongs_to_the_pod_for_any_user(tmp_path):
    (tmp_path / f"vision_train-7_{UID}").mkdir()
    tree = ProcTree(tmp_path / "proc")
    tree.put(50, uid=0, cgroup=POD)
    tree.put(51, ppid=50, uid=4_000_000, cgroup=POD + "/child")
    resolver = ConsumerResolver(
        str(tree.root), cluster="hpc", pod_logs=str(tmp_path), now_ticks=lambda: 0
    )
    resolver.snapshot()
    assert {resolver.consumer_of(50), resolver.consumer_of(51)} == {"pod:hpc/vision/train-7"}


def test_cluster_name_is_read_from_the_slurm_configuration(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("# a comment\nSlurmUser=slurm\nClusterName = aurora # the old one\n")
    assert cluster_name(str(conf)) == "aurora"
    assert cluster_name(str(tmp_path / "none")) is None
