"""User names kept, hashed or dropped: in consumers, run facts, the spool, and all sent data."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import string
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect import pseudonyms as module
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.processes.consumers import ConsumerResolver
from labcarbon_collect.pseudonyms import (
    DROP,
    HASH,
    KEEP,
    PSEUDONYM,
    UserNames,
    safe_user_names,
    user_names,
)

from tests.collector.collector_process import Collector, shell, wait_for
from tests.fakes import labcarbon_server as fakes
from tests.fakes.proc_tree import ProcTree

KEY = "5b" * 32
HASHED, DROPPED = UserNames(HASH, KEY.encode()), UserNames(DROP)
RUN = "0b1c7d60-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def no_setting_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(module, "MACHINE_SETTING", tmp_path / "users")
    monkeypatch.setattr(module, "MACHINE_KEY", tmp_path / "users-key")
    return tmp_path


def test_three_modes_of_user_names() -> None:
    assert UserNames().public_name("ana") == "ana"
    assert DROPPED.public_name("ana") == "-"
    digest = hmac.new(KEY.encode(), b"labcarbon user\0ana", hashlib.sha256).hexdigest()
    assert HASHED.public_name("ana") == f"u-{digest[:12]}"
    assert HASHED.public_name("ana") != HASHED.public_name("ben")
    assert UserNames(HASH, b"x" * 32).public_name("ana") != HASHED.public_name("ana"), (
        "another lab has another pseudonym"
    )
    assert KEY not in repr(HASHED)


def test_key_fingerprint_has_eight_digits_and_does_not_reveal_the_key() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}", HASHED.fingerprint)
    assert HASHED.fingerprint != UserNames(HASH, b"x" * 32).fingerprint
    assert (UserNames().stamp, DROPPED.stamp, HASHED.stamp) == (
        "keep",
        "drop",
        f"hash {HASHED.fingerprint}",
    )


NAMES = st.text(string.ascii_lowercase + string.digits + "_", min_size=3, max_size=20).filter(
    lambda name: name[0].isalpha()
)


@given(
    name=NAMES,
    before=st.sampled_from(["", "/home/", "x ", "/data/", "s3://"]),
    after=st.sampled_from(["", "/x.py", " y", "@h"]),
)
def test_name_is_removed_from_texts_and_home_folders(name: str, before: str, after: str) -> None:
    facts = {
        "name": f"{before}{name}{after}",
        "params": {name: [f"{before}{name}"], "d": f"/home/{name}x/y"},
        "n": 1,
    }
    masked = json.dumps(HASHED.mask(facts, name))
    assert not re.search(
        rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])",
        masked.replace('"name"', "").replace('"params"', ""),
    )
    assert f"{name}x" not in masked
    assert UserNames().mask(facts, name) == facts


@pytest.mark.parametrize(
    ("environ", "stamp"),
    [
        ({}, "keep"), ({"LABCARBON_USERS": "keep"}, "keep"), ({"LABCARBON_USERS": "drop"}, "drop"),
        ({"LABCARBON_USERS": "hash", "LABCARBON_USERS_KEY": KEY}, HASHED.stamp),
    ],
)  # fmt: skip
def test_the_setting_is_read(environ: dict[str, str], stamp: str) -> None:
    assert user_names(environ).stamp == stamp


def test_machine_setting_applies_without_an_environment_variable(
    no_setting_of_this_machine: Path,
) -> None:
    (no_setting_of_this_machine / "users").write_text("drop\n")
    assert user_names({}).mode == DROP
    assert user_names({"LABCARBON_USERS": "keep"}).mode == KEEP
    (no_setting_of_this_machine / "users").write_text("hash\n")
    key = no_setting_of_this_machine / "users-key"
    key.write_text(KEY + "\n")
    key.chmod(0o600)
    assert user_names({}) == HASHED
    key.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        user_names({})


def test_command_of_a_person_drops_names_after_an_error() -> None:
    assert safe_user_names({"LABCARBON_USERS": "hash"}).mode == DROP
    assert safe_user_names({"LABCARBON_USERS": "hsah"}).mode == DROP
    assert safe_user_names({"LABCARBON_USERS": "hash", "LABCARBON_USERS_KEY": KEY}) == HASHED


@pytest.mark.parametrize(
    ("settings", "output"),
    [
        ({"LABCARBON_USERS": "hash"}, "secrets.token_hex(32)"),
        ({"LABCARBON_USERS": "hash", "LABCARBON_USERS_KEY": "short"}, "32 are needed"),
        ({"LABCARBON_USERS": "hsah"}, "keep (clear names), hash (pseudonyms) or drop"),
    ],
)
def test_daemon_refuses_a_bad_setting_and_names_the_fix(
    tmp_path: Path, settings: dict[str, str], output: str
) -> None:
    settings = {"LABCARBON_USERS_KEY_FILE": str(tmp_path / "none"), **settings}
    node = Collector(tmp_path, settings)
    done = node.call("daemon")
    assert done.returncode == 1
    assert output in done.stderr
    doctor = json.loads(node.call("doctor", "--json").stdout)
    (response,) = [part for part in doctor if part["name"] == "users"]
    assert response["state"] == "bad"
    assert output in response["what"] + response["mend"]
    assert node.call("run", "--", *shell("exit 7")).returncode == 7, "the command runs anyway"


# End to end: daemon, run, server


def recorded_names(server: fakes.FakeServer) -> set[str]:
    """Return all user names sent to the server, in consumers and in runs."""
    consumers = {
        key for request in server.sent("POST", "ingest/") for key in request.body["consumers"]
    }
    in_consumers = {key[5:].partition("/")[0] for key in consumers if key.startswith("proc:")}
    return in_consumers | {request.body["user"] for request in server.sent("PUT", "runs/")}


@pytest.mark.parametrize("logged_in", [True, False])
@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_no_name_reaches_server_or_spool(
    node: Collector, server: fakes.FakeServer, mode: str, logged_in: bool
) -> None:
    name = module.current_user_name()
    node.settings.update(LABCARBON_USERS=mode, LABCARBON_USERS_KEY=KEY)
    if logged_in:
        node.log_in(server.url)
    node.enrol(server.url)
    node.start()
    assert (node.status() or {})["users"].startswith(mode)
    # The client of the run knows neither setting nor key: the daemon sends its name.
    plain = Collector(node.root, {"LABCARBON_USERS": "keep"})
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.4: pass"
    done = plain.call(
        "run",
        "--name",
        f"by {name}",
        "--param",
        f"data=/home/{name}/x",
        "--",
        "python3",
        "-c",
        busy,
    )
    assert done.returncode == 0
    wait_for(lambda: server.sent("PATCH", "runs/"))
    assert node.stop() == 0
    names = recorded_names(server)
    expected = HASHED.public_name(name) if mode == "hash" else "-"
    assert expected in names
    assert all(PSEUDONYM.fullmatch(part) if mode == "hash" else part == "-" for part in names)
    (put,) = server.sent("PUT", "runs/")
    assert put.body["name"] == f"by {expected}"
    assert put.body["params"] == {"data": f"/home/{expected}/x"}
    word = re.compile(rb"(?<![A-Za-z0-9_])" + name.encode() + rb"(?![A-Za-z0-9_])")
    assert [request.path for request in server.requests if word.search(request.content)] == []
    assert [
        path for path in node.home.iterdir() if path.is_file() and word.search(path.read_bytes())
    ] == []


def test_doctor_and_status_print_the_key_fingerprint(node: Collector) -> None:
    node.settings.update(LABCARBON_USERS="hash", LABCARBON_USERS_KEY=KEY)
    node.start()
    plain = Collector(
        node.root, {"LABCARBON_USERS": "hash", "LABCARBON_USERS_KEY_FILE": str(node.root / "none")}
    )
    responses = {part["name"]: part for part in json.loads(plain.call("doctor", "--json").stdout)}
    assert responses["users"]["state"] == "ok"
    assert HASHED.fingerprint in responses["users"]["what"]
    assert f"users     {HASHED.stamp}" in plain.call("status").stdout


def test_machine_setting_applies_without_a_daemon(
    node: Collector, server: fakes.FakeServer
) -> None:
    node.log_in(server.url)
    node.settings.update(LABCARBON_USERS="hash", LABCARBON_USERS_KEY_FILE=str(node.root / "none"))
    assert node.call("run", "--", "true").returncode == 0
    assert {request.body["user"] for request in server.sent("PUT", "runs/")} == {"-"}
    node.settings["LABCARBON_USERS"] = "keep"
    assert node.call("run", "--", "true").returncode == 0
    assert {request.body["user"] for request in server.sent("PUT", "runs/")} == {
        "-",
        module.current_user_name(),
    }


def test_daemon_uses_the_user_of_the_kernel(node: Collector, server: fakes.FakeServer) -> None:
    """Facts of a client without a login may contain any user. The daemon inserts the caller's."""
    node.enrol(server.url)
    process = node.start()
    facts = {
        "user": "somebody-else",
        "name": "n",
        "started_at": "2026-01-01T00:00:00Z",
        "command": [],
        "params": {},
    }
    node.request({"op": "register", "run": RUN, "pid": process.pid, "facts": facts})
    wait_for(lambda: server.sent("PUT", "runs/"))
    assert server.sent("PUT", "runs/")[0].body["user"] == module.current_user_name()


def test_command_named_after_its_user_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "pwd", SimpleNamespace(getpwuid=lambda uid: SimpleNamespace(pw_name="anabelle"))
    )
    tree = ProcTree(tmp_path / "proc")
    tree.put(50, comm="anabelle-job", uid=1000)
    resolver = ConsumerResolver(str(tree.root), cluster="hpc", users=HASHED, now_ticks=lambda: 0)
    resolver.snapshot()
    masked = HASHED.public_name("anabelle")
    assert resolver.consumer_of(50) == f"proc:{masked}/{masked}-job"
