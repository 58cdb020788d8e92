"""Jobs, pods and containers by the cgroup paths that real managers make."""

from __future__ import annotations

import pytest
from labcarbon_collect.cgroups import cluster_name, consumer_of_cgroup

ID = "4e5d" * 16
UID = "0f3c9a51-7b1e-4c1a-9d7e-1234567890ab"
POD_SLICE = "kubepods-burstable-pod" + UID.replace("-", "_") + ".slice"

CASES = {
    "slurm v1": ("4:memory:/slurm/uid_1000/job_981/step_0/task_0", "job:hpc/981"),
    "slurm v1, node name": ("11:cpuset:/slurm_node7/uid_1000/job_981/step_batch", "job:hpc/981"),
    "slurm v2": ("0::/system.slice/slurmstepd.scope/job_981/step_0/user/task_0", "job:hpc/981"),
    "slurm v2, several slurmd": ("0::/system.slice/node7_slurmstepd.scope/job_981/step_extern", "job:hpc/981"),
    "docker v1": (f"9:pids:/docker/{ID}", f"container:{ID}"),
    "docker v2": (f"0::/system.slice/docker-{ID}.scope", f"container:{ID}"),
    "docker rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope", f"container:{ID}"
    ),
    "podman": (f"0::/machine.slice/libpod-{ID}.scope/container", f"container:{ID}"),
    "podman rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container", f"container:{ID}"
    ),
    "podman v1": (f"3:cpu:/libpod_parent/libpod-{ID}", f"container:{ID}"),
    "nerdctl": (f"0::/system.slice/nerdctl-{ID}.scope", f"container:{ID}"),
    "containerd": (f"0::/system.slice/cri-containerd-{ID}.scope", f"container:{ID}"),
    "ctr": (f"0::/default/{ID}", f"container:{ID}"),
    "cri-o": (f"0::/system.slice/crio-{ID}.scope", f"container:{ID}"),
    "lxc": ("0::/lxc.payload.web/system.slice", "container:web"),
    "pod v1": (f"8:cpu:/kubepods/burstable/pod{UID}/{ID}", f"pod:hpc/-/{UID}"),
    "pod v1 guaranteed": (f"8:cpu:/kubepods/pod{UID}/{ID}", f"pod:hpc/-/{UID}"),
    "pod systemd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}/cri-containerd-{ID}.scope", f"pod:hpc/-/{UID}"
    ),
    "pod in kind": (
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-{POD_SLICE}/cri-containerd-{ID}.scope", f"pod:hpc/-/{UID}"
    ),
    "job beats container": (f"5:cpu:/docker/{ID}\n4:memory:/slurm/uid_1/job_7/step_0", "job:hpc/7"),
    "ordinary": ("0::/user.slice/user-1000.slice/session-3.scope", ""),
    "service": ("0::/system.slice/sshd.service", ""),
    "podman's own monitor": (f"0::/machine.slice/libpod-conmon-{ID}.scope", ""),
    "hidden": ("", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_consumer_by_cgroup(case, tmp_path):
    text, key = CASES[case]
    assert consumer_of_cgroup(text, "hpc", str(tmp_path)) == key


@pytest.mark.parametrize(
    "path",
    [
        "/user.slice/user-1000.slice/user@1000.service/slurm/uid_1001/job_5",
        "/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_5",
        "/user.slice/user-1000.slice/user@1000.service/job_5",
        f"/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}",
    ],
)
def test_a_user_cannot_become_a_job_or_pod_by_naming_a_cgroup(path):
    assert consumer_of_cgroup(f"0::{path}", "hpc") == ""


def test_a_pods_names_come_from_the_kubelets_log_folders(tmp_path):
    (tmp_path / f"vision_train-7_{UID}").mkdir()
    (tmp_path / "other_pod_00000000-0000-0000-0000-000000000000").mkdir()
    text = f"0::/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}/cri-containerd-{ID}.scope"
    assert consumer_of_cgroup(text, "hpc", str(tmp_path)) == "pod:hpc/vision/train-7"


def test_the_clusters_name_stands_in_slurms_configuration(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("# a comment\nSlurmUser=slurm\nClusterName = aurora # the old one\n")
    assert cluster_name(str(conf)) == "aurora"
    assert cluster_name(str(tmp_path / "none")) is None
