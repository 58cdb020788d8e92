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

from apps.core.url_allowlist import Address, Allowlist, parse_ip, refusal_reason

CONNECT_S = 5.0
_CHUNK = 65_536


class OutboundError(Exception):
    """Why there is no answer; the text is a sentence for the page. ``too_large``: only the answer's size was wrong."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.too_large = too_large


@dataclass(frozen=True)
class HttpResponse:
    """An answer, whatever its status. ``headers`` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def send_request(
    address: Address,
    method: str,
    path: str,
    *,
    allowlist: Allowlist,
    headers: Mapping[str, str],
    body: bytes | None = None,
    timeout_s: float,
    max_bytes: int,
    on_chunk: Callable[[bytes], None] | None = None,
) -> HttpResponse:
    """Return the answer to one request. ``seconds`` bounds all of it but the name's resolution. Raises OutboundProblem.

    ``take`` gets the body of a 200 in parts as it comes, which then is not kept.
    """
    server = f"{address.host}:{address.port}"
    sock = _connect(address, allowlist, min(CONNECT_S, timeout_s))
    deadline = _DeadlineTimer(sock, timeout_s)
    try:
        if address.scheme == "https":
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.sock = sock
        connection.request(method, address.path + path, body=body, headers={"Accept-Encoding": "identity", **headers})
        with connection.getresponse() as response:
            return _read(response, server, max_bytes, on_chunk)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if deadline.expired:
            raise OutboundError(f"{server} did not answer within {timeout_s:g} s.") from error
        raise OutboundError(_error_message(error, server)) from error
    finally:
        deadline.stop()
        sock.close()


class _DeadlineTimer:
    """Ends a connection when its time is over, however slowly the other side drips."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self.expired = False
        self._sock = sock.dup()  # TLS takes the first one over
        sock.settimeout(timeout_s)
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.expired = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it had ended by itself

    def stop(self) -> None:
        self._timer.cancel()
        self._sock.close()


def _connect(address: Address, allowlist: Allowlist, timeout_s: float) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(f"The name {address.host} is not known here: check its spelling.") from error
    for _, _, _, _, socket_address in addresses:  # one address that may not be asked spoils the name
        if reason := refusal_reason(address, parse_ip(str(socket_address[0])), allowlist):
            raise OutboundError(reason)
    last_error: Exception = OSError("no address")
    for family, kind, protocol, _, socket_address in addresses:
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(timeout_s)
        try:
            sock.connect(socket_address)
        except OSError as error:
            sock.close()
            last_error = error
        else:
            return sock
    raise OutboundError(_error_message(last_error, f"{address.host}:{address.port}")) from last_error


def _read(
    response: http.client.HTTPResponse, server: str, max_bytes: int, on_chunk: Callable[[bytes], None] | None
) -> HttpResponse:
    headers = {name.lower(): value for name, value in response.getheaders()}
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise OutboundError(f"{server} packs its answer though it was asked not to.")
    content, size = bytearray(), 0
    write = content.extend if on_chunk is None or response.status != 200 else on_chunk
    while chunk := response.read(min(_CHUNK, max_bytes + 1 - size)):
        size += len(chunk)
        if size > max_bytes:
            raise OutboundError(f"{server} sends more than {max_bytes >> 20} MiB at once.", too_large=True)
        write(chunk)
    content_length = headers.get("content-length", "")
    if content_length.isdigit() and size < int(content_length):
        raise http.client.IncompleteRead(b"")
    return HttpResponse(response.status, headers, bytes(content))


def _error_message(error: Exception, server: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate of {server} is not trusted here: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return f"{server} does not speak TLS: is the address http:// ?"
    if isinstance(error, ConnectionRefusedError):
        return f"{server} refuses the connection: is the server running?"
    if isinstance(error, TimeoutError):
        return f"{server} does not answer in time."
    if isinstance(error, http.client.IncompleteRead):
        return f"The answer of {server} broke off in the middle."
    if isinstance(error, http.client.HTTPException | ValueError):
        return f"{server} does not answer as a web server does."
    return f"The connection to {server} failed: {getattr(error, 'strerror', None) or 'it broke off'}."
