"""Jobs, pods and containers by cgroup path (v1 and v2). Pure except for the names of pods and
users.

Only path components that root created are trusted. Users can create cgroups in their own slice, in
a service delegated to them, and in the scope of a session. A chosen name there must not yield a
job, pod or container. The key of a container from a user's own engine starts with the user.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

from labcarbon_collect.pseudonyms import DROPPED, KEEP, KEEP_NAMES, UserNames, user_name_of

# Slurm. v1: /slurm/uid_1000/job_17/step_0; v2: /system.slice/slurmstepd.scope/job_17/step_0
# (several slurmd on a node put their name before slurmstepd).
_JOB = re.compile(
    r"^/(?:slurm[^/]*/uid_\d+|system\.slice/(?:[^/]+_)?slurmstepd\.scope)/job_(\d+)(?:/|$)"
)
_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf", "/var/spool/slurm/conf-cache/slurm.conf",
)  # fmt: skip
_HEX_ID = r"[0-9a-f]{64}"
# Path components with a pod's UID. cgroupfs driver: pod<uid> below kubepods. systemd driver:
# underscores for the dashes of the uid. containerd with mixed drivers: both in one component, with
# colons. The uid of a static pod is a bare hash.
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD_FOLDER = re.compile(rf"^pod({_UID})$")
_POD_SLICE = re.compile(
    rf"^(?:[\w-]+-)?kubepods-(?:\w+-)?pod({_UID})\.slice(?::[\w-]+:[0-9a-f]+)?$"
)
_PODS = re.compile(r"^(?:kubepods|[\w-]*kubepods(?:-\w+)?\.slice)$")
_SCOPE = re.compile(
    rf"^(?:docker|libpod|cri-containerd|containerd|nerdctl|crio)-({_HEX_ID})(?:\.scope)?$"
)
_COLONS = re.compile(
    rf"^[\w.-]+:(?:docker|cri-containerd|containerd|crio|nerdctl|libpod):({_HEX_ID})$"
)
_ID = re.compile(rf"^(?:libpod-)?({_HEX_ID})$")
_PODMAN_PAYLOAD = re.compile(
    rf"^libpod-payload-{_HEX_ID}$"
)  # podman in a systemd unit: the unit, named by root, is the container
_LXC = re.compile(r"^/(?:lxc/|lxc\.payload[./])([^/]+)")
_NSPAWN = re.compile(r"^/machine\.slice/systemd-nspawn@([^/]+)\.service(?:/|$)")
_USER_SLICE = re.compile(r"^/user\.slice/user-(\d+)\.slice/")
_SYSTEM = re.compile(r"^/(?:system\.slice/|init\.scope(?:/|$))")
# Components below these belong to an engine. Below any other service or scope, its processes can
# name them.
_ENGINES = re.compile(
    r"^(?:containerd|docker|k3s|k3s-agent|kubelet|crio|cri-o|rke2-server|rke2-agent|k0scontroller|"
    r"k0sworker|buildkit"
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
    """Return the consumer key for the text of /proc/<pid>/cgroup, "" for an ordinary process.

    A job takes precedence over a pod, a pod over a container, in any hierarchy. ``user_of`` returns
    the system's name of a uid. Names that may belong to people follow the setting ``users``. A
    pod's name may contain one and is used in ``keep`` mode only.
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


def is_system_cgroup(text: str, first_uid: int) -> bool:
    """Return whether the text of /proc/<pid>/cgroup is that of a service of the machine, or of a
    session of a system account, such as a login screen.

    A session of root is work of a person. Without systemd, nothing is a service.
    """
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]
    owners = [int(match.group(1)) for match in map(_USER_SLICE.match, paths) if match]
    if owners:
        return all(0 < uid < first_uid for uid in owners)
    return any(_SYSTEM.match(path) for path in paths)


def _pod_uid(path: str) -> Optional[str]:
    """Return the UID of the pod if the kubelet of root created the path."""
    below_pods = False
    for component, trusted in _trusted_components(path):
        if not trusted:
            return None
        match = _POD_SLICE.match(component) or (
            _POD_FOLDER.match(component) if below_pods else None
        )
        if match:
            return match.group(1)
        below_pods = below_pods or bool(_PODS.match(component))
    return None


def _container(path: str, users: UserNames, user_of: Callable[[int], str]) -> str:
    """Return the outermost container: its id, ``<user>/<id>`` for a user's own engine, or its
    public name.
    """
    machine = _LXC.match(path) or _NSPAWN.match(path)
    if machine:
        return users.public_name(_printable(machine.group(1)))
    owner = _USER_SLICE.match(path)
    previous, service = "", ""
    for component, trusted in _trusted_components(path):
        if trusted or owner:
            match = _SCOPE.match(component) or _COLONS.match(component) or _ID.match(component)
            if match:
                return (
                    f"{users.public_name(user_of(int(owner.group(1))))}/{match.group(1)}"
                    if owner
                    else match.group(1)
                )
        if _PODMAN_PAYLOAD.match(component) and previous.endswith(".service"):
            # The id in a user's own service is chosen by the user, so the key starts with the user.
            if owner:
                return (
                    f"{users.public_name(user_of(int(owner.group(1))))}/"
                    f"{component[len('libpod-payload-') :]}"
                )
            return users.public_name(_printable(service))
        service = component if not service and component.endswith(".service") else service
        previous = component
    return ""


def _trusted_components(path: str) -> Iterator[Tuple[str, bool]]:
    """Yield the components of a path, each with whether only root could name it."""
    trusted = True
    for component in path.split("/")[1:]:
        if component == "user.slice":
            trusted = False
        yield component, trusted
        if component == "lxc" or component.startswith("lxc.payload"):
            trusted = False  # a complete system with a root of its own
        engine = _ENGINES.match(component) or _SCOPE.match(component)
        if component.endswith((".service", ".scope")) and not engine:
            trusted = False


def _pod_key(uid: str, cluster: str, pod_logs: str, *, with_names: bool) -> str:
    """Return ``pod:<cluster>/<namespace>/<pod>``. The path contains the uid only. The kubelet's log
    folders contain the names.
    """
    for name in _list_names(pod_logs):
        parts = name.split("_")  # names of namespaces and pods contain no underscore
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
    """Return Slurm's ClusterName, None without a readable configuration."""
    try:
        with open(slurm_conf, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition("=")
                if name.strip().lower() == "clustername":
                    return (
                        value.split("#")[0].strip().lower() or None
                    )  # Slurm stores it in lower case
    except OSError:
        pass
    return None


def local_cluster(environ: Mapping[str, str]) -> str:
    """Return this node's cluster as Slurm's accounting spells it, "" without a readable
    configuration.
    """
    for path in filter(None, (environ.get("SLURM_CONF"), *_CONFIGURATIONS)):
        name = cluster_name(path)
        if name:
            return name
    return ""
