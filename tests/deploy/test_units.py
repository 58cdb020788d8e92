"""The shipped systemd units: understood by systemd, closed as far as measuring allows, and the
RAPL rule does its work.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
COLLECT = DEPLOY / "labcarbon-collect.service"
SERVER = DEPLOY / "labcarbon@.service"
RULE = DEPLOY / "labcarbon.tmpfiles.conf"

systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="left out: systemd is not installed (apt-get install systemd)",
)
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="left out: only root can give files to a group"
)


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"(?m)^([A-Za-z]+)=(.*)$", unit.read_text(encoding="utf-8")):
        found.setdefault(name, []).append(value)
    return found


def verify(unit: Path, folder: Path) -> str:
    """Return what systemd has to say of a unit whose programs exist."""
    text = re.sub(r"(?m)^(ExecStart=)\S+", r"\1/bin/true", unit.read_text(encoding="utf-8"))
    copy = folder / unit.name.replace("@", "@web")
    copy.write_text(text, encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    return "\n".join(
        line for line in (ended.stdout + ended.stderr).splitlines() if copy.name in line
    )


@systemd
@pytest.mark.parametrize("unit", [COLLECT, SERVER], ids=lambda path: path.name)
def test_systemd_understands_every_line(unit: Path, tmp_path: Path) -> None:
    assert verify(unit, tmp_path) == ""


@systemd
def test_a_misspelt_line_is_detected(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong" / "labcarbon-collect.service"
    wrong.parent.mkdir()
    wrong.write_text(
        COLLECT.read_text(encoding="utf-8").replace("ProtectSystem=", "ProtectSytem="),
        encoding="utf-8",
    )
    assert "ProtectSytem" in verify(wrong, tmp_path)


@systemd
@pytest.mark.parametrize(
    ("unit", "threshold"), [(COLLECT, 20), (SERVER, 15)], ids=["collector", "server"]
)
def test_the_exposure_stays_low(unit: Path, threshold: int) -> None:
    """systemd's own score, in tenths; 0 is closed, an ordinary service has 96."""
    command = [
        "systemd-analyze",
        "security",
        "--no-pager",
        "--offline=yes",
        f"--threshold={threshold}",
        str(unit),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr


def test_the_collector_has_no_privilege() -> None:
    unit = settings(COLLECT)
    assert unit["DynamicUser"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"] == [""]
    assert unit["SupplementaryGroups"] == ["labcarbon"]
    assert unit["StateDirectory"] == unit["RuntimeDirectory"] == ["labcarbon"]
    assert unit["RuntimeDirectoryMode"] == ["0755"], "jobs of every user must reach the socket"
    assert "PrivateUsers" not in unit, "the uids of jobs would all read as nobody"


def test_the_watchdog_waits_longer_than_the_daemon_is_silent() -> None:
    daemon = (DEPLOY.parent / "collector" / "labcarbon_collect" / "daemon" / "daemon.py").read_text(
        encoding="utf-8"
    )
    assert "WATCHDOG=1" in daemon
    assert "READY=1" in daemon
    assert settings(COLLECT)["Type"] == ["notify"]
    assert int(settings(COLLECT)["WatchdogSec"][0]) >= 30


def test_the_rule_is_one_line_in_tmpfiles_form() -> None:
    lines = [
        line
        for line in RULE.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines == ["m /sys/class/powercap/*/energy_uj 0440 root labcarbon - -"]


@systemd
@as_root
def test_group_and_rule_let_the_group_alone_read_the_counters(tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0"
    names = tmp_path / "sys/class/powercap"
    for folder in (device, names, tmp_path / "etc/tmpfiles.d", tmp_path / "etc/sysusers.d"):
        folder.mkdir(parents=True)
    (device / "energy_uj").write_text("1\n")
    (device / "energy_uj").chmod(0o400)
    (names / "intel-rapl:0").symlink_to("../../devices/virtual/powercap/intel-rapl/intel-rapl:0")
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    shutil.copy(RULE, tmp_path / "etc/tmpfiles.d/labcarbon.conf")
    shutil.copy(DEPLOY / "labcarbon.sysusers.conf", tmp_path / "etc/sysusers.d/labcarbon.conf")

    subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", "labcarbon.conf"],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        ["systemd-tmpfiles", "--create", f"--root={tmp_path}", "labcarbon.conf"],
        check=True,
        capture_output=True,
    )

    group = re.search(r"(?m)^labcarbon:[^:]*:(\d+):", (tmp_path / "etc/group").read_text())
    assert group is not None
    found = (device / "energy_uj").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, int(group[1]), 0o440)


def test_the_readme_installs_every_file_of_the_folder() -> None:
    told = (DEPLOY / "README.md").read_text(encoding="utf-8") + (
        DEPLOY.parent / "docs" / "install.md"
    ).read_text(encoding="utf-8")
    for path in DEPLOY.iterdir():
        if path.name != "README.md":
            assert f"deploy/{path.name}" in told, path.name
