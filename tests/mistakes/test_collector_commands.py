"""Mistakes of a researcher at ``labcarbon-collect run``: the work goes on, one line says what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.faults.installation import Installation, Machine
from tests.mistakes.conftest import measuring, serving
from tests.services.process import wait_until

_USER_TOKEN = """
from apps.accounts.models import Lab, User
from apps.accounts.services.labs import issue_user_token
print(issue_user_token(lab=Lab.objects.get(), user=User.objects.get(), now=1))
"""


def _pushed(node: Machine) -> bool:
    return "last success never" not in node.collect("status").stdout


def test_a_missing_zone_is_reported_with_its_page(
    server: Installation, machine: Callable[..., Machine]
) -> None:
    node = machine()
    node.enrol(server.url, *server.codes(1))
    with measuring(node):
        wait_until(lambda: _pushed(node), what="the first push", every=0.5)
        done = node.collect("run", "--", "python3", "-c", "sum(range(3000000))")
    assert done.returncode == 0
    named, line = done.stderr.strip().splitlines()
    assert server.url in named
    assert "no kg CO2e: set the grid zone" in line
    assert f"{server.url}/nodes/ " in line


def test_a_machine_that_is_not_enrolled_prints_the_command(machine: Callable[..., Machine]) -> None:
    node = machine()
    with measuring(node):
        status, done = node.collect("status").stdout, node.collect("run", "--", "true")
    assert "labcarbon-collect enrol URL" in status
    assert done.returncode == 0
    assert "labcarbon-collect enrol URL" in done.stderr


def test_an_unknown_project_is_reported_and_the_run_continues(
    server: Installation, machine: Callable[..., Machine]
) -> None:
    login = {"LABCARBON_TOKEN": server.shell(_USER_TOKEN), "LABCARBON_URL": server.url}
    done = machine().collect(
        "run", "--project", "nosuch", "--", "sh", "-c", "sleep 0.5; exit 3", environ=login
    )
    assert done.returncode == 3
    assert "'nosuch'" in done.stderr
    assert "--project demo" in done.stderr
    assert f"{server.url}/projects/" in done.stderr


def test_the_server_away_costs_the_run_one_line(machine: Callable[..., Machine]) -> None:
    node = machine()
    login = {"LABCARBON_TOKEN": "lc_user_x", "LABCARBON_URL": "http://127.0.0.1:9"}
    with measuring(node):
        done = node.collect("run", "--", "sh", "-c", "exit 7", environ=login)
    assert done.returncode == 7
    told, closing = done.stderr.strip().splitlines()
    assert "http://127.0.0.1:9: connection refused" in told
    assert "Wh" in closing


def test_status_prints_the_start_of_an_outage(
    server: Installation, machine: Callable[..., Machine], stack: ExitStack
) -> None:
    node, other = (
        machine(),
        Installation(server.data_dir),
    )  # the same lab on a port of its own, which will go away
    with measuring(node):
        with serving(other):
            node.enrol(other.url, *server.codes(1))
            wait_until(lambda: _pushed(node), what="the first push", every=0.5)
        wait_until(
            lambda: "connection refused" in node.collect("status").stdout,
            what="the failed push",
            every=0.5,
        )
        (upload,) = [
            line for line in node.collect("status").stdout.splitlines() if line.startswith("upload")
        ]
        doctor = node.collect("doctor").stdout
    assert " s ago; " in upload
    assert f"{other.url}: connection refused" in upload
    assert f"→ curl -v {other.url}/" in doctor


def test_without_a_daemon_the_run_continues_with_a_hint(machine: Callable[..., Machine]) -> None:
    done = machine().collect("run", "--", "sh", "-c", "exit 5")
    assert done.returncode == 5
    assert "labcarbon-collect daemon" in done.stderr
    assert "run --standalone" in done.stderr


def test_a_missing_command(machine: Callable[..., Machine]) -> None:
    done = machine().collect("run", "--", "no-such-command-anywhere")
    assert done.returncode == 127
    assert "no-such-command-anywhere: command not found" in done.stderr


def test_no_command_given(machine: Callable[..., Machine]) -> None:
    done = machine().collect("run", "--project", "demo")
    assert done.returncode == 1
    assert "labcarbon-collect run --project NAME -- python train.py" in done.stderr


def test_a_parameter_without_a_value(machine: Callable[..., Machine]) -> None:
    done = machine().collect("run", "--param", "lr", "--", "true")
    assert done.returncode == 1
    assert "--param" in done.stderr


def test_status_without_a_daemon(machine: Callable[..., Machine]) -> None:
    done = machine().collect("status")
    assert done.returncode == 1
    assert "labcarbon-collect daemon" in done.stderr
