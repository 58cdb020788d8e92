"""``--system`` on a machine whose /etc has nothing but names and certificates.

The stand-ins of systemd's programs check that what they are given exists. The service itself ran on
Debian 12's systemd by hand.
"""

import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.install.conftest import Node, Server

pytestmark = pytest.mark.xdist_group("install")

_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf", "ld.so.cache", "ssl")
_PROGRAMS = {
    "systemd-run": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
    "systemd-sysusers": 'test -f "/etc/sysusers.d/$1"\n',
    "systemd-tmpfiles": 'test -f "/etc/tmpfiles.d/$2"\n',
    "systemctl": (
        'case "$*" in *labcarbon-collect)\n'
        "test -f /etc/systemd/system/labcarbon-collect.service;; esac\n"
    ),
}


def _programs(folder: Path, log: Path) -> Path:
    """Write the stand-ins, each of which notes its arguments."""
    folder.mkdir()
    for name, text in _PROGRAMS.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>"{log}"\n{text}', encoding="ascii")
        program.chmod(0o755)
    return folder


def _etc(folder: Path) -> Path:
    """Copy the few files of /etc that every machine has."""
    folder.mkdir()
    for name in _ETC:
        source = Path("/etc") / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("private"))
        elif source.exists():
            shutil.copy(source, folder / name)
    return folder


def _install(here: Node, etc: Path, programs: Path, token: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a mount namespace with this /etc and an empty /opt."""
    here.download()
    steps = (
        f"mount --bind {etc} /etc && mount -t tmpfs tmpfs /opt && "
        f"PATH={programs}:$PATH sh {here.script} --system"
    )
    return here.run("unshare", "--mount", "sh", "-c", steps, stdin=token + "\n")


def test_the_service_is_installed_where_no_folder_was_prepared(
    server: Server, node: Callable[..., Node], tmp_path: Path
) -> None:
    here = node(LABCARBON_NODE_ID=str(uuid.uuid4()))
    log, etc = tmp_path / "log", _etc(tmp_path / "etc")
    done = _install(here, etc, _programs(tmp_path / "programs", log), server.token())
    assert done.returncode == 0, done.stderr
    said = log.read_text(encoding="ascii").splitlines()
    assert [line for line in said if line.startswith("systemctl")] == [
        "systemctl daemon-reload",
        "systemctl enable --quiet labcarbon-collect",
        "systemctl restart labcarbon-collect",
    ]
    assert "DynamicUser=yes" in said[0]
    unit = (etc / "systemd" / "system" / "labcarbon-collect.service").read_text(encoding="utf-8")
    assert "ExecStart=/opt/labcarbon-collect/bin/labcarbon-collect daemon" in unit
    assert server.query(f"Token.objects.filter(node_uuid='{here.uuid}').count()") == "1"


def test_a_systemd_that_starts_nothing_is_said(
    server: Server, node: Callable[..., Node], tmp_path: Path
) -> None:
    here = node(LABCARBON_NODE_ID=str(uuid.uuid4()))
    programs = _programs(tmp_path / "programs", tmp_path / "log")
    (programs / "systemd-run").write_text("#!/bin/sh\nexit 238\n", encoding="ascii")
    done = _install(here, _etc(tmp_path / "etc"), programs, server.token())
    assert done.returncode == 238
    assert "journalctl" in done.stderr
    assert not (here.collector / "node-token").exists()
