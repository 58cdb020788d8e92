"""Addresses that the server may contact for users: public ones over TLS only, internal ones only if
the administrator allows them.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from apps.core.errors import InvalidInput

IP = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
MAX_ADDRESS = 300
_PORTS = {"http": 80, "https": 443}
_NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Address:
    """The address of a server, without user and query. ``path`` is '' or starts with a slash and
    has none at its end.
    """

    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


@dataclass(frozen=True)
class Allowlist:
    """Permitted internal addresses. ``hosts``: names, with ``:port`` to permit only that port."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    loopback: bool = False

    def permits(self, ip: IP, host: str, port: int) -> bool:
        """Return whether the administrator allows an internal address."""
        named = {host.lower(), f"{host.lower()}:{port}"} & self.hosts
        return (
            bool(named)
            or (self.loopback and ip.is_loopback)
            or any(ip in network for network in self.networks)
        )


def parse_allowlist(entries: list[str], *, loopback: bool) -> Allowlist:
    """Parse a list of host names and networks (``10.2.0.0/16``). Raises ValueError for an invalid
    network.
    """
    networks = tuple(ip_network(entry, strict=False) for entry in entries if "/" in entry)
    return Allowlist(
        frozenset(entry.lower() for entry in entries if "/" not in entry), networks, loopback
    )


def parse_address(text: str) -> Address:
    """Parse a URL that a user entered. Raises InvalidInput."""
    plain = text.strip()
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _invalid_address("This is not a URL.") from error
    if parts.scheme not in _PORTS or not host:
        raise _invalid_address("A URL starts with https:// (or http://) and a host.")
    if len(plain) > MAX_ADDRESS or not plain.isascii() or not plain.isprintable() or " " in plain:
        raise _invalid_address(f"A URL has at most {MAX_ADDRESS} printable ASCII characters.")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise _invalid_address(
            "The URL must not contain a user or a password.", "Use their own fields."
        )
    if parts.query or parts.fragment or "?" in plain or "#" in plain:
        raise _invalid_address("The URL must not contain ? or #.")
    if port == 0:
        raise _invalid_address("Port 0 is invalid.")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _invalid_address(
    message: str, hint: str = "Examples: https://tracker.example.org, http://127.0.0.1:5000."
) -> InvalidInput:
    return InvalidInput(message, field="address", hint=hint)


def refusal_reason(address: Address, ip: IP, allowlist: Allowlist) -> str:
    """Return why the host's ``ip`` must not be contacted, or ''."""
    ip = _embedded_ipv4(ip)
    if (
        ip.is_link_local
        or ip.is_multicast
        or ip.is_unspecified
        or (ip.is_reserved and not ip.is_loopback)
    ):
        return f"{address.host} is {ip}, which is not a server address."
    if ip.is_global:
        if address.scheme == "https":
            return ""
        return f"{address.host} is a public address, and http:// is not encrypted: use https://."
    if allowlist.permits(ip, address.host, address.port):
        return ""
    return (
        f"{address.host} is {ip}, an internal address. The administrator of this server can "
        "permit it with "
        f"LABCARBON_TRACKER_HOSTS={address.host}:{address.port}."
    )


def _embedded_ipv4(ip: IP) -> IP:
    """Return the IPv4 address embedded in an IPv6 address, else the address itself."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)


def parse_ip(text: str) -> IP:
    """Parse an address from the resolver, without its zone."""
    return ip_address(text.partition("%")[0])
