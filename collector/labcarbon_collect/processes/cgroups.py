"""Which job, pod or container a process belongs to, by its cgroup path (v1 and v2). Pure but for names of pods and users.

A path counts only as far as root made it. Users may make cgroups in their own slice, in a service that was delegated to
them, and in a session's scope, and must not become somebody's job, pod or container by naming one so. Containers that a
user's own engine made are that user's: their key begins with the user.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

from labcarbon_collect.pseudonyms import DROPPED, KEEP, KEEP_NAMES, UserNames, user_name_of

# Slurm. v1: /slurm/uid_1000/job_17/step_0; v2: /system.slice/slurmstepd.scope/job_17/step_0 (several slurmd on a
# node put their name before slurmstepd).
_JOB = re.compile(r"^/(?:slurm[^/]*/uid_\d+|system\.slice/(?:[^/]+_)?slurmstepd\.scope)/job_(\d+)(?:/|$)")
_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf", "/var/spool/slurm/conf-cache/slurm.conf",
)  # fmt: skip
_HEX_ID = r"[0-9a-f]{64}"
# Components of a path that hold a pod's UID. cgroupfs driver: pod<uid> below kubepods; systemd driver: the uid's dashes
# as underscores; containerd with mixed drivers: both in one component, with colons. A static pod's uid is a bare hash.
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD_FOLDER = re.compile(rf"^pod({_UID})$")
_POD_SLICE = re.compile(rf"^(?:[\w-]+-)?kubepods-(?:\w+-)?pod({_UID})\.slice(?::[\w-]+:[0-9a-f]+)?$")
_PODS = re.compile(r"^(?:kubepods|[\w-]*kubepods(?:-\w+)?\.slice)$")
_SCOPE = re.compile(rf"^(?:docker|libpod|cri-containerd|containerd|nerdctl|crio)-({_HEX_ID})(?:\.scope)?$")
_COLONS = re.compile(rf"^[\w.-]+:(?:docker|cri-containerd|containerd|crio|nerdctl|libpod):({_HEX_ID})$")
_ID = re.compile(rf"^(?:libpod-)?({_HEX_ID})$")
_PODMAN_PAYLOAD = re.compile(rf"^libpod-payload-{_HEX_ID}$")  # podman in a systemd unit: the unit is named, root named it
_LXC = re.compile(r"^/(?:lxc/|lxc\.payload[./])([^/]+)")
_NSPAWN = re.compile(r"^/machine\.slice/systemd-nspawn@([^/]+)\.service(?:/|$)")
_USER_SLICE = re.compile(r"^/user\.slice/user-(\d+)\.slice/")
# Below these, components are an engine's; below any other service or scope, whoever runs in it may have named them.
_ENGINES = re.compile(
    r"^(?:containerd|docker|k3s|k3s-agent|kubelet|crio|cri-o|rke2-server|rke2-agent|k0scontroller|k0sworker|buildkit"
    r"|snap\.microk8s\.daemon-(?:kubelite|containerd)|snap\.docker\.dockerd)\.service$"
)


def cgroup_consumer(
    text: str,
    cluster: str,
    pod_logs: str = "/var/log/pods",
    *,
    users: UserNames = KEEP_NAMES,
    user_of: Callable[[int], str] = user_name_of,
) -> str:
    """Consumer key for the text of /proc/<pid>/cgroup; "" where it is an ordinary process.

    A job beats a pod, a pod a container, in whatever hierarchy each is found. ``user_of``: the system's name of a uid;
    names that may be people's are told as ``users`` says, and a pod's name, which may hold one, is told in ``keep`` only.
    """
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]
    for path in paths:
        job = _JOB.match(path)
        if job:
            return f"job:{cluster}/{job.group(1)}"
    for path in paths:
        uid = _pod_uid(path)
        if uid:
            return _pod_key(uid.replace("_", "-"), cluster, pod_logs, with_names=users.mode == KEEP)
    for path in paths:
        container = _container(path, users, user_of)
        if container:
            return f"container:{container}"
    return ""


def _pod_uid(path: str) -> Optional[str]:
    """The UID of the pod, if root's kubelet made the path."""
    below_pods = False
    for component, trusted in _trusted_components(path):
        if not trusted:
            return None
        match = _POD_SLICE.match(component) or (_POD_FOLDER.match(component) if below_pods else None)
        if match:
            return match.group(1)
        below_pods = below_pods or bool(_PODS.match(component))
    return None


def _container(path: str, users: UserNames, user_of: Callable[[int], str]) -> str:
    """The outermost container: its id, ``<user>/<id>`` for a user's own engine, or its told name."""
    machine = _LXC.match(path) or _NSPAWN.match(path)
    if machine:
        return users.public_name(_printable(machine.group(1)))
    owner = _USER_SLICE.match(path)
    previous, service = "", ""
    for component, trusted in _trusted_components(path):
        if trusted or owner:
            match = _SCOPE.match(component) or _COLONS.match(component) or _ID.match(component)
            if match:
                return f"{users.public_name(user_of(int(owner.group(1))))}/{match.group(1)}" if owner else match.group(1)
        if _PODMAN_PAYLOAD.match(component) and previous.endswith(".service"):
            # In a user's own service too, the id would be the user's word: the user, or root's name for the unit, counts.
            if owner:
                return f"{users.public_name(user_of(int(owner.group(1))))}/{component[len('libpod-payload-') :]}"
            return users.public_name(_printable(service))
        service = component if not service and component.endswith(".service") else service
        previous = component
    return ""


def _trusted_components(path: str) -> Iterator[Tuple[str, bool]]:
    """The components of a path, each with whether root alone could name it."""
    trusted = True
    for component in path.split("/")[1:]:
        if component == "user.slice":
            trusted = False
        yield component, trusted
        if component == "lxc" or component.startswith("lxc.payload"):
            trusted = False  # a whole system of somebody's own
        engine = _ENGINES.match(component) or _SCOPE.match(component)
        if component.endswith((".service", ".scope")) and not engine:
            trusted = False


def _pod_key(uid: str, cluster: str, pod_logs: str, *, with_names: bool) -> str:
    """``pod:<cluster>/<namespace>/<pod>``. The path tells only the uid; the kubelet's log folders tell the names."""
    for name in _list_names(pod_logs):
        parts = name.split("_")  # neither a namespace nor a pod may hold an underscore
        if len(parts) == 3 and parts[2] == uid:
            return f"pod:{cluster}/{parts[0]}/{parts[1] if with_names else uid}"
    return f"pod:{cluster}/{DROPPED}/{uid}"


def _list_names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]


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


def local_cluster(environ: Mapping[str, str]) -> str:
    """The cluster this node belongs to, as Slurm's accounting writes it; "" where there is no configuration to read."""
    for path in filter(None, (environ.get("SLURM_CONF"), *_CONFIGURATIONS)):
        name = cluster_name(path)
        if name:
            return name
    return ""
