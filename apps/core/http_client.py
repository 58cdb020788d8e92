"""Requests to URLs that users entered: only permitted addresses, no redirects, bounded time and
size.

The host is resolved once. The connection uses the checked address, so DNS rebinding has no effect.
Proxies of the environment are ignored.
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
    """A failed request. The text is a sentence for the page. ``too_large``: the response exceeded
    its limit.
    """

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.too_large = too_large


@dataclass(frozen=True)
class HttpResponse:
    """A response with any status. ``headers`` by lower-case name."""

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
    """Send a request and return its response. Raises OutboundError.

    ``timeout_s`` limits everything but name resolution. ``on_chunk`` gets the body of a 200
    response in chunks; it is not in the result then.
    """
    server = f"{address.host}:{address.port}"
    sock = _connect(address, allowlist, min(CONNECT_S, timeout_s))
    deadline = _DeadlineTimer(sock, timeout_s)
    try:
        if address.scheme == "https":
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.sock = sock
        connection.request(
            method,
            address.path + path,
            body=body,
            headers={"Accept-Encoding": "identity", **headers},
        )
        with connection.getresponse() as response:
            complete = _read(response, server, max_bytes, on_chunk)
        if deadline.expired:  # a response without a length ends where the connection was closed
            raise TimeoutError
        return complete
    except (OSError, http.client.HTTPException, ValueError) as error:
        if deadline.expired:
            raise OutboundError(f"{server} did not respond within {timeout_s:g} s.") from error
        raise OutboundError(_error_message(error, server)) from error
    finally:
        deadline.stop()
        sock.close()


class _DeadlineTimer:
    """Closes a connection at its deadline, even if the server still sends data slowly."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self.expired = False
        self._sock = sock.dup()  # TLS takes over the original socket.
        sock.settimeout(timeout_s)
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.expired = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already closed

    def stop(self) -> None:
        self._timer.cancel()
        self._sock.close()


def _connect(address: Address, allowlist: Allowlist, timeout_s: float) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(
            f"The host name {address.host} is unknown: check its spelling."
        ) from error
    for _, _, _, _, socket_address in addresses:  # one forbidden address rejects the name
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
    raise OutboundError(
        _error_message(last_error, f"{address.host}:{address.port}")
    ) from last_error


def _read(
    response: http.client.HTTPResponse,
    server: str,
    max_bytes: int,
    on_chunk: Callable[[bytes], None] | None,
) -> HttpResponse:
    headers = {name.lower(): value for name, value in response.getheaders()}
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise OutboundError(f"{server} compresses its response although this was not requested.")
    content, size = bytearray(), 0
    write = content.extend if on_chunk is None or response.status != 200 else on_chunk
    while chunk := response.read(min(_CHUNK, max_bytes + 1 - size)):
        size += len(chunk)
        if size > max_bytes:
            raise OutboundError(
                f"{server} returned more than {max_bytes >> 20} MiB.", too_large=True
            )
        write(chunk)
    content_length = headers.get("content-length", "")
    if content_length.isdigit() and size < int(content_length):
        raise http.client.IncompleteRead(b"")
    return HttpResponse(response.status, headers, bytes(content))


def _error_message(error: Exception, server: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate of {server} is not trusted: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return f"{server} does not support TLS: does the URL start with http://?"
    if isinstance(error, ConnectionRefusedError):
        return f"{server} refused the connection: is the server running?"
    if isinstance(error, TimeoutError):
        return f"{server} did not respond in time."
    if isinstance(error, http.client.IncompleteRead):
        return f"The response of {server} was truncated."
    if isinstance(error, http.client.HTTPException | ValueError):
        return f"{server} did not return a valid HTTP response."
    return (
        f"The connection to {server} failed: {getattr(error, 'strerror', None) or 'it was closed'}."
    )
