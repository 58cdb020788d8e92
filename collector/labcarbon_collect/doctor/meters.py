"""Checks of meters and visibility: GPU driver, RAPL, persistence, MIG, /proc, cgroups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.config import client_sockets
from labcarbon_collect.doctor.base import Check, register_check
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.processes.procfs import read_stat
from labcarbon_collect.sources.base import DeviceInfo, SourceAbsent, SourceFailed
from labcarbon_collect.sources.nvidia.driver import nvidia_functions
from labcarbon_collect.sources.nvidia.source import NvmlSource
from labcarbon_collect.sources.rapl import RaplSource

# Inode of the initial PID namespace (PROC_PID_INIT_INO). A container has another one.
_MACHINE_PID_NAMESPACE = "pid:[4026531836]"


@register_check("nvml")
def nvml_check(sys_root: str = "/sys") -> Check:
    """Check whether and how GPUs can be measured."""
    source = NvmlSource("doctor", {}, sys_root=sys_root, threaded=False)
    try:
        devices = source.open()
        lost = [f"{each.name}: {each.reason}" for each in source.problems()]
    except SourceAbsent as error:
        has_driver_files = bool(nvidia_functions(sys_root)) or os.path.exists("/dev/nvidiactl")
        is_absent = "libnvidia-ml" in error.reason and not has_driver_files
        return Check("nvml", "absent" if is_absent else "bad", error.reason, error.fix)
    except SourceFailed as error:
        return Check("nvml", "warn", str(error))
    finally:
        source.close()
    summary = "; ".join(f"{info.name}: {_measurement_text(info)}" for info in devices)
    if source.sleeping:
        asleep = ", ".join(folder.name for folder in source.sleeping)
        summary = "; ".join(
            filter(None, [summary, f"asleep, measured as soon as it is used: {asleep}"])
        )
    if lost:
        return Check(
            "nvml",
            "bad",
            f"{summary}; not responding: {', '.join(lost)}",
            "nvidia-smi -q; dmesg | grep -i xid; reset or replace the GPU",
        )
    if source.unmeasured:
        return Check(
            "nvml",
            "warn",
            (
                f"{summary}; not measurable: {', '.join(source.unmeasured)} (no energy and no "
                "power, as usual for a vGPU)"
            ),
            "install the collector on the host that owns the physical GPU",
        )
    return Check("nvml", "ok", summary)


@register_check("devices")
def devices_check(environ: Optional[Mapping[str, str]] = None) -> Check:
    """Ask the running daemon for GPUs that are lost, silent or measured without their counter."""
    client = Client(client_sockets(os.environ if environ is None else environ), timeout_s=5.0)
    try:
        status = client.call({"op": "status"}, timeout_s=5.0)
    except DaemonUnavailable:
        return Check("devices", "absent", "no daemon runs here, so no GPU is watched")
    finally:
        client.close()
    return device_problems_check(status.get("device_problems") or ())


def device_problems_check(problems: Sequence[Mapping[str, Any]]) -> Check:
    """Return the check of the daemon's device problems."""
    if not problems:
        return Check("devices", "ok", "the daemon has no problem with a GPU")
    summary = "; ".join(
        f"{each['device'] or each['name']} is "
        f"{'measured by its power' if each['state'] == 'power' else each['state']}: "
        f"{each['reason']}"
        for each in problems
    )
    is_lost = any(each["state"] != "power" for each in problems)
    return Check(
        "devices",
        "bad" if is_lost else "warn",
        summary,
        "nvidia-smi -q; dmesg | grep -i xid; reset or replace the GPU",
    )


def _measurement_text(info: DeviceInfo) -> str:
    return (
        "energy counter"
        if info.measurement == "nvml_counter"
        else "no energy counter, power is sampled"
    )


@register_check("gpu_processes")
def gpu_processes_check(sys_root: str = "/sys") -> Check:
    """Check whether the driver lists the processes on the GPUs."""
    name = "gpu_processes"
    source = NvmlSource("doctor", {}, sys_root=sys_root, threaded=False)
    try:
        source.open()
        readings = source.poll(source.now, with_processes=True)
    except (SourceAbsent, SourceFailed) as error:
        return Check(name, "absent", f"no GPU available: {error}")
    finally:
        source.close()
    hidden = [reading.device for reading in readings if reading.processes is None]
    if hidden:
        return Check(
            name,
            "warn",
            (
                f"the driver does not list the processes on {', '.join(hidden)}: their energy is "
                "`unknown`"
            ),
            (
                "in a container: start it with --pid=host; on a vGPU: install the collector on "
                "the physical host"
            ),
        )
    return Check(name, "ok", "the driver lists the processes on every GPU")


@register_check("persistence")
def persistence_check(sys_root: str = "/sys") -> Check:
    """Check persistence mode. Without it the driver may unload between jobs, which resets the
    energy counter.
    """
    gpus = _list_gpus(sys_root)
    if not gpus:
        return Check("persistence", "absent", "no GPU available")
    off = [info.name for info in gpus if info.facts.get("persistence_mode") == "off"]
    asleep = [info.name for info in gpus if info.facts.get("runtime_power_management") == "on"]
    if asleep:
        return Check(
            "persistence",
            "ok",
            (
                f"{', '.join(asleep)} may suspend and is not woken; while awake, a query per "
                "second may delay its suspension"
            ),
        )
    if off:
        return Check(
            "persistence",
            "warn",
            f"persistence mode is off on {', '.join(off)}: the energy counter may restart while "
            "the GPU is unused, "
            "and the energy in between becomes a declared gap",
            "systemctl enable --now nvidia-persistenced (or: nvidia-smi -pm 1)",
        )
    return Check("persistence", "ok", "the driver stays loaded between jobs")


@register_check("mig")
def mig_check(sys_root: str = "/sys") -> Check:
    """Check whether GPUs are divided into MIG instances."""
    partitioned = [info for info in _list_gpus(sys_root) if "mig" in info.facts]
    if not partitioned:
        return Check("mig", "absent", "no GPU is divided into MIG instances")
    empty = [info.name for info in partitioned if info.facts["mig"] == "no instances"]
    summary = "; ".join(f"{info.name}: {info.facts['mig']}" for info in partitioned)
    if empty:
        return Check(
            "mig",
            "warn",
            f"MIG is on without instances on {', '.join(empty)}",
            "nvidia-smi mig -cgi <profile> -C",
        )
    return Check(
        "mig",
        "ok",
        (
            f"{summary}; the board is measured, its energy is divided by used slices (±25 % of a "
            "share)"
        ),
    )


@register_check("rapl")
def rapl_check(environ: Optional[Mapping[str, str]] = None) -> Check:
    """Check whether CPU packages and memory can be measured."""
    source = RaplSource("doctor", os.environ if environ is None else environ)
    try:
        domains = source.open()
    except SourceAbsent as error:
        is_absent = error.reason.startswith("no RAPL domain")
        return Check("rapl", "absent" if is_absent else "bad", error.reason, error.fix)
    summary = ", ".join(
        info.key.split(":")[0] + " " + info.key.rpartition("/")[2] for info in domains
    )
    if any("left out" in message for message in source.notes):
        return Check(
            "rapl", "warn", f"{summary}; " + "; ".join(source.notes), "ls -l /sys/class/powercap/*/"
        )
    return Check("rapl", "ok", "; ".join([summary, *source.notes]))


@register_check("hidepid")
def hidepid_check(proc_root: str = "/proc") -> Check:
    """Check whether other users' processes are visible. The energy of hidden ones is
    ``unknown``.
    """
    options = _mount_options(proc_root)
    hidden = next(
        (
            option
            for option in options
            if option.startswith("hidepid=") and option not in ("hidepid=0", "hidepid=off")
        ),
        "",
    )
    if read_stat(proc_root, 1) is not None:
        return Check(
            "hidepid", "ok", f"all processes are visible{f' despite {hidden}' if hidden else ''}"
        )
    return Check(
        "hidepid",
        "warn",
        (
            f"/proc is mounted with {hidden or 'hidepid'}: other users' processes are hidden, "
            "their energy is `unknown`"
        ),
        (
            "mount -o remount,hidepid=2,gid=labcarbon /proc (and the same gid= in /etc/fstab); "
            "the daemon's group is labcarbon"
        ),
    )


@register_check("pid_namespace")
def pid_namespace_check(proc_root: str = "/proc") -> Check:
    """Check the PID namespace. In a container of its own the collector sees only its processes."""
    try:
        namespace = os.readlink(f"{proc_root}/self/ns/pid")
    except OSError as error:
        return Check("pid_namespace", "absent", f"the kernel has no PID namespaces: {error}")
    if namespace == _MACHINE_PID_NAMESPACE:
        return Check("pid_namespace", "ok", "the collector sees all processes of this node")
    return Check(
        "pid_namespace",
        "warn",
        "the collector runs in a container: processes outside are measured but `unknown`",
        "start the container with --pid=host",
    )


@register_check("cgroups")
def cgroups_check(cgroup_root: str = "/sys/fs/cgroup", proc_root: str = "/proc") -> Check:
    """Check whether jobs, pods and containers have cgroups."""
    try:
        own = Path(proc_root, "self/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        own = ""
    if not own:
        return Check(
            "cgroups",
            "warn",
            "this kernel has no cgroups: Slurm jobs, pods and containers cannot be distinguished",
            "labcarbon-collect run -- CMD registers a run without them",
        )
    version = "v2" if Path(cgroup_root, "cgroup.controllers").exists() else "v1"
    return Check(
        "cgroups", "ok", f"cgroup {version}: Slurm jobs, pods and containers are identified by path"
    )


def _list_gpus(sys_root: str) -> Sequence[DeviceInfo]:
    source = NvmlSource("doctor", {}, sys_root=sys_root, threaded=False)
    try:
        return source.open()
    except (SourceAbsent, SourceFailed):
        return ()
    finally:
        source.close()


def _mount_options(proc_root: str) -> Tuple[str, ...]:
    """Return the mount options of /proc."""
    try:
        lines = (
            Path(proc_root, "self/mounts")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()
        )
    except OSError:
        return ()
    for line in lines:
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc" and fields[2] == "proc":
            return tuple(fields[3].split(","))
    return ()
