"""Asking another server on somebody's word: only addresses that may be asked, no redirects, bounded in time and size.

The host is resolved once and the checked address is what is connected to, so that a name cannot point elsewhere the second
time. Proxies of the environment are not used.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apps.core.url_allowlist import Address, Inside, ip_of, why_not

CONNECT_S = 5.0
_CHUNK = 65_536


class OutboundProblem(Exception):
    """Why there is no answer; the text is a sentence for the page. ``too_large``: only the answer's size was wrong."""

    def __init__(self, words: str, *, too_large: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.too_large = too_large


@dataclass(frozen=True)
class Reply:
    """An answer, whatever its status. ``headers`` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(
    address: Address,
    method: str,
    path: str,
    *,
    inside: Inside,
    headers: Mapping[str, str],
    body: bytes | None = None,
    seconds: float,
    most_bytes: int,
    take: Callable[[bytes], None] | None = None,
) -> Reply:
    """Return the answer to one request. ``seconds`` bounds all of it but the name's resolution. Raises OutboundProblem.

    ``take`` gets the body of a 200 in parts as it comes, which then is not kept.
    """
    where = f"{address.host}:{address.port}"
    sock = _connected(address, inside, min(CONNECT_S, seconds))
    clock = _Clock(sock, seconds)
    try:
        if address.scheme == "https":
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.sock = sock
        connection.request(method, address.path + path, body=body, headers={"Accept-Encoding": "identity", **headers})
        with connection.getresponse() as response:
            return _read(response, where, most_bytes, take)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if clock.over:
            raise OutboundProblem(f"{where} did not answer within {seconds:g} s.") from error
        raise OutboundProblem(_words(error, where)) from error
    finally:
        clock.stop()
        sock.close()


class _Clock:
    """Ends a connection when its time is over, however slowly the other side drips."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self.over = False
        self._sock = sock.dup()  # TLS takes the first one over
        sock.settimeout(seconds)
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.over = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it had ended by itself

    def stop(self) -> None:
        self._timer.cancel()
        self._sock.close()


def _connected(address: Address, inside: Inside, seconds: float) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundProblem(f"The name {address.host} is not known here: check its spelling.") from error
    for _, _, _, _, place in found:  # one address that may not be asked spoils the name
        if words := why_not(address, ip_of(str(place[0])), inside):
            raise OutboundProblem(words)
    problem: Exception = OSError("no address")
    for family, kind, protocol, _, place in found:
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(seconds)
        try:
            sock.connect(place)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise OutboundProblem(_words(problem, f"{address.host}:{address.port}")) from problem


def _read(response: http.client.HTTPResponse, where: str, most_bytes: int, take: Callable[[bytes], None] | None) -> Reply:
    headers = {name.lower(): value for name, value in response.getheaders()}
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise OutboundProblem(f"{where} packs its answer though it was asked not to.")
    kept, size = bytearray(), 0
    put = kept.extend if take is None or response.status != 200 else take
    while chunk := response.read(min(_CHUNK, most_bytes + 1 - size)):
        size += len(chunk)
        if size > most_bytes:
            raise OutboundProblem(f"{where} sends more than {most_bytes >> 20} MiB at once.", too_large=True)
        put(chunk)
    told = headers.get("content-length", "")
    if told.isdigit() and size < int(told):
        raise http.client.IncompleteRead(b"")
    return Reply(response.status, headers, bytes(kept))


def _words(error: Exception, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate of {where} is not trusted here: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return f"{where} does not speak TLS: is the address http:// ?"
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refuses the connection: is the server running?"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer in time."
    if isinstance(error, http.client.IncompleteRead):
        return f"The answer of {where} broke off in the middle."
    if isinstance(error, http.client.HTTPException | ValueError):
        return f"{where} does not answer as a web server does."
    return f"The connection to {where} failed: {getattr(error, 'strerror', None) or 'it broke off'}."
