"""The script of /install/ runs for real, in a network that has no route to any registry."""

from __future__ import annotations

import hashlib
import stat
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.install.conftest import Node, Server
from tests.services.process import wait_until

pytestmark = pytest.mark.xdist_group("install")
Make = Callable[..., Node]


def _id() -> dict[str, str]:
    return {"LABCARBON_NODE_ID": str(uuid.uuid4())}


@contextmanager
def _watching_arguments(secret: str) -> Iterator[list[str]]:
    """Collect the arguments and environments of all processes that contain ``secret``."""
    found: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for folder in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        content = (folder / name).read_bytes()
                    except OSError:
                        continue
                    if secret.encode() in content:
                        found.append(f"{folder}/{name}")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def test_the_network_has_no_route(server: Server, node: Make) -> None:
    assert node().run("ip", "route").stdout == ""
    assert node("b").run("curl", "-m", "5", "https://pypi.org/").returncode != 0


def test_it_installs_enrols_and_measures(server: Server, node: Make) -> None:
    token, here = server.token(uses=1), node(**_id())
    with _watching_arguments(token) as found:
        done = here.install(stdin=token + "\n")
    assert done.returncode == 0, done.stderr
    assert found == []
    assert token not in done.stderr + done.stdout
    assert here.uuid == here.environ["LABCARBON_NODE_ID"]
    assert here.run(str(here.program), "--version").stdout.startswith("labcarbon-collect ")
    wait_until(
        lambda: (
            server.query(f"Node.objects.get(uuid='{here.uuid}').last_push_us is not None") == "True"
        ),
        what="the first reading",
        every=1.0,
    )
    secret = here.collector / "node-token"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert server.query("FleetToken.objects.latest('pk').uses_left") == "0"


def test_the_same_line_upgrades_in_place(server: Server, node: Make) -> None:
    token, here = server.token(), node(**_id())
    assert here.install(stdin=token + "\n").returncode == 0
    spool, secret = here.collector / "spool.db", here.collector / "node-token"
    wait_until(spool.exists, what="the spool")
    before = (spool.stat().st_ino, secret.read_text(), here.daemon_pid)
    package = next(here.home.glob(".local/share/labcarbon-collect/lib/*/site-packages"))
    module = package / "labcarbon_collect" / "cli.py"
    module.write_text("broken", encoding="utf-8")
    done = here.install()
    assert done.returncode == 0, done.stderr
    assert (spool.stat().st_ino, secret.read_text()) == before[:2]
    assert here.daemon_pid != before[2]
    assert not Path(f"/proc/{before[2]}/environ").exists()
    assert module.read_text(encoding="utf-8") != "broken"
    assert here.run(str(here.program), "status").returncode == 0
    assert server.query(f"Token.objects.filter(node_uuid='{here.uuid}').count()") == "1"
    here.stop()
    assert "/proc/" not in here.install().stderr, "a collector that has ended is no error"


def test_a_cloned_disk_is_refused_until_a_manager_allows_it(server: Server, node: Make) -> None:
    token, identity = server.token(), _id()
    first = node("first", **identity)
    assert first.install(stdin=token + "\n").returncode == 0
    first.stop()
    clone = node("clone", **identity)
    done = clone.install(stdin=token + "\n")
    assert done.returncode == 1
    assert "/nodes/add/#known" in done.stderr
    assert not (clone.collector / "node-token").exists()
    assert first.run(str(first.program), "upload").returncode == 0
    server.installation.shell(
        "import uuid\nfrom apps.accounts.models import Lab, User\n"
        "from apps.core.clock import now_us\nfrom apps.fleet.services import allow_known_node\n"
        f"allow_known_node(lab=Lab.objects.get(), uuid=uuid.UUID('{first.uuid}'), "
        "by=User.objects.get(), now=now_us())"
    )
    done = clone.install(stdin=token + "\n")
    assert done.returncode == 0, done.stderr
    again = first.install(stdin=token + "\n")
    assert again.returncode == 1, "the token of the first one has ended, and the UUID is known"


def test_a_waiting_node_measures_and_says_so(server: Server, node: Make) -> None:
    token, here = server.token(approval=True), node(**_id())
    done = here.install(stdin=token + "\n")
    assert done.returncode == 0, done.stderr
    assert "approve" in done.stderr
    wait_until(
        lambda: "approval" in here.run(str(here.program), "status").stdout,
        what="the reason in status",
        every=1.0,
    )
    assert here.install().returncode == 0, "no token is read again"
    assert server.query(f"Node.objects.filter(uuid='{here.uuid}').exists()") == "False"


@pytest.mark.parametrize(("mode", "code"), [(0o600, 0), (0o640, 1), (0o604, 1)])
def test_a_token_file_must_be_private(server: Server, node: Make, mode: int, code: int) -> None:
    token, here = server.token(), node(**_id())
    file = here.home / "token"
    file.write_text(token + "\n", encoding="ascii")
    file.chmod(mode)
    done = here.install("--token-file", str(file))
    assert done.returncode == code, done.stderr
    assert (here.collector / "node-token").exists() is (code == 0)


def test_without_a_token_nothing_is_enrolled(server: Server, node: Make) -> None:
    here = node(**_id())
    done = here.install()
    assert done.returncode == 1
    assert f"{server.url}/nodes/" in done.stderr
    assert not (here.collector / "node-token").exists()


def test_a_piped_script_does_not_read_itself_as_a_token(server: Server, node: Make) -> None:
    here = node(**_id())
    here.download()
    done = here.run("sh", stdin=here.script.read_text(encoding="utf-8"))
    assert done.returncode == 1
    assert "No code was given" in done.stderr


def test_a_changed_file_is_not_installed(server: Server, node: Make) -> None:
    here = node(**_id())
    here.download()
    text = here.script.read_text(encoding="utf-8")
    digest = next(
        line.split()[0]
        for line in text.splitlines()
        if line.endswith("py3-none-any.whl") and len(line.split()) == 3
    )
    wrong = hashlib.sha256(b"other").hexdigest()
    here.script.write_text(text.replace(digest, wrong), encoding="utf-8")
    done = here.run("sh", str(here.script), stdin=server.token() + "\n")
    assert done.returncode == 1
    assert "Download the script again" in done.stderr
    assert not here.program.exists()
    assert not here.data.exists()


def test_an_address_without_tls_is_refused(server: Server, node: Make) -> None:
    here = node()
    here.download()
    text = here.script.read_text(encoding="utf-8")
    for url in ("http://lab.example.org", "http://127.0.0.1.example.org", "ftp://127.0.0.1"):
        here.script.write_text(text.replace(server.url, url), encoding="utf-8")
        done = here.run("sh", str(here.script), stdin="x\n")
        assert done.returncode == 1
        assert "has no TLS" in done.stderr
    assert not here.data.exists()


def test_foreground_runs_the_daemon_and_survives_a_newer_server(server: Server, node: Make) -> None:
    token, here = server.token(), node(**_id())
    file = here.home / "token"
    file.write_text(token + "\n", encoding="ascii")
    file.chmod(0o600)
    here.download()
    script = here.script.read_text(encoding="utf-8").replace("py3-none-any.whl", "py3-old.whl", 1)
    assert here.run("sh", str(here.script), "--token-file", str(file)).returncode == 0
    here.stop()
    here.script.write_text(script, encoding="utf-8")
    done = here.run(
        "timeout", "-s", "INT", "15", "sh", str(here.script), "--foreground",
        "--token-file", str(file),
    )  # fmt: skip
    assert "The installed version is used" in done.stderr
    assert f"node {here.uuid}" in done.stderr
    assert (here.collector / "spool.db").exists()
