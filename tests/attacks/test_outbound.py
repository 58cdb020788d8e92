"""Addresses that somebody of a lab may write must not lead the server to where only it can go."""

from ipaddress import ip_network
from typing import Any

import pytest

from apps.core import http_client
from apps.core.errors import InvalidInput
from apps.core.http_client import OutboundError, send_request
from apps.core.url_allowlist import Allowlist, parse_address, parse_ip, refusal_reason
from labcarbon.env import ConfigurationError, read_environment

NOTHING = Allowlist()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mlflow.example.org",
        "ftp://x",
        "file:///etc/passwd",
        "https://",
        "https://user:pw@host",
        "https://user@host",
        "https://host/?q=1",
        "https://host/#x",
        "https://host\\@evil",
        "https://ho st",
        "https://host:0",
        "https://host:99999",
        "https://hö.example",
        "https://host/\r\nX: 1",
        "gopher://x",
        "javascript:alert(1)",
        "https://[::1",
        "https://h/" + "a" * 400,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
    ("https://MLflow.Example.org/", "https://mlflow.example.org"),
    ("http://127.0.0.1:5000", "http://127.0.0.1:5000"), (" https://h:443/ml/ ", "https://h/ml"),
    ("http://[::1]:5000/x", "http://[::1]:5000/x"),
],
)  # fmt: skip
def test_an_address_has_one_form(text: str, plain: str) -> None:
    assert str(parse_address(text)) == plain


INNER = (
    "127.0.0.1",
    "10.0.0.5",
    "192.168.1.1",
    "172.16.9.9",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "::ffff:10.0.0.5",
    "64:ff9b::a00:5",
    "2002:a00:5::1",
)
NEVER = (
    "169.254.169.254",
    "fe80::1",
    "0.0.0.0",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "ff02::1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
)


@pytest.mark.parametrize("ip", INNER)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_inside_is_closed_until_it_is_named(ip: str, scheme: str) -> None:
    address = parse_address(f"{scheme}://mlflow.lab:5000")
    assert "LABCARBON_TRACKER_HOSTS=mlflow.lab:5000" in refusal_reason(
        address, parse_ip(ip), NOTHING
    )
    for inside in (Allowlist(frozenset({"mlflow.lab"})), Allowlist(frozenset({"mlflow.lab:5000"}))):
        assert refusal_reason(address, parse_ip(ip), inside) == ""
    for inside in (Allowlist(frozenset({"mlflow.lab:6000"})), Allowlist(frozenset({"other.lab"}))):
        assert refusal_reason(address, parse_ip(ip), inside)


def test_a_network_opens_what_is_in_it() -> None:
    inside = Allowlist(networks=(ip_network("10.2.0.0/16"),))
    address = parse_address("http://mlflow.lab:5000")
    assert refusal_reason(address, parse_ip("10.2.3.4"), inside) == ""
    assert refusal_reason(address, parse_ip("::ffff:10.2.3.4"), inside) == ""
    assert refusal_reason(address, parse_ip("10.3.0.1"), inside)


def test_what_is_named_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCARBON_TRACKER_HOSTS", "mlflow.lab:5000, 10.2.0.0/16")
    assert read_environment().tracker_hosts == ["mlflow.lab:5000", "10.2.0.0/16"]
    monkeypatch.setenv("LABCARBON_TRACKER_HOSTS", "10.2.0.0/99")
    with pytest.raises(ConfigurationError, match=r"LABCARBON_TRACKER_HOSTS: .*10\.2\.0\.0/99"):
        read_environment()


@pytest.mark.parametrize("ip", NEVER)
def test_what_is_no_servers_address_is_never_asked(ip: str) -> None:
    named = Allowlist(
        frozenset({"h"}), (ip_network("0.0.0.0/0"), ip_network("::/0")), loopback=True
    )
    assert "not a server address" in refusal_reason(parse_address("http://h"), parse_ip(ip), named)


def test_the_outside_is_asked_over_tls_only() -> None:
    assert refusal_reason(parse_address("https://h"), parse_ip("93.184.216.34"), NOTHING) == ""
    assert "use https://" in refusal_reason(
        parse_address("http://h"), parse_ip("93.184.216.34"), NOTHING
    )


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "localhost"])
def test_other_spellings_of_loopback_are_loopback(host: str) -> None:
    with pytest.raises(OutboundError, match=r"internal address|is unknown"):
        send_request(
            parse_address(f"http://{host}:9"),
            "GET",
            "/",
            allowlist=NOTHING,
            headers={},
            timeout_s=2,
            max_bytes=10,
        )


def test_a_name_with_one_inner_address_among_others_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def two(*args: Any, **kwargs: Any) -> list[Any]:
        return [(2, 1, 6, "", ("93.184.216.34", 443)), (2, 1, 6, "", ("10.0.0.5", 443))]

    def never(*args: Any) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(http_client.socket, "getaddrinfo", two)
    monkeypatch.setattr(http_client.socket, "socket", never)
    with pytest.raises(OutboundError, match="internal address"):
        send_request(
            parse_address("https://rebind.example"),
            "GET",
            "/",
            allowlist=NOTHING,
            headers={},
            timeout_s=2,
            max_bytes=10,
        )


def test_the_name_is_asked_for_once_and_the_checked_address_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def first(host: str, port: int, **kwargs: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", 1))]

    monkeypatch.setattr(http_client.socket, "getaddrinfo", first)
    with pytest.raises(OutboundError, match="refused the connection"):
        send_request(
            parse_address("http://h:1"),
            "GET",
            "/",
            allowlist=Allowlist(loopback=True),
            headers={},
            timeout_s=2,
            max_bytes=10,
        )
    assert asked == ["h"]


def test_asset_sources_are_addresses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCARBON_ASSET_SOURCES", " https://NetBox.lab/ ,http://10.2.0.7:8080")
    assert read_environment().asset_sources == ["https://netbox.lab", "http://10.2.0.7:8080"]
    monkeypatch.setenv("LABCARBON_ASSET_SOURCES", "netbox.lab")
    with pytest.raises(ConfigurationError, match=r"LABCARBON_ASSET_SOURCES: 'netbox.lab'"):
        read_environment()
    monkeypatch.delenv("LABCARBON_ASSET_SOURCES")
    assert read_environment().asset_sources == []
