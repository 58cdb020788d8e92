"""A persistent HTTP connection to the LabCarbon server: verified TLS, bounded time and size,
protected token.
"""

from __future__ import annotations

import email.utils
import gzip
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional
from urllib.parse import urlsplit

from labcarbon_collect import __version__

MAX_RESPONSE_BYTES = 1 << 20
MAX_RETRY_AFTER_S = 3600
CONNECT_TIMEOUT_S = 10.0
DEADLINE_S = 30.0


class InvalidUrlError(Exception):
    """The server's URL or the token cannot be used. The text states the cause and the fix."""


class ServerUnavailable(Exception):
    """No response was received. ``sent``: whether any byte of the request may have reached the
    server.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True)
class Response:
    """A response: status, JSON body (None if it is no JSON), and the seconds to wait, if given."""

    status: int
    body: Any
    retry_after_s: Optional[int] = None
    location: str = ""

    @property
    def error_code(self) -> str:
        """The code of the server's error, "" without one."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("code") or "") if isinstance(error, dict) else ""

    @property
    def error_field(self) -> str:
        """The key of the request to which the server's error belongs, "" without one."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("field") or "") if isinstance(error, dict) else ""

    @property
    def message(self) -> str:
        """The server's error message with its hint."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        if not isinstance(error, dict):
            return f"HTTP {self.status}"
        return " ".join(str(error[key])[:300] for key in ("message", "hint") if error.get(key))


def retry_after(header: Optional[str], *, now_s: float) -> Optional[int]:
    """Return the seconds of a Retry-After header (seconds or HTTP date), at most an hour. None if
    missing or invalid.
    """
    if not header:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), MAX_RETRY_AFTER_S)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return max(0, min(int(date.timestamp() - now_s), MAX_RETRY_AFTER_S))


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine, judged by its text only, without name resolution."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Transport:
    """Requests to one server. Not thread-safe."""

    def __init__(
        self,
        url: str,
        token: Optional[str] = None,
        *,
        deadline_s: float = DEADLINE_S,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        silence_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """``deadline_s`` limits a complete request, however slow the response; ``silence_s`` limits
        the time without a byte; ``max_response_bytes`` limits the size of the response.

        Raises InvalidUrlError.
        """
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host = ""
        if not host or parts.scheme not in ("http", "https"):
            raise InvalidUrlError(
                f"{url!r} is no server URL: use one such as https://labcarbon.example.org"
            )
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidUrlError(
                f"the token for {url} contains characters that no token has: enrol or log in again"
            )
        if parts.username or parts.query or parts.fragment:
            raise InvalidUrlError(
                "the server URL must not contain a user name, a query or a fragment: scheme, host "
                "and path only"
            )
        if parts.scheme == "http" and not is_loopback(host):
            raise InvalidUrlError(
                f"{host} over http would expose the token to the network: use "
                f"https://{parts.netloc}{parts.path}"
            )
        self.url = url.strip().rstrip("/")
        self._scheme, self._host, self._port = parts.scheme, host, port
        self._path = parts.path.rstrip("/")
        self._token = token
        self._deadline_s, self._max_response_bytes = deadline_s, max_response_bytes
        self._silence_s = silence_s
        self._connection: Optional[http.client.HTTPConnection] = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Response:
        """Send one request to ``/api/v1/<path>``. Redirects are not followed. Raises
        ServerUnavailable.
        """
        payload, headers = self._prepare(body)
        is_repeatable = "code" not in (body or {})
        return self._call(method, path, payload, headers, is_repeatable=is_repeatable)

    def upload(self, path: str, content: bytes) -> Response:
        """Send bytes to ``/api/v1/<path>``, as ``call`` does."""
        headers = {**self._prepare(None)[1], "Content-Type": "application/octet-stream"}
        return self._call("POST", path, content, headers, is_repeatable=True)

    def _call(
        self,
        method: str,
        path: str,
        payload: Optional[bytes],
        headers: Mapping[str, str],
        *,
        is_repeatable: bool,
    ) -> Response:
        is_new = self._connection is None
        try:
            return self._attempt(method, path, payload, headers)
        except ServerUnavailable as error:
            # The server may have closed the persistent connection. Retry one time if the request
            # may be repeated: PUT, PATCH, GET, and ingest by window identity. A request with a
            # one-time code may not.
            if (
                is_new
                or not is_repeatable
                or isinstance(error.__cause__, (TimeoutError, socket.timeout))
            ):
                raise
            return self._attempt(method, path, payload, headers)

    def _prepare(self, body: Optional[Mapping[str, Any]]) -> tuple[Optional[bytes], Dict[str, str]]:
        headers = {"Accept": "application/json", "User-Agent": f"labcarbon-collect/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is None:
            return None, headers
        payload = json.dumps(body, separators=(",", ":")).encode()
        headers["Content-Type"] = "application/json"
        if len(payload) > 1024:
            payload = gzip.compress(payload, 6)
            headers["Content-Encoding"] = "gzip"
        return payload, headers

    def _attempt(
        self, method: str, path: str, payload: Optional[bytes], headers: Mapping[str, str]
    ) -> Response:
        connection = self._connect()
        expired = threading.Event()
        alarm = threading.Timer(self._deadline_s, _shut_down, (connection.sock, expired))
        alarm.daemon = True
        try:
            alarm.start()
        except RuntimeError as error:  # in a thread that still runs during interpreter shutdown
            self.close()
            raise ServerUnavailable(
                "Python starts no thread during shutdown", sent=False
            ) from error
        try:
            connection.request(method, f"{self._path}/api/v1/{path}", payload, dict(headers))
            response = self._receive(connection.getresponse())
            if expired.is_set():  # a response without a length ends where the connection was closed
                raise TimeoutError("the response was not complete in time")
            return response
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            reason = str(error) or type(error).__name__
            raise ServerUnavailable(f"{self.url}: {reason}", sent=True) from error
        finally:
            alarm.cancel()

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            timeout_s = min(CONNECT_TIMEOUT_S, self._deadline_s)
            if self._scheme == "https":
                context = ssl.create_default_context()
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=timeout_s, context=context
                )
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
            try:
                connection.connect()
                connection.sock.settimeout(min(self._silence_s, self._deadline_s))
            except OSError as error:
                connection.close()
                raise ServerUnavailable(f"{self.url}: {_describe(error)}", sent=False) from error
            self._connection = connection
        return self._connection

    def _receive(self, response: http.client.HTTPResponse) -> Response:
        """Read at most ``max_response_bytes``. A longer response is invalid."""
        content = response.read(self._max_response_bytes + 1)
        if len(content) > self._max_response_bytes:
            raise ValueError(f"the response is larger than {self._max_response_bytes} bytes")
        expected = response.getheader("Content-Length")
        if expected is not None and expected.isdigit() and len(content) < int(expected):
            raise ValueError("the response is truncated")
        if response.will_close:
            self.close()
        return Response(
            status=response.status,
            body=_parse_json(content),
            retry_after_s=retry_after(response.getheader("Retry-After"), now_s=time.time()),
            location=response.getheader("Location") or "",
        )


def _parse_json(content: bytes) -> Any:
    """Return the value, None for what is no JSON or cannot be stored: a lone surrogate, or an
    integer beyond 64 bits.
    """
    try:
        value = json.loads(content, parse_int=_parse_int)
        if b"\\u" in content:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _parse_int(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("an integer beyond 64 bits")
    return value


def _describe(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); for a private certificate "
            "authority: "
            "export SSL_CERT_FILE=/path/to/authority.pem"
        )
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: check that the server is running and that the port is right"
    return str(error) or type(error).__name__


def _shut_down(connection: Optional[socket.socket], expired: threading.Event) -> None:
    """Shut down the socket of a request that exceeds its deadline."""
    expired.set()
    try:
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
