"""Codes and tokens that the server does not take."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.installation import Installation, Machine
from tests.mistakes.conftest import measuring
from tests.services.process import wait_until


def _mends(text: str, url: str) -> bool:
    return f"labcarbon-collect enrol {url}" in text


def test_a_wrong_code_is_reported_with_the_page_for_a_new_one(
    server: Installation, machine: Callable[..., Machine]
) -> None:
    done = machine().collect("enrol", server.url, stdin="AAAA-BBBB-CCCC\n")
    assert done.returncode == 1
    assert _mends(done.stderr, server.url)
    assert f"{server.url}/nodes/enrol/" in done.stderr


def test_no_code_at_all(server: Installation, machine: Callable[..., Machine]) -> None:
    done = machine().collect("enrol", server.url, stdin="")
    assert (done.returncode, "No code was given" in done.stderr) == (1, True)
    assert f"{server.url}/nodes/enrol/" in done.stderr


def test_a_used_up_code(server: Installation, machine: Callable[..., Machine]) -> None:
    (code,) = server.codes(1)
    machine("first").enrol(server.url, code)
    done = machine("second").collect("enrol", server.url, stdin=code + "\n")
    assert done.returncode == 1
    assert _mends(done.stderr, server.url)


def test_a_code_for_a_server_that_is_down(machine: Callable[..., Machine]) -> None:
    done = machine().collect("enrol", "http://127.0.0.1:9", stdin="CODE\n")
    assert done.returncode == 1
    assert (
        "connection refused: check that the server is running and that the port is right"
        in done.stderr
    )
    assert "The code is still valid: try again" in done.stderr


def test_a_token_is_never_sent_by_http_to_another_machine(machine: Callable[..., Machine]) -> None:
    done = machine().collect("enrol", "http://lab.example.org", stdin="CODE\n")
    assert done.returncode == 1
    assert "https://lab.example.org" in done.stderr


def _status_and_doctor(server: Installation, node: Machine) -> tuple[str, str]:
    with measuring(node):
        wait_until(
            lambda: (
                "401" in node.collect("status").stdout or "refuses" in node.collect("status").stdout
            ),
            what="the server's refusal in status",
            every=0.5,
        )
        return node.collect("status").stdout, node.collect("doctor").stdout


def test_status_and_doctor_report_an_expired_token(
    server: Installation, machine: Callable[..., Machine]
) -> None:
    node = machine()
    node.enrol(server.url, *server.codes(1))
    server.shell(
        "from apps.accounts.models import Token\n"
        f"Token.objects.filter(node_uuid='{node.node}').update(expires_us=1)"
    )
    status, doctor = _status_and_doctor(server, node)
    assert _mends(status, server.url), status
    assert "This token has expired" in status
    assert _mends(doctor, server.url), doctor


def test_status_and_doctor_report_a_revoked_token(
    server: Installation, machine: Callable[..., Machine]
) -> None:
    node = machine()
    node.enrol(server.url, *server.codes(1))
    server.shell(
        "from apps.accounts.models import Token\n"
        f"Token.objects.filter(node_uuid='{node.node}').update(revoked_us=1)"
    )
    status, doctor = _status_and_doctor(server, node)
    assert _mends(status, server.url), status
    assert "This token was revoked" in status
    assert _mends(doctor, server.url), doctor
