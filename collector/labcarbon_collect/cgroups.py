"""Which job, pod or container a process belongs to, by its cgroup path (v1 and v2). Pure but for the pod's name.

Paths are anchored where only root can make a cgroup: a user may name one in their own slice ``job_17``, and must not
become somebody's job by that.
"""

from __future__ import annotations

import os
import re
from typing import Mapping, Optional

# Slurm. v1: /slurm/uid_1000/job_17/step_0; v2: /system.slice/slurmstepd.scope/job_17/step_0 (several slurmd on a
# node put their name before slurmstepd).
_JOB = re.compile(r"^/(?:slurm[^/]*/uid_\d+|system\.slice/(?:[^/]+_)?slurmstepd\.scope)/job_(\d+)(?:/|$)")
# Kubernetes, cgroupfs driver: /kubepods/burstable/pod<uid>/<id>; systemd driver: dashes of the uid as underscores.
_POD = re.compile(
    r"^/(?!user\.slice/)(?:[^/]+/)*?(?:kubepods|[^/]*kubepods[^/]*\.slice)(?:/[^/]+)*?"
    r"/[^/]*?pod([0-9a-f]{8}[-_0-9a-f]{24,28})"
)
_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf", "/var/spool/slurm/conf-cache/slurm.conf",
)  # fmt: skip
_HEX_ID = r"[0-9a-f]{64}"
_SCOPE = re.compile(rf"/(?:docker|libpod|cri-containerd|containerd|nerdctl|crio)-({_HEX_ID})\.scope(?:/|$)")
_FOLDER = re.compile(
    rf"/(?:docker|libpod|libpod_parent|containerd|default|k8s\.io|moby|machine|actions_job)/(?:libpod-)?({_HEX_ID})(?:/|$)"
)
_NAMED = re.compile(r"^/lxc(?:\.payload)?[./]([^/]+)")


def consumer_of_cgroup(text: str, cluster: str, pod_logs: str = "/var/log/pods") -> str:
    """Consumer key for the text of /proc/<pid>/cgroup; "" where it is an ordinary process.

    A job beats a pod, a pod a container, in whatever hierarchy each is found.
    """
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]
    for path in paths:
        job = _JOB.match(path)
        if job:
            return f"job:{cluster}/{job.group(1)}"
    for path in paths:
        pod = _POD.match(path)
        if pod:
            return _pod_key(pod.group(1).replace("_", "-"), cluster, pod_logs)
    for path in paths:
        container = _SCOPE.search(path) or _FOLDER.search(path) or _NAMED.match(path)
        if container:
            return f"container:{container.group(1)}"
    return ""


def _pod_key(uid: str, cluster: str, pod_logs: str) -> str:
    """``pod:<cluster>/<namespace>/<pod>``. The path tells only the uid; the kubelet's log folders tell the names."""
    try:
        names = os.listdir(pod_logs)
    except OSError:
        names = []
    for name in names:
        parts = name.split("_")  # neither a namespace nor a pod may hold an underscore
        if len(parts) == 3 and parts[2] == uid:
            return f"pod:{cluster}/{parts[0]}/{parts[1]}"
    return f"pod:{cluster}/-/{uid}"


def cluster_name(slurm_conf: str = "/etc/slurm/slurm.conf") -> Optional[str]:
    """Slurm's ClusterName, or None where there is no readable configuration."""
    try:
        with open(slurm_conf, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition("=")
                if name.strip().lower() == "clustername":
                    return value.split("#")[0].strip().lower() or None  # as Slurm itself keeps it
    except OSError:
        pass
    return None


def this_cluster(environ: Mapping[str, str]) -> str:
    """The cluster this node belongs to, as Slurm's accounting writes it; "" where there is no configuration to read."""
    for path in filter(None, (environ.get("SLURM_CONF"), *_CONFIGURATIONS)):
        name = cluster_name(path)
        if name:
            return name
    return ""
