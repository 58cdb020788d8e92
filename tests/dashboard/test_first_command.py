"""The first command that empty pages offer works when it is pasted."""

import re
import shlex
import subprocess
from html import unescape
from pathlib import Path

import pytest
from django.test import Client

ADDRESSES = ("/", "/runs/", "/projects/", "/projects/demo/")


def command_on(client: Client, address: str, visitor: str) -> list[str]:
    """Return the words of the command on an empty page, for a visitor from an IP address."""
    page = client.get(address, REMOTE_ADDR=visitor).content.decode()
    found = re.search(r'<pre id="first-run">(.*?)</pre>', page, re.DOTALL)
    assert found, address
    return shlex.split(unescape(found[1]))


@pytest.mark.parametrize("address", ADDRESSES)
def test_on_the_machine_of_the_server_the_collector_has_its_path(
    owner: Client, address: str
) -> None:
    collector, *words = command_on(owner, address, "127.0.0.1")
    assert Path(collector).is_absolute()
    version = subprocess.run([collector, "--version"], capture_output=True, text=True, timeout=60)
    assert version.returncode == 0, version.stderr
    assert words[:4] == ["run", "--project", "demo", "--"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_elsewhere_it_is_the_installed_collector(owner: Client, address: str) -> None:
    assert command_on(owner, address, "192.0.2.7")[0] == "labcarbon-collect"


def test_the_work_needs_nothing_but_python(owner: Client, tmp_path: Path) -> None:
    words = command_on(owner, "/", "127.0.0.1")
    work = words[words.index("--") + 1 :]
    assert work[:2] == ["python3", "-c"]
    shorter = [*work[:2], work[2].replace("150_000_000", "1000")]
    done = subprocess.run(shorter, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "332833500\n")
