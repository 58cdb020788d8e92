"""Requests to a provider's web API, and files of a folder: limited in time and size, without
redirects. Each error message contains a remedy.
"""

import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from apps.carbon.providers.readings import ProviderError, Readings, parse_json
from apps.carbon.providers.registry import Provider, WebApi
from apps.core.http_client import HttpResponse, OutboundError, send_request
from apps.core.url_allowlist import Address, Allowlist, parse_address
from apps.pollers.clients.connection import parse_wait_s

TIMEOUT_S = 15.0
TOTAL_S = 45.0  # the worker runs no other job meanwhile
MAX_BYTES = 8 << 20
MAX_FILES = 200


@dataclass
class ProviderConnection:
    """Sends requests for one zone of a provider. ``until``: time.monotonic() after which no request
    starts.
    """

    name: str
    provider: Provider
    zone: str
    basis: str
    token: str = field(default="", repr=False)
    until: float = field(default_factory=lambda: time.monotonic() + TOTAL_S)

    def fetch_range(self, start_us: int, end_us: int) -> bytes:
        """Return the response for ``[start_us, end_us)``. Raises ProviderError."""
        web = self._web()
        return self.get(web.range_path(self._code, self.basis, start_us, end_us))

    def fetch_recent(self) -> bytes:
        """Return the response for the last 24 hours. Raises ProviderError."""
        web = self._web()
        if web.recent_path is None:
            raise ProviderError(f"{self.provider.label} has no request for the last 24 hours.")
        return self.get(web.recent_path(self._code, self.basis))

    def fetch_forecast(self, start_us: int, end_us: int) -> bytes:
        """Return the response for the coming hours ``[start_us, end_us)``. Raises ProviderError."""
        web = self._web()
        return self.get(web.forecast_path(self._code, self.basis, start_us, end_us))

    def parse(self, body: bytes) -> Readings:
        """Return the readings of a response. Raises ProviderError."""
        return self.provider.parse(body, self._code, self.basis)

    @property
    def _code(self) -> str:
        return self.provider.code_of(self.zone)

    def _web(self) -> WebApi:
        if self.provider.web is None:
            raise ProviderError(f"{self.provider.label} has no web API.")
        return self.provider.web

    def get(self, path: str) -> bytes:
        """Return the body of a 200 response. Raises ProviderError."""
        address, allowlist = _server(self.name, self._web())
        remaining_s = self.until - time.monotonic()
        if remaining_s <= 0:
            raise ProviderError(f"{address.host} did not return all hours within {TOTAL_S:g} s.")
        web_headers = self._web().headers
        try:
            response = send_request(
                address,
                "GET",
                path,
                allowlist=allowlist,
                headers={
                    "Accept": "application/json",
                    "User-Agent": "LabCarbon",
                    **(web_headers(self.token) if web_headers else {}),
                },
                timeout_s=min(TIMEOUT_S, remaining_s),
                max_bytes=MAX_BYTES,
            )
        except OutboundError as error:
            raise ProviderError(error.message) from error
        if response.status != 200:
            raise self._status_error(address.host, response)
        return response.body

    def _status_error(self, host: str, response: HttpResponse) -> ProviderError:
        status = response.status
        reported = self._reported(response.body)
        if 300 <= status < 400:
            target = urlsplit(response.headers.get("location", "")).netloc
            text = f"{host} redirects{f' to {target[:100]}' if target else ''}. Redirects are not "
            text += "followed."
        elif status in (401, 403):
            remedy = (
                "Check that the token is valid and that its plan contains this zone."
                if self.provider.needs_token
                else "The provider needs no token: check the address."
            )
            text = f"{host} refuses access ({status}). {remedy}{reported}"
        elif status in (429, 503):
            text = f"{host} limits the request rate ({status}). It is tried again later.{reported}"
        elif status in (400, 404, 422):
            text = (
                f"{host} does not accept the request for zone {self.zone} ({status}). Check that "
                f"{self.provider.label} has this zone.{reported}"
            )
        else:
            text = f"{host} returned an error ({status}). It is tried again later.{reported}"
        return ProviderError(
            text, wait_s=parse_wait_s(response.headers.get("retry-after", "")), status=status
        )

    def _reported(self, body: bytes) -> str:
        """Return the message of an error response as a sentence, or ''. The token is masked."""
        try:
            value = parse_json(body)
        except ProviderError:
            return ""
        if not isinstance(value, dict):
            return ""
        text = self._web().error_text(value)
        if self.token and self.token in text:
            text = text.replace(self.token, "***")
        return "" if text in ("", "null") else f" The provider reports: {text}"


def _server(name: str, web: WebApi) -> tuple[Address, Allowlist]:
    """Return the server of a provider: the published one, or the one that the administrator of
    this server names instead, which can be internal.
    """
    replaced = settings.GRID_PROVIDERS.get(name)
    address = parse_address(replaced or web.address)
    hosts = {f"{address.host}:{address.port}".lower()} if replaced else set()
    return address, Allowlist(frozenset(hosts))


def read_folder(lab_slug: str, connection: ProviderConnection) -> Readings:
    """Return the readings of all CSV files in the lab's folder. Raises ProviderError."""
    if not settings.GRID_FOLDER:
        raise ProviderError(
            "No folder is set. The administrator of this server sets LABCARBON_GRID_FOLDER."
        )
    folder = Path(settings.GRID_FOLDER) / lab_slug
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() == ".csv")
    except OSError as error:
        raise ProviderError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    if len(names) > MAX_FILES:
        raise ProviderError(f"The folder has more than {MAX_FILES} files.")
    readings = Readings()
    for name in names:
        try:
            part = connection.parse(_read_file(folder / name))
        except ProviderError as error:
            raise ProviderError(f"{name}: {error.message}") from error
        readings.accepted += part.accepted
        readings.refused += part.refused
    if not readings.accepted and not readings.refused:
        raise ProviderError(
            f"The folder has no rows of zone {connection.zone} on the {connection.basis} basis.",
            is_empty=True,
        )
    return readings


def _read_file(path: Path) -> bytes:
    """Return the content of a regular file. Raises ProviderError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ProviderError("it is not a file.")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProviderError(f"it cannot be read: {error.strerror}.") from error
    if len(content) > MAX_BYTES:
        raise ProviderError(f"it has more than {MAX_BYTES >> 20} MiB.")
    return content
